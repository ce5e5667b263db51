//! What each call is to be, by the seed and its number alone: which client makes it, in which engine its job runs, what the job
//! does, and how the client goes on. And what must come of it.

use serde_json::{Value, json};

use crate::support::Random;

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
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) number: usize,
    pub(super) keyed: bool,
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
        Self {
            number,
            keyed: random.below(2) == 0,
            speaker,
            manner,
            work,
            delay_ms: random.below(3_000),
            cancel_after: random.below(1_500),
        }
    }

    /// The words that belong to this call alone: its idempotency key, and what its job says.
    pub(super) fn name(&self) -> String {
        format!("call-{}", self.number)
    }

    pub(super) fn tool(&self) -> String {
        let engine = if self.keyed { "keyed" } else { "unkeyed" };
        let work = match self.work {
            Work::Succeeds => "succeeds",
            Work::Fails => "fails",
            Work::Asks => "asks",
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
            Work::Succeeds => Ending::Succeeded(name),
            Work::Fails => Ending::Failed(name),
            Work::Asks => {
                let answer = json!({"answer": {"name": name}});
                Ending::Succeeded(format!("{name}{answer}"))
            }
        }
    }
}
