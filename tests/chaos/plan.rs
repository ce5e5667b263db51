//! What each call is to be, by the seed and its number alone: which client makes it, in which engine its job runs, what the job
//! does, and how the client goes on. And what must come of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Random;

/// Which engine runs the job. Each is a backend of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EngineName {
    /// Healthy, with idempotency keys.
    Keyed,
    /// Healthy, without keys.
    Unkeyed,
    /// Hangs now and then: it accepts connections and answers nothing.
    Hanging,
    /// Its replies make the adapter panic now and then.
    Crashing,
    /// Not in every config: it is added and removed while calls are made.
    Added,
}

impl EngineName {
    pub(super) const ALL: [Self; 5] =
        [Self::Keyed, Self::Unkeyed, Self::Hanging, Self::Crashing, Self::Added];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Unkeyed => "unkeyed",
            Self::Hanging => "hanging",
            Self::Crashing => "crashing",
            Self::Added => "added",
        }
    }

    pub(super) fn has_keys(self) -> bool {
        self != Self::Unkeyed
    }

    /// True if nothing is done to the engine itself.
    pub(super) fn is_healthy(self) -> bool {
        matches!(self, Self::Keyed | Self::Unkeyed)
    }
}

/// Which client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    /// Of 2025-11-25, with tasks.
    Old,
    /// The same revision, and calls that wait.
    OldPlain,
    /// Of 2026-07-28, with the extension.
    New,
    /// The same without.
    NewPlain,
}

/// What the client does with its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Waits blocked for the result, where its revision can.
    Wait,
    /// Polls.
    Poll,
    /// Cancels after a while.
    Cancel,
}

/// What the job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Succeeds,
    Fails,
    /// Asks a question, and succeeds with the answer.
    Asks,
    /// The adapter panics at every poll of it.
    Panics,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) number: usize,
    pub(super) engine: EngineName,
    pub(super) speaker: Speaker,
    pub(super) manner: Manner,
    pub(super) work: Work,
    delay_ms: u64,
    /// After how many milliseconds it is cancelled.
    pub(super) cancel_after: u64,
}

/// How a call ended, as its client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Succeeded(String),
    Failed(String),
    Cancelled,
    /// Nobody can know whether there is a job.
    Uncertain,
    /// The adapter panicked too often while it polled the job, so its end is not known.
    GivenUp,
    /// Anything else, in the words of the server.
    Other(String),
}

impl Plan {
    pub(super) fn of(seed: u64, number: usize) -> Self {
        let mut random = Random::new(seed ^ (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let speaker = [Speaker::Old, Speaker::New, Speaker::OldPlain, Speaker::NewPlain][number % 4];
        let with_tasks = matches!(speaker, Speaker::Old | Speaker::New);
        let manner = match random.below(10) {
            0 | 1 if with_tasks => Manner::Cancel,
            2..=5 => Manner::Poll,
            _ => Manner::Wait,
        };
        let work = match random.below(8) {
            0 => Work::Fails,
            1 | 2 if manner != Manner::Cancel => Work::Asks,
            _ => Work::Succeeds,
        };
        let healthy = if random.below(2) == 0 { EngineName::Keyed } else { EngineName::Unkeyed };
        let (delay_ms, cancel_after) = (random.below(3_000), random.below(1_500));
        let engine = match random.below(24) {
            0 | 1 => EngineName::Hanging,
            2 | 3 => EngineName::Crashing,
            4 => EngineName::Added,
            _ => healthy,
        };
        let work = match (engine, work) {
            (EngineName::Crashing, Work::Fails) => Work::Panics,
            _ => work,
        };
        Self { number, engine, speaker, manner, work, delay_ms, cancel_after }
    }

    /// A call whose job runs until it is cancelled. Beside it, a job over which the adapter panics is given up soon.
    pub(super) fn companion(number: usize) -> Self {
        Self {
            number,
            engine: EngineName::Crashing,
            speaker: Speaker::Old,
            manner: Manner::Cancel,
            work: Work::Succeeds,
            delay_ms: 10 * 3_600_000,
            cancel_after: 0,
        }
    }

    /// How long its job works.
    pub(super) fn length(&self) -> Duration {
        Duration::from_millis(self.delay_ms)
    }

    /// True if the time that it takes says how healthy engines are served: nobody is waited for but the engine.
    pub(super) fn is_measured(&self) -> bool {
        self.engine.is_healthy() && self.manner != Manner::Cancel && self.work != Work::Asks
    }

    /// The words that belong to this call alone: its idempotency key, and what its job says.
    pub(super) fn name(&self) -> String {
        format!("call-{}", self.number)
    }

    pub(super) fn tool(&self) -> String {
        let engine = self.engine.as_str();
        let work = match self.work {
            Work::Succeeds => "succeeds",
            Work::Fails => "fails",
            Work::Asks => "asks",
            Work::Panics => "panics",
        };
        format!("{engine}_{work}")
    }

    pub(super) fn arguments(&self) -> Value {
        json!({"text": self.name(), "delay_ms": self.delay_ms})
    }

    /// The answer to the job's question, as a client gives it.
    pub(super) fn answer(&self) -> Value {
        json!({"action": "accept", "content": {"name": self.name()}})
    }

    /// The same call of a client that waits for its end.
    pub(super) fn waiting(self) -> Self {
        Self { manner: Manner::Wait, ..self }
    }

    /// Whether its client cancels it.
    pub(super) fn is_cancelled(&self) -> bool {
        self.manner == Manner::Cancel
    }

    /// How its job ends if nobody stops it.
    pub(super) fn expected(&self) -> Ending {
        let name = self.name();
        match self.work {
            Work::Succeeds | Work::Panics => Ending::Succeeded(name),
            Work::Fails => Ending::Failed(name),
            Work::Asks => {
                let answer = json!({"answer": {"name": name}});
                Ending::Succeeded(format!("{name}{answer}"))
            }
        }
    }
}
