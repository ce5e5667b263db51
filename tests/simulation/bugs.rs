//! The bugs to plant: each is a mistake that a core, a store or an adapter could have, made at a border
//! where a wrapper can make it. `main.rs` tests that each is caught.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A task id is returned before its row is committed.
    AnsweredBeforeCommit,
    /// A start is sent although its intent was not written.
    IntentNotCommitted,
    /// The job's handle is not written.
    HandleForgotten,
    /// A row is written regardless of its version: a lease without fencing.
    NoFence,
    /// Others can claim a claimed row at once.
    LeaseOfNoLength,
    /// A repeated start does not report that it is a repeat.
    RepeatNotReported,
    /// A lost reply is treated as "not started".
    LostReplyIsNotStarted,
    /// A cancel is confirmed to the client but not sent to the engine.
    CancelForgetsTheEngine,
    /// The cancel request is lost when the row is written.
    CancelRequestForgotten,
    /// A row is written without its due time.
    DueTimeForgotten,
    /// A terminal state is overwritten when the job ends.
    OutcomeOverwritten,
    /// The output is not stored with the end.
    OutputForgotten,
    /// An end is written without its notices.
    NoticeForgotten,
    /// Two calls under one idempotency key both start.
    OnceIgnored,
    /// Any owner can find a row.
    OwnerIgnored,
    /// Slots are not counted.
    SlotsIgnored,
    /// A hint that a job changed is treated as its end.
    HintTakenForEnd,
    /// A job without a hint is assumed to be running.
    NoHintTakenForRunning,
    /// A group is leased to every process that requests it.
    GroupWatchedTwice,
    /// A group stays with the process that watched it first.
    GroupNeverTakenOver,
    /// A process that takes over a group only knows of recently opened jobs.
    TakeoverForgets,
    /// A process that takes over a row starts its job as if nothing had been sent.
    TakeoverStartsAnew,
    /// A process that has lost a row still acts on it.
    LostLeaseKept,
    /// A row is taken from a process that was slow for a third of its lease.
    SlowTakenForDead,
    /// Leases are compared by each process's own clock.
    LeaseByOwnClock,
    /// A process that stops releases the leases of others.
    ReleasesAllLeases,
    /// While the store is down, a write is treated as committed.
    WriteTakenForMade,
    /// A lost reply to an insert is treated as "not written", and the row is inserted again.
    LostReplyIsNotWritten,
    /// A process shows a task as it first read it.
    StaleRead,
    /// Each process counts only the slots that it granted itself.
    SlotsPerProcess,
    /// Each process has its own idempotency keys.
    OncePerProcess,
    /// A task that has not ended is deleted when it would have expired.
    PurgeUnended,
    /// An expired task is deleted although its job still runs.
    PurgeOpen,
    /// Expired rows are deleted right after the store's clock was set.
    PurgeInLeap,
    /// An idempotency key is free again once its task has ended.
    KeyFreedEarly,
    /// An idempotency key matches calls of any owner.
    OnceForAll,
    /// A second answer replaces the first.
    AnswerOverridden,
    /// A cancel request disables the deadline.
    CancelStopsDeadline,
    /// A job's deadline counts from its call.
    DeadlineFromCall,
    /// A deadline is decided without a poll of the job.
    DeadlineWithoutPoll,
    /// A question that is asked again under the same id is treated as the answered one.
    RelistedIsOld,
    /// The first answer is given to every question.
    FirstAnswerStands,
    /// An answer is recorded as accepted but not sent to the engine.
    AnswerForgetsTheEngine,
    /// A job that the engine no longer knows is treated as successful.
    GoneIsSuccess,
    /// A job that was stopped is treated as successful.
    CancelledIsSuccess,
    /// An unreachable engine is treated as one that no longer knows its jobs.
    OutageIsGone,
    /// A job that the engine does not list yet is treated as lost.
    NewIsGone,
    /// A rate limit of the engine is treated as a refusal of the job.
    LimitIsRefusal,
    /// A crash of an adapter ends the process.
    CrashEndsProcess,
    /// The identity of a backend's engine is not checked.
    IdentityIgnored,
    /// Tasks with a backend unknown to the process are ended.
    RowsOfOthersEnded,
    /// An output is stored with another task's end.
    OutputSwapped,
    /// One of twenty writes is not made.
    WriteLost,
    /// The quota of kept tasks per owner is ignored.
    MostKeptIgnored,
    /// A call that should be refused is queued.
    RefusalIgnored,
    /// A call can attach to a task whose result was delivered.
    AttachToDelivered,
    /// A call can attach to the task of an unequal call.
    AttachToUnequal,
    /// A job is started without the consent that its tool requires.
    ConsentSkipped,
    /// A job gets the handle of another task than its call refers to.
    ReferenceMixedUp,
    /// A job is started without its sealed arguments.
    SealedForgotten,
    /// A failed action is retried a day later.
    BackoffOfADay,
    /// A job that the engine has renamed is polled in its old group.
    RenamedInOldGroup,
    /// The host of a plugin gives a late reply to the next call.
    LateReplyTakenForNext,
    /// The host of a plugin repeats a start under a new key.
    RetryUnderNewKey,
    /// The host of a plugin treats a lost reply to a start as a refusal.
    LostReplyIsRefusal,
    /// The host of a plugin repeats a start although the plugin has no keys.
    ProgramTakenForKeyed,
}

