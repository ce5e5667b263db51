//! Faults between a caller and the simulated engine: scripted ("the next start loses its reply") or random
//! from a seed. This module selects the next fault; the engine implements its effect.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The engine acts, but its reply is lost.
    LostReply,
    /// The request is lost before it reaches the engine. The caller cannot distinguish this from a lost
    /// reply.
    LostBefore,
    /// The caller gets no reply and gives up. The request arrives after this delay. Only a start can be late;
    /// for any other request, this equals `LostBefore`.
    Late(Duration),
    /// The engine does nothing and asks for a retry after this delay.
    Limited(Duration),
    /// The engine does nothing and reports that it is unavailable.
    Outage,
    /// The engine does nothing, reports that it is unavailable, and asks for a retry after this delay.
    Busy(Duration),
    /// The engine acts immediately, and its reply takes this long.
    Slow(Duration),
    /// The engine forgets the job. A start is acknowledged first; any other request no longer finds the job.
    Gone,
    /// The engine does not list the job yet. Polls and searches get the reply for an unknown job. Other
    /// requests are executed.
    Unlisted,
    /// The engine refuses the request.
    Rejected,
    /// The engine does not accept the credentials.
    Denied,
    /// The engine acts, and the adapter panics when it reads the reply.
    Panic,
}

/// Kind of request that a scripted fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Starts.
    Start,
    /// Searches by key.
    Find,
    /// Polls of jobs. One poll of many jobs is one request.
    Observe,
    /// Requests to cancel.
    Cancel,
    /// Answers to questions.
    Answer,
    /// Reads of logs and files.
    Read,
    /// Discovery of tools.
    Discover,
}

/// Probability of each kind of fault for a request. The seed selects the requests. The default of all is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaultRates {
    /// Probability from 0 to 1 that the engine acts and its reply is lost.
    pub lost_reply: Probability,
    /// Probability from 0 to 1 that the request is lost before it reaches the engine.
    pub lost_before: Probability,
    /// Probability from 0 to 1 that the engine rate limits the request.
    pub limited: Probability,
    /// Delay that a rate limit asks for, in milliseconds.
    pub limited_ms: u64,
    /// Probability from 0 to 1 that the engine is unavailable.
    pub outage: Probability,
    /// Maximum delay of each reply, in milliseconds.
    pub slow_ms: u64,
}

/// A probability from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Probability(f64);

/// Implemented by hand, because a derived schema would not contain the bounds.
impl JsonSchema for Probability {
    fn schema_name() -> Cow<'static, str> {
        "Probability".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 1})
    }
}

impl TryFrom<f64> for Probability {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("{value} is not a probability: write a number from 0 to 1"))
        }
    }
}

/// Effects on one request.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RequestEffects {
    pub(super) fault: Option<Fault>,
    pub(super) pause: Duration,
}

/// Faults that will occur.
pub(super) struct Faults {
    script: [VecDeque<Fault>; 7],
    rates: FaultRates,
    random: SplitMix64,
    outage: bool,
}

impl Faults {
    pub(super) fn new(rates: FaultRates, seed: u64) -> Self {
        Self { script: Default::default(), rates, random: SplitMix64(seed), outage: false }
    }

    pub(super) fn push(&mut self, operation: Operation, fault: Fault) {
        self.script[operation as usize].push_back(fault);
    }

    pub(super) fn clear(&mut self) {
        self.script = Default::default();
    }

    pub(super) fn set_outage(&mut self, outage: bool) {
        self.outage = outage;
    }

    /// Returns the effects on the next request of this kind. During an outage, scripted faults are not used
    /// up. Otherwise they take precedence over random ones.
    pub(super) fn next(&mut self, operation: Operation) -> RequestEffects {
        if self.outage {
            return RequestEffects { fault: Some(Fault::Outage), pause: Duration::ZERO };
        }
        match self.script[operation as usize].pop_front() {
            Some(fault) => RequestEffects { fault: Some(fault), pause: Duration::ZERO },
            None if self.rates == FaultRates::default() => RequestEffects::default(),
            None => self.random_effects(),
        }
    }

    fn random_effects(&mut self) -> RequestEffects {
        let rates = self.rates;
        let kinds = [
            (rates.outage, Fault::Outage),
            (rates.limited, Fault::Limited(Duration::from_millis(rates.limited_ms))),
            (rates.lost_before, Fault::LostBefore),
            (rates.lost_reply, Fault::LostReply),
        ];
        // Every request uses the same number of random values, so that changing one rate does not affect the
        // others.
        let mut fault = None;
        for (rate, kind) in kinds {
            let hit = self.random.fraction() < rate.0;
            if hit && fault.is_none() {
                fault = Some(kind);
            }
        }
        let pause = Duration::from_millis(rates.slow_ms).mul_f64(self.random.fraction());
        RequestEffects { fault, pause }
    }
}

/// Sebastiano Vigna's splitmix64: small, and deterministic on every platform.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 up to, but not including, 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_numbers() {
        let mut random = SplitMix64(1234567);
        assert_eq!([random.next(), random.next()], [6457827717110365317, 3203168211198807973]);
    }

    #[test]
    fn a_seed_replays() {
        let rates = FaultRates {
            lost_reply: Probability(0.3),
            limited: Probability(0.2),
            slow_ms: 10,
            ..FaultRates::default()
        };
        let run = |seed| {
            let mut faults = Faults::new(rates, seed);
            (0..100).map(|_| faults.next(Operation::Start)).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let lost = run(7).iter().filter(|effects| effects.fault == Some(Fault::LostReply)).count();
        assert!((10..=40).contains(&lost), "{lost} of 100");
    }

    /// An injected fault waits for its operation, and for the end of an outage.
    #[test]
    fn fault_script_is_per_operation() {
        let mut faults = Faults::new(FaultRates::default(), 0);
        faults.push(Operation::Start, Fault::LostReply);
        faults.set_outage(true);
        assert_eq!(faults.next(Operation::Start).fault, Some(Fault::Outage));
        faults.set_outage(false);
        assert_eq!(faults.next(Operation::Observe).fault, None);
        assert_eq!(faults.next(Operation::Start).fault, Some(Fault::LostReply));
        assert_eq!(faults.next(Operation::Start).fault, None);
    }

    #[test]
    fn a_rate_beyond_one_is_refused() {
        let error = serde_json::from_str::<FaultRates>(r#"{"limited": 1.5}"#).unwrap_err();
        assert!(error.to_string().contains("1.5 is not a probability"), "{error}");
    }
}
