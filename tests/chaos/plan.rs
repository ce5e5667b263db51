//! The plan of each call, which depends only on the seed and the call's number: the client, the engine, the
//! job, the client's behaviour, and the expected ending.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Random;

/// The engine that runs the job. Each is a backend of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EngineName {
    /// Healthy, with idempotency keys.
    Keyed,
    /// Healthy, without keys.
    Unkeyed,
    /// Hangs sometimes: it accepts connections and answers nothing.
    Hanging,
    /// Its replies sometimes make the adapter panic.
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

    /// Reports whether the engine itself gets no faults.
    pub(super) fn is_healthy(self) -> bool {
        matches!(self, Self::Keyed | Self::Unkeyed)
    }
}

/// The kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientKind {
    /// 2025-11-25, with tasks.
    Old,
    /// 2025-11-25, with calls that wait.
    OldPlain,
    /// 2026-07-28, with the tasks extension.
    New,
    /// 2026-07-28, without the tasks extension.
    NewPlain,
}

/// What the client does with its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAction {
    /// Waits for the result in one request, where its revision can.
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
    /// Makes the adapter panic at every poll.
    Panics,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) number: usize,
    pub(super) engine: EngineName,
    pub(super) client_kind: ClientKind,
    pub(super) client_action: ClientAction,
    pub(super) work: Work,
    delay_ms: u64,
    /// Delay before the cancel, in milliseconds.
    pub(super) cancel_after: u64,
}

/// How a call ended, as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Succeeded(String),
    Failed(String),
    Cancelled,
    /// It is unknowable whether there is a job.
    Uncertain,
    /// The adapter panicked too often while it polled the job, so its end is unknown.
    GivenUp,
    /// Anything else, with the server's message.
    Other(String),
}

impl Plan {
    pub(super) fn of(seed: u64, number: usize) -> Self {
        let mut random = Random::new(seed ^ (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let client_kind =
            [ClientKind::Old, ClientKind::New, ClientKind::OldPlain, ClientKind::NewPlain][number % 4];
        let with_tasks = matches!(client_kind, ClientKind::Old | ClientKind::New);
        let client_action = match random.below(10) {
            0 | 1 if with_tasks => ClientAction::Cancel,
            2..=5 => ClientAction::Poll,
            _ => ClientAction::Wait,
        };
        let work = match random.below(8) {
            0 => Work::Fails,
            1 | 2 if client_action != ClientAction::Cancel => Work::Asks,
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
        Self { number, engine, client_kind, client_action, work, delay_ms, cancel_after }
    }

    /// Returns a call whose job runs until it is cancelled. While it runs, the server soon gives up on a job
    /// whose polls make the adapter panic.
    pub(super) fn background(number: usize) -> Self {
        Self {
            number,
            engine: EngineName::Crashing,
            client_kind: ClientKind::Old,
            client_action: ClientAction::Cancel,
            work: Work::Succeeds,
            delay_ms: 10 * 3_600_000,
            cancel_after: 0,
        }
    }

    /// Returns the duration of the job.
    pub(super) fn job_duration(&self) -> Duration {
        Duration::from_millis(self.delay_ms)
    }

    /// Reports whether the call's duration measures the service of healthy engines: it waits only for the
    /// engine.
    pub(super) fn is_measured(&self) -> bool {
        self.engine.is_healthy() && self.client_action != ClientAction::Cancel && self.work != Work::Asks
    }

    /// Returns the text that identifies this call: its idempotency key and the output of its job.
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

    /// Returns a client's answer to the job's question.
    pub(super) fn answer(&self) -> Value {
        json!({"action": "accept", "content": {"name": self.name()}})
    }

    /// Returns the same call by a client that waits for its end.
    pub(super) fn with_wait(self) -> Self {
        Self { client_action: ClientAction::Wait, ..self }
    }

    /// Reports whether the client cancels the call.
    pub(super) fn is_cancelled(&self) -> bool {
        self.client_action == ClientAction::Cancel
    }

    /// Returns how the job ends if it is not stopped.
    pub(super) fn expected_ending(&self) -> Ending {
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
