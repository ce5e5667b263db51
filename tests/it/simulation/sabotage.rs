//! Bugs to plant: each is a mistake that a core, a store or an adapter could have, made at the border where a wrapper
//! can make it. `mod.rs` shows that each is caught.

use taskbridge_sdk::sim::Mode;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// A task is told of before its row is committed.
    ToldBeforeCommit,
    /// A start is sent although the intent was not written.
    IntentNotCommitted,
    /// The engine's name for the job is not written.
    HandleForgotten,
    /// A row is written whoever wrote it last: a lease without a fence.
    NoFence,
    /// A claimed row can be claimed by others at once.
    LeaseOfNoLength,
    /// A repeated start does not say that it is one.
    RepeatIsNotSaid,
    /// A lost reply is taken for "not started".
    LostReplyIsNotStarted,
    /// A cancellation is told to the client and not to the engine.
    CancelForgetsTheEngine,
    /// The wish to cancel is lost when the row is written.
    WishForgotten,
    /// A row is written without its due time.
    DueTimeForgotten,
    /// What was final is overwritten when the job ends.
    OutcomeOverwritten,
    /// The result is not kept with the end.
    OutputForgotten,
    /// An end is written without what it owes to receivers.
    NoticeForgotten,
    /// Two calls under one idempotency key both start.
    OnceIgnored,
    /// A row is found whoever asks.
    OwnerIgnored,
    /// Slots are not counted.
    SlotsIgnored,
    /// A hint that a job changed is taken for its end.
    HintTakenForEnd,
    /// A job that no hint told of is taken to run on.
    NoHintTakenForRunning,
    /// A group is given to whoever asks for it.
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
    /// Rows are written by each process's own clock.
    OwnClockTrusted,
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
}

use Bug::*;

impl Bug {
    /// Those that show between two processes over one file.
    pub(super) const OF_TWO: [Bug; 15] = [
        ToldBeforeCommit,
        IntentNotCommitted,
        HandleForgotten,
        NoFence,
        LeaseOfNoLength,
        RepeatIsNotSaid,
        LostReplyIsNotStarted,
        CancelForgetsTheEngine,
        WishForgotten,
        DueTimeForgotten,
        OutcomeOverwritten,
        OutputForgotten,
        OnceIgnored,
        OwnerIgnored,
        SlotsIgnored,
    ];

    /// Those of replicas.
    pub(super) const OF_REPLICAS: [Bug; 17] = [
        NoticeForgotten,
        HintTakenForEnd,
        NoHintTakenForRunning,
        GroupWatchedTwice,
        GroupNeverTakenOver,
        TakeoverForgets,
        TakeoverStartsAnew,
        LostLeaseKept,
        SlowTakenForDead,
        LeaseByOwnClock,
        OwnClockTrusted,
        LetsGoOfAll,
        WriteTakenForMade,
        LostReplyIsNotWritten,
        StaleRead,
        SlotsPerProcess,
        OncePerProcess,
    ];

    /// The engine on which the bug shows.
    pub(super) fn mode(self) -> Mode {
        match self {
            IntentNotCommitted | RepeatIsNotSaid | LostReplyIsNotStarted | TakeoverStartsAnew => {
                Mode::Unkeyed
            }
            _ => Mode::Keyed,
        }
    }

    /// A seed that catches it.
    pub(super) fn caught_by(self) -> u64 {
        match self {
            ToldBeforeCommit | IntentNotCommitted | CancelForgetsTheEngine => 1,
            SlowTakenForDead | LostReplyIsNotWritten | StaleRead => 2,
            DueTimeForgotten => 4,
            NoHintTakenForRunning => 6,
            OwnClockTrusted => 8,
            SlotsIgnored => 19,
            WriteTakenForMade => 35,
            OncePerProcess => 41,
            LetsGoOfAll | SlotsPerProcess => 43,
            NoFence => 55,
            LostLeaseKept => 58,
            _ => 0,
        }
    }
}
