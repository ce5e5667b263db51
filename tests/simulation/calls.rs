//! The calls that clients make: every kind of job, with every option of a call. It must not send them.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_core::tasks::service::{BlockingCall, Call, WhenFull};
use taskbridge_core::tasks::store::{IdempotencyKey, Quota};
use taskbridge_core::tasks::task::{OnExpiry, Origin, Owner, Spec, TaskPolicy};
use taskbridge_sdk::Question;

use super::connection::POISON;
use super::engines::{CALM, ROUGH, SIM};
use super::fixture::call_with;
use super::node::seal_text;
use super::plan::{any_terms, terms};
use super::record::Expected;
use super::rng::Rng;
use super::world::World;

/// The owners. The last one has a quota of kept tasks.
pub(super) const OWNERS: [&str; 3] = ["ana", "ben", QUOTA_OWNER];
pub(super) const QUOTA_OWNER: &str = "cid";
/// That quota.
pub(super) const QUOTA_ROWS: u32 = 3;

/// How long a plain call waits for its result.
pub(super) const CALL_WAIT: Duration = Duration::from_secs(10);

/// A slot with a limit of one.
const SLOT: &str = "group:one-at-a-time";

/// A call and its expected outcome.
pub(super) struct PlannedCall {
    pub(super) call: Call,
    pub(super) expected: Expected,
    /// The job's own duration.
    pub(super) job_duration: Duration,
}

impl PlannedCall {
    fn new(call: Call, expected: Expected) -> Self {
        let job_duration =
            Duration::from_millis(call.spec.arguments["delay_ms"].as_u64().unwrap_or_default());
        Self { call, expected, job_duration }
    }
}

/// Returns a form schema with a number, so that every answer is unique.
fn form() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}})
}

/// Maximum duration of a job that ends by itself and obeys cancels.
pub(super) const MAX_OBEDIENT_RUNTIME: Duration = Duration::from_secs(602);

/// Returns a random job and its expected outcome.
fn any_job(rng: &Rng, n: u32, backend: &str) -> (Value, Expected) {
    let text = format!("output-{n}");
    let random_delay = |max_seconds: u64| 1_000 + rng.below(max_seconds * 1_000);
    match rng.below(10) {
        0 => (json!({"delay_ms": 0, "text": text}), Expected::Text(text)),
        1 | 2 => (json!({"delay_ms": random_delay(20), "text": text}), Expected::Text(text)),
        3 => (json!({"delay_ms": random_delay(600), "text": text, "steps": 10}), Expected::Text(text)),
        4 => (json!({"delay_ms": random_delay(5), "outcome": "fail", "text": text}), Expected::Failure),
        5 => (json!({"delay_ms": random_delay(5), "outcome": "gone"}), Expected::Gone),
        6 | 7 => {
            let times = 1 + rng.below(2);
            let question = json!({"message": "go on?", "schema": form(), "times": times});
            let job = json!({"delay_ms": random_delay(10), "text": text, "question": question});
            (job, Expected::Answered(times as usize))
        }
        8 if backend == ROUGH => {
            (json!({"delay_ms": 86_400_000u64, "text": format!("{POISON}-{n}")}), Expected::Poison)
        }
        8 => {
            // It ignores cancels, and one in four runs for longer than its row is kept.
            let delay = random_delay(120);
            let delay = if delay % 4 == 0 { 30 * delay } else { delay };
            (json!({"delay_ms": delay, "text": text, "ignore_cancel": true}), Expected::Text(text))
        }
        _ => (json!({"delay_ms": 86_400_000u64}), Expected::Endless),
    }
}

/// Varies a job without a random number, so that the seed's other choices stay as they are: the engine renames
/// it, asks to wait before the next poll, or reports that it cannot stop it.
fn vary_job(arguments: &mut Value, n: u32) {
    if n.is_multiple_of(3) {
        arguments["renames"] = true.into();
    }
    if n % 5 == 1 {
        arguments["retry_after_ms"] = 2_000.into();
    }
    if n.is_multiple_of(2) && arguments["ignore_cancel"] == true {
        arguments["cannot_cancel"] = true.into();
    }
}

/// Reports whether the job ignores cancels and takes longer than `MAX_OBEDIENT_RUNTIME`.
fn ignores_cancel_for_long(arguments: &Value) -> bool {
    let job_duration = arguments["delay_ms"].as_u64().map(Duration::from_millis);
    arguments["ignore_cancel"] == true && job_duration > Some(MAX_OBEDIENT_RUNTIME)
}

