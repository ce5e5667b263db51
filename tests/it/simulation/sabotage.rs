//! Bugs to plant: each is a mistake that a core, a store or an adapter could have, made at the border where a wrapper
//! can make it. `mod.rs` shows that each is caught.

use taskbridge_sdk::sim::Mode;

/// A planted bug, and the first seed that catches it.
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
    /// Two calls under one idempotency key both start.
    OnceIgnored,
    /// A row is found whoever asks.
    OwnerIgnored,
    /// Slots are not counted.
    SlotsIgnored,
}

impl Bug {
    pub(super) const ALL: [Bug; 15] = [
        Bug::ToldBeforeCommit,
        Bug::IntentNotCommitted,
        Bug::HandleForgotten,
        Bug::NoFence,
        Bug::LeaseOfNoLength,
        Bug::RepeatIsNotSaid,
        Bug::LostReplyIsNotStarted,
        Bug::CancelForgetsTheEngine,
        Bug::WishForgotten,
        Bug::DueTimeForgotten,
        Bug::OutcomeOverwritten,
        Bug::OutputForgotten,
        Bug::OnceIgnored,
        Bug::OwnerIgnored,
        Bug::SlotsIgnored,
    ];

    /// The engine on which the bug shows.
    pub(super) fn mode(self) -> Mode {
        match self {
            Bug::IntentNotCommitted | Bug::RepeatIsNotSaid | Bug::LostReplyIsNotStarted => Mode::Unkeyed,
            _ => Mode::Keyed,
        }
    }

    /// The first seed that catches it.
    pub(super) fn caught_by(self) -> u64 {
        match self {
            Bug::ToldBeforeCommit
            | Bug::IntentNotCommitted
            | Bug::LeaseOfNoLength
            | Bug::CancelForgetsTheEngine
            | Bug::OutcomeOverwritten => 1,
            Bug::WishForgotten | Bug::DueTimeForgotten | Bug::OnceIgnored => 2,
            Bug::SlotsIgnored => 7,
            Bug::NoFence => 193,
            _ => 0,
        }
    }
}