use Bug::*;

impl Bug {
    /// All bugs, each with a seed whose world catches it.
    pub(super) const ALL: [(Bug, u64); 66] = [
        (AnsweredBeforeCommit, 0),
        (IntentNotCommitted, 3),
        (HandleForgotten, 0),
        (NoFence, 0),
        (LeaseOfNoLength, 0),
        (RepeatNotReported, 10),
        (LostReplyIsNotStarted, 10),
        (CancelForgetsTheEngine, 0),
        (CancelRequestForgotten, 23),
        (DueTimeForgotten, 0),
        (OutcomeOverwritten, 1),
        (OutputForgotten, 0),
        (NoticeForgotten, 0),
        (OnceIgnored, 0),
        (OwnerIgnored, 0),
        (SlotsIgnored, 5),
        (HintTakenForEnd, 0),
        (NoHintTakenForRunning, 0),
        (GroupWatchedTwice, 0),
        (GroupNeverTakenOver, 0),
        (TakeoverForgets, 0),
        (TakeoverStartsAnew, 2),
        (LostLeaseKept, 12),
        (SlowTakenForDead, 3),
        (LeaseByOwnClock, 4),
        (ReleasesAllLeases, 83),
        (WriteTakenForMade, 4),
        (LostReplyIsNotWritten, 8),
        (StaleRead, 0),
        (SlotsPerProcess, 17),
        (OncePerProcess, 0),
        (PurgeUnended, 9),
        (PurgeOpen, 24),
        (PurgeInLeap, 56),
        (KeyFreedEarly, 0),
        (OnceForAll, 0),
        (AnswerOverridden, 0),
        (CancelStopsDeadline, 3),
        (DeadlineFromCall, 31),
        (DeadlineWithoutPoll, 0),
        (RelistedIsOld, 10),
        (FirstAnswerStands, 9),
        (AnswerForgetsTheEngine, 0),
        (GoneIsSuccess, 0),
        (CancelledIsSuccess, 12),
        (OutageIsGone, 8),
        (NewIsGone, 2),
        (LimitIsRefusal, 3),
        (CrashEndsProcess, 1),
        (IdentityIgnored, 8),
        (RowsOfOthersEnded, 3),
        (OutputSwapped, 0),
        (WriteLost, 0),
        (MostKeptIgnored, 0),
        (RefusalIgnored, 5),
        (AttachToDelivered, 3),
        (AttachToUnequal, 0),
        (ConsentSkipped, 1),
        (ReferenceMixedUp, 2),
        (SealedForgotten, 2),
        (BackoffOfADay, 0),
        (RenamedInOldGroup, 0),
        (LateReplyTakenForNext, 31),
        (RetryUnderNewKey, 0),
        (LostReplyIsRefusal, 0),
        (ProgramTakenForKeyed, 7),
    ];

    /// Reports whether the bug is one of the host of plugins: only worlds with plugins can catch it.
    pub(super) fn is_of_plugins(self) -> bool {
        matches!(self, LateReplyTakenForNext | RetryUnderNewKey | LostReplyIsRefusal | ProgramTakenForKeyed)
    }
}
