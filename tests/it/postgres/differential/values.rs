//! The random values of a history: names, rows, changes of a row and notices.

use std::time::Duration;

use taskbridge::clock::Clock as _;
use taskbridge::tasks::history::{EngineCall, EngineOperation, Fact, Transition};
use taskbridge::tasks::notices::{Notice, NoticeCause, NoticeContent};
use taskbridge::tasks::store::{Holder, ServedBackend, SlotLimit};
use taskbridge::tasks::task::{Job, Origin, Outcome, Owner, Task, TaskId, TaskState, Undelivered};
use taskbridge_sdk::{GroupKey, JobHandle, Timestamp};

use super::{NAMES, RECEIVERS, World};

impl World {
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    pub(super) fn name(&mut self) -> String {
        NAMES[self.random.below(NAMES.len() as u64) as usize].to_owned()
    }

    /// Returns a connected backend whose identity may be unknown.
    pub(super) fn served(&mut self) -> ServedBackend {
        let identity = self.chance(50).then(|| self.name());
        ServedBackend { backend: self.name(), identity }
    }

    pub(super) fn holder(&mut self) -> Holder {
        Holder(["one", "two"][self.random.below(2) as usize].to_owned())
    }

    pub(super) fn next_due_time(&mut self) -> Timestamp {
        self.due += 1;
        self.clock.now() + Duration::from_millis(self.due % 97 * 1_000 + self.due)
    }

    pub(super) fn limits(&mut self, slots: &[String]) -> Vec<SlotLimit> {
        let limit = 1 + self.random.below(3) as u32;
        slots.iter().map(|slot| SlotLimit { slot: slot.clone(), limit }).collect()
    }

    /// Returns the row after some random change.
    pub(super) fn mutate_task(&mut self, task: Task) -> Task {
        let (now, due) = (self.clock.now(), self.next_due_time());
        let spec = match self.bench.task().job {
            Job::Pending { spec, .. } => spec,
            other => panic!("a new row is pending, and not {other:?}"),
        };
        let job = match self.random.below(6) {
            0 => Job::Pending { spec, queued: false, attempts: 1, not_before: now },
            1 => Job::Pending { spec, queued: true, attempts: 0, not_before: now },
            2 => Job::Starting { spec, attempts: 1, sought: None, first_attempt_at: None, not_before: now },
            3 | 4 => {
                let (handle, group) = (JobHandle::new(self.name()), GroupKey::new(self.name()));
                Job::Open { handle, group, started_at: now }
            }
            _ => Job::Closed { handle: None },
        };
        let closed = matches!(job, Job::Closed { .. });
        let has_ended = closed || self.chance(10);
        let digest = self.name();
        Task {
            job,
            due_at: (!closed).then_some(due),
            ended_at: task.ended_at.or(has_ended.then_some(now)),
            state: if has_ended { TaskState::Ended(Outcome::Succeeded) } else { task.state },
            message: Some(self.name()),
            undelivered: self.chance(30).then_some(Undelivered { digest, waiting_until: due }),
            ..task
        }
    }

    pub(super) fn transition(&mut self, percent: u64) -> Option<Transition> {
        let what = vec![Fact::Asked(self.name()), Fact::Attempt(self.random.below(9) as u32)];
        let call = self.chance(50).then_some(EngineCall { to: EngineOperation::Look, ms: 7 });
        self.chance(percent).then_some(Transition { replica: self.name(), what, call })
    }

    /// Returns notices for a change of this row.
    pub(super) fn notices_for(&mut self, task: &Task) -> Vec<Notice> {
        let mut notices = Vec::new();
        while self.chance(30) {
            let what = NoticeCause::Asks(self.name());
            let content =
                NoticeContent { task: task.id.clone(), tool: self.name(), at: self.clock.now(), what };
            // Some notices occur twice. Those that are due at the same time are ordered by id.
            let id = format!("{} {}", task.id.as_str(), self.random.below(3));
            notices.push(Notice {
                id,
                receiver: RECEIVERS[self.random.below(2) as usize].to_owned(),
                content,
            });
        }
        notices
    }

    pub(super) fn new_task(&mut self) -> Task {
        let mut bytes = [0; 20];
        bytes[..8].copy_from_slice(&self.random.next().to_be_bytes());
        let task = self.bench.task();
        let mut slots = Vec::new();
        for slot in ["s", "t\0"] {
            if self.chance(35) {
                slots.push(slot.to_owned());
            }
        }
        let session = self.chance(50).then(|| self.name());
        let task = Task {
            id: TaskId::from_bytes(bytes),
            owner: Owner::new(self.name()),
            tool: self.name(),
            backend: self.name(),
            origin: Origin { channel: session, ..Origin::default() },
            slots,
            ..task
        };
        self.mutate_task(task)
    }
}