impl World {
    /// Returns a call of any kind.
    pub(super) fn any_call(&self) -> PlannedCall {
        let (rng, n) = (&*self.rng, self.calls);
        let owner = Owner::new(OWNERS[[0, 0, 0, 1, 1, 2][rng.below(6) as usize]]);
        // A key identifies one call, so its arguments depend on the key.
        let idempotency_key = rng.one_in(4).then(|| format!("once-{}", rng.below(3)));
        let backend = match rng.below(6) {
            _ if idempotency_key.is_some() => SIM,
            0 if self.plan.rough => ROUGH,
            1 => CALM,
            _ => SIM,
        };
        let (mut arguments, expected) = match &idempotency_key {
            Some(key) => (json!({"delay_ms": 3_000, "text": key}), Expected::Text(key.clone())),
            None => any_job(rng, n, backend),
        };
        if idempotency_key.is_none() {
            vary_job(&mut arguments, n);
        }
        let waits_for_people = matches!(expected, Expected::Answered(_));
        // Answers by people take time.
        let long_terms = TaskPolicy { max_runtime: Duration::from_secs(12 * 3600), ..terms() };
        let terms = if waits_for_people { long_terms } else { any_terms(rng) };
        // The row would expire while the job runs.
        let short_ttl = Duration::from_secs(600);
        let terms = if ignores_cancel_for_long(&arguments) {
            TaskPolicy { ttl: short_ttl, keep_result: short_ttl, on_expiry: OnExpiry::Cancel, ..terms }
        } else {
            terms
        };
        let takes_slot = rng.one_in(5)
            && idempotency_key.is_none()
            && !matches!(expected, Expected::Endless | Expected::Poison);
        let refuse_when_full = takes_slot && rng.one_in(4);
        let confirm =
            (idempotency_key.is_none() && rng.one_in(8)).then(|| Question::form("q", "sure?", form()));
        let mut spec = Spec { target: json!({}), arguments, sealed: None, unresolved: Default::default() };
        if let (true, Expected::Text(text)) = (rng.one_in(8) && idempotency_key.is_none(), &expected) {
            spec.arguments["text"] = "sealed".into();
            spec.sealed = Some(seal_text(text));
        }
        let expected = match expected {
            // Only its deadline ends it, and leaves the job running.
            Expected::Endless if terms.on_expiry == OnExpiry::Abandon => {
                spec.arguments["ignore_cancel"] = true.into();
                Expected::Stubborn
            }
            expected => expected,
        };
        let call = Call {
            quota: (owner.as_str() == QUOTA_OWNER).then_some(Quota { rows: QUOTA_ROWS, bytes: u64::MAX }),
            idempotency_key: idempotency_key.map(|key| IdempotencyKey {
                scope: owner.as_str().to_owned(),
                digest: key.clone(),
                key,
            }),
            owner,
            // Identifies the call in its row, so that a check can find two rows of one call.
            origin: Origin { channel: Some(format!("call-{n}")), ..Origin::default() },
            tool: "work".to_owned(),
            backend: backend.to_owned(),
            spec,
            references: Vec::new(),
            terms,
            slots: if takes_slot { vec![SLOT.to_owned()] } else { Vec::new() },
            when_full: if refuse_when_full { WhenFull::Refuse } else { WhenFull::Queue },
            confirm,
            kept_arguments: None,
            variant: None,
            blocking: None,
        };
        PlannedCall::new(call, expected)
    }

    /// Returns a call that waits for its result and can be equal to other calls.
    pub(super) fn plain_call(&self) -> PlannedCall {
        let variant = self.rng.below(3);
        let owner = Owner::new(OWNERS[self.rng.below(2) as usize]);
        let text = format!("plain-{variant} of {}", owner.as_str());
        let cancel_on_abandon = variant == 0;
        let blocking_call = BlockingCall {
            digest: text.clone(),
            timeout: CALL_WAIT,
            attach_within: Duration::from_secs(120),
            cancel_on_abandon,
        };
        let arguments = json!({"delay_ms": 4_000 * variant, "text": text});
        let call = Call { owner, blocking: Some(blocking_call), ..self.calm_call(arguments) };
        PlannedCall::new(call, Expected::Text(text))
    }

    /// Returns a call of the engine without faults.
    pub(super) fn calm_call(&self, arguments: Value) -> Call {
        Call {
            origin: Origin { channel: Some(format!("call-{}", self.calls)), ..Origin::default() },
            backend: CALM.to_owned(),
            ..call_with(arguments)
        }
    }
}
