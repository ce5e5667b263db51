//! Write requests, split from the values that are returned to the caller. Each is built once by the caller,
//! so that the writer can retry it. It must not know how rows are stored.

use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::entry::EntryColumns;
use super::row::{self, NoticeRow, TaskRow};
use taskbridge_core::tasks::store::{
    AttachRequest, Change, Holder, IdempotencyKey, InsertResult, Lease, NewTask, Quota, SlotLimit,
};
use taskbridge_core::tasks::task::Task;

/// The result of an insert inside the transaction: an [`InsertResult`] without the new task, which the caller
/// already has.
pub(super) enum InsertDecision {
    Inserted,
    Existing { task: Task, same: bool },
    Abandoned(Task),
    NoSlot { slot: Option<String> },
    TooMany,
    TooLarge { stored_bytes: u64 },
}

/// The data of an insert: the columns of the new row instead of the task.
pub(super) struct InsertCommand {
    pub(super) row: TaskRow,
    pub(super) identity: Option<String>,
    /// The task's channel, set even after the task has ended (unlike [`TaskRow::session`]).
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only hints of PostgreSQL contain it"))]
    pub(super) channel: Option<String>,
    pub(super) limits: Vec<SlotLimit>,
    /// [`NewTask::queue_behind`], each slot encoded as in a queue's name.
    pub(super) queue_behind: Vec<String>,
    pub(super) quota: Option<Quota>,
    pub(super) idempotency_key: Option<IdempotencyKey>,
    pub(super) attach: Option<AttachRequest>,
    pub(super) lease: Option<(Holder, Duration)>,
    /// The history entry to write with the row.
    pub(super) history_entry: Option<EntryColumns>,
    pub(super) notices: Vec<NoticeRow>,
}

impl InsertCommand {
    /// Splits the row to be written from the task to be returned.
    pub(super) fn of(new: NewTask) -> Result<(Self, Task), serde_json::Error> {
        let NewTask {
            task,
            identity,
            limits,
            queue_behind,
            quota,
            idempotency_key,
            attach,
            lease,
            transition,
            notices,
        } = new;
        let history_entry = transition.as_ref().map(EntryColumns::of).transpose()?;
        let notices = NoticeRow::of_all(&notices)?;
        let queue_behind = queue_behind.iter().map(|slot| row::encode_slot(slot)).collect();
        let (row, channel) = (TaskRow::of(&task)?, task.origin.channel.clone());
        let command = Self {
            row,
            identity,
            channel,
            limits,
            queue_behind,
            quota,
            idempotency_key,
            attach,
            lease,
            history_entry,
            notices,
        };
        Ok((command, task))
    }

    /// Returns why the owner's quota forbids the row, given the number and bytes of the owner's rows.
    pub(super) fn check_quota(&self, rows: i64, bytes: i64) -> Option<InsertDecision> {
        let quota = self.quota?;
        if rows >= i64::from(quota.rows) {
            return Some(InsertDecision::TooMany);
        }
        let stored_bytes = u64::try_from(bytes).unwrap_or_default();
        let total_bytes = stored_bytes.saturating_add(self.row.body.len() as u64);
        (total_bytes > quota.bytes).then_some(InsertDecision::TooLarge { stored_bytes })
    }
}

impl InsertDecision {
    pub(super) fn into_result(self, task: Task) -> InsertResult {
        match self {
            InsertDecision::Inserted => InsertResult::Created(Task { version: 1, ..task }),
            InsertDecision::Existing { task, same } => InsertResult::Existing { task, same },
            InsertDecision::Abandoned(task) => InsertResult::Abandoned(task),
            InsertDecision::NoSlot { slot } => InsertResult::NoSlot { slot },
            InsertDecision::TooMany => InsertResult::TooMany,
            InsertDecision::TooLarge { stored_bytes } => InsertResult::TooLarge { stored_bytes },
        }
    }
}

/// The data of an update.
pub(super) struct UpdateCommand {
    pub(super) row: TaskRow,
    /// The task's channel, set even after the task has ended (unlike [`TaskRow::session`]).
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only hints of PostgreSQL contain it"))]
    pub(super) channel: Option<String>,
    pub(super) version: u64,
    pub(super) decided_at: Timestamp,
    pub(super) output: Option<String>,
    pub(super) limits: Vec<SlotLimit>,
    pub(super) lease: LeaseChange,
    /// The history entry to write with the row.
    pub(super) history_entry: Option<EntryColumns>,
    pub(super) notices: Vec<NoticeRow>,
}

/// An owned form of [`Lease`].
pub(super) enum LeaseChange {
    Keep,
    Release(String),
    Acquire(String, Duration),
}

impl UpdateCommand {
    /// Copies the data to be written, so that the writer can own it.
    pub(super) fn of(change: Change<'_>) -> Result<Self, serde_json::Error> {
        Ok(Self {
            row: TaskRow::of(change.task)?,
            channel: change.task.origin.channel.clone(),
            version: change.task.version,
            decided_at: change.decided_at,
            output: change.output.map(serde_json::to_string).transpose()?,
            limits: change.limits.to_vec(),
            notices: NoticeRow::of_all(change.notices)?,
            lease: match change.lease {
                Lease::Keep => LeaseChange::Keep,
                Lease::Release(holder) => LeaseChange::Release(holder.0.clone()),
                Lease::Acquire(holder, lease) => LeaseChange::Acquire(holder.0.clone(), lease),
            },
            history_entry: change.transition.map(EntryColumns::of).transpose()?,
        })
    }
}
