//! Bugs to plant: each is a mistake that a core, a store or an adapter could have, made at the border where a wrapper
//! can make it. `mod.rs` shows that each is caught.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A task id is returned before its row is committed.
    AnsweredBeforeCommit,
    /// A start is sent although the intent was not written.
    IntentNotCommitted,
    /// The engine's name for the job is not written.
    HandleForgotten,
    /// A row is written regardless of its version: a lease without a fence.
    NoFence,
    /// A claimed row can be claimed by others at once.
    LeaseOfNoLength,
    /// A repeated start does not say that it is one.
    RepeatIsNotSaid,
    /// A lost reply is taken for "not started".
    LostReplyIsNotStarted,
    /// A cancel is confirmed to the client and not sent to the engine.
    CancelForgetsTheEngine,
    /// The wish to cancel is lost when the row is written.
    WishForgotten,
    /// A row is written without its due time.
    DueTimeForgotten,
    /// What was final is overwritten when the job ends.
    OutcomeOverwritten,
    /// The result is not kept with the end.
    OutputForgotten,
    /// An end is written without its notices.
    NoticeForgotten,
    /// Two calls under one idempotency key both start.
    OnceIgnored,
    /// A row is found by any owner.
    OwnerIgnored,
    /// Slots are not counted.
    SlotsIgnored,
    /// A hint that a job changed is taken for its end.
    HintTakenForEnd,
    /// A job without a hint is assumed to run on.
    NoHintTakenForRunning,
    /// A group is leased to every process that asks.
    GroupWatchedTwice,
    /// A group stays with the process that watched it first.
    GroupNeverTakenOver,
    /// Who takes a group over knows only of jobs that were opened lately.
    TakeoverForgets,
    /// Who takes a row over starts its job as if nothing had been sent.
    TakeoverStartsAnew,
    /// Who has lost a row acts on it all the same.
    LostLeaseKept,
    /// A row is taken from a process that was slow for a third of its lease.
    SlowTakenForDead,
    /// Leases are compared by each process's own clock.
    LeaseByOwnClock,
    /// A process that stops lets go of what others hold.
    LetsGoOfAll,
    /// While the store is away, a write is taken for made.
    WriteTakenForMade,
    /// A lost reply to an insert is taken for "not written", and the row is inserted anew.
    LostReplyIsNotWritten,
    /// A process shows a task as it first saw it.
    StaleRead,
    /// Each process counts the slots that it gave itself.
    SlotsPerProcess,
    /// Each process has idempotency keys of its own.
    OncePerProcess,
    /// A task that has not ended is deleted when it would have expired.
    PurgeUnended,
    /// A task that has expired is deleted although its job still runs.
    PurgeOpen,
    /// What has expired is deleted right after the store's clock was set.
    PurgeInLeap,
    /// An idempotency key is free again once its task has ended.
    KeyFreedEarly,
    /// An idempotency key stands for a call of any owner.
    OnceForAll,
    /// A second answer takes the place of the first.
    AnswerOverridden,
    /// A wish to cancel switches the deadline off.
    CancelStopsDeadline,
    /// A deadline of a job counts from its call.
    DeadlineFromCall,
    /// A deadline is decided without a look at the job.
    DeadlineWithoutLook,
    /// A question that is asked again under the same id is taken for the one that was answered.
    RelistedIsOld,
    /// The first answer is given to every question.
    FirstAnswerStands,
    /// An answer is noted as taken and not given to the engine.
    AnswerForgetsTheEngine,
    /// A job that the engine no longer knows is taken for one that succeeded.
    GoneIsSuccess,
    /// A job that was stopped is taken for one that succeeded.
    CancelledIsSuccess,
    /// An engine that cannot be reached is taken for one that no longer knows its jobs.
    OutageIsGone,
    /// A job that the engine does not list yet is taken for lost.
    NewIsGone,
    /// An engine that asks for patience is taken for one that refuses the job.
    LimitIsRefusal,
    /// A crash of an adapter ends the process.
    CrashEndsProcess,
    /// What a backend is connected to is not looked at.
    IdentityIgnored,
    /// Tasks whose backend a process does not know are ended.
    RowsOfOthersEnded,
    /// A result is kept with another task's end.
    OutputSwapped,
    /// Of twenty writes one is not made.
    WriteLost,
    /// However many tasks of an owner are kept, there is room for one more.
    MostKeptIgnored,
    /// A call that is to be refused waits in line.
    RefusalIgnored,
    /// A task whose answer was given can be taken over.
    AttachToDelivered,
    /// A task can be taken over by a call that is not equal to its own.
    AttachToUnequal,
    /// A job is started without the consent that its tool wants.
    ConsentSkipped,
    /// A job gets the handle of another task than its call refers to.
    ReferenceMixedUp,
    /// A job is started without its sealed arguments.
    SealedForgotten,
    /// What could not be done is tried again a day later.
    BackoffOfADay,
}

use Bug::*;

impl Bug {
    /// Each, with a seed whose world catches it.
    pub(super) const ALL: [(Bug, u64); 61] = [
        (AnsweredBeforeCommit, 0),
        (IntentNotCommitted, 9),
        (HandleForgotten, 0),
        (NoFence, 0),
        (LeaseOfNoLength, 0),
        (RepeatIsNotSaid, 7),
        (LostReplyIsNotStarted, 7),
        (CancelForgetsTheEngine, 3),
        (WishForgotten, 8),
        (DueTimeForgotten, 1),
        (OutcomeOverwritten, 3),
        (OutputForgotten, 0),
        (NoticeForgotten, 0),
        (OnceIgnored, 0),
        (OwnerIgnored, 0),
        (SlotsIgnored, 5),
        (HintTakenForEnd, 0),
        (NoHintTakenForRunning, 6),
        (GroupWatchedTwice, 0),
        (GroupNeverTakenOver, 0),
        (TakeoverForgets, 0),
        (TakeoverStartsAnew, 7),
        (LostLeaseKept, 12),
        (SlowTakenForDead, 7),
        (LeaseByOwnClock, 4),
        (LetsGoOfAll, 34),
        (WriteTakenForMade, 4),
        (LostReplyIsNotWritten, 8),
        (StaleRead, 0),
        (SlotsPerProcess, 17),
        (OncePerProcess, 0),
        (PurgeUnended, 9),
        (PurgeOpen, 0),
        (PurgeInLeap, 9),
        (KeyFreedEarly, 0),
        (OnceForAll, 1),
        (AnswerOverridden, 0),
        (CancelStopsDeadline, 0),
        (DeadlineFromCall, 0),
        (DeadlineWithoutLook, 3),
        (RelistedIsOld, 0),
        (FirstAnswerStands, 1),
        (AnswerForgetsTheEngine, 0),
        (GoneIsSuccess, 0),
        (CancelledIsSuccess, 12),
        (OutageIsGone, 3),
        (NewIsGone, 2),
        (LimitIsRefusal, 11),
        (CrashEndsProcess, 2),
        (IdentityIgnored, 8),
        (RowsOfOthersEnded, 0),
        (OutputSwapped, 0),
        (WriteLost, 0),
        (MostKeptIgnored, 3),
        (RefusalIgnored, 5),
        (AttachToDelivered, 2),
        (AttachToUnequal, 0),
        (ConsentSkipped, 1),
        (ReferenceMixedUp, 2),
        (SealedForgotten, 2),
        (BackoffOfADay, 0),
    ];
}
