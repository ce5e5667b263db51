//! What a store keeps of the sessions of clients: that one has ended, its settings, the state of its streams
//! that processes share, and the messages that carry questions to clients. Sessions are above the core: a
//! task knows only the name of its channel, which is the nonce of its session. This module must not depend on
//! a store or on a generation of the protocol.

pub mod deliveries;
mod settings;
pub mod streams;

use std::collections::BTreeMap;

use async_trait::async_trait;
use taskbridge_sdk::Timestamp;

pub use self::deliveries::{DeliveredQuestion, Delivery, DeliveryChange};
pub use self::settings::{
    ClientTaskRecord, ClientTaskStatus, MAX_CLIENT_TASKS, MAX_POLLED_TASKS, QuestionMessage, SessionChange,
    SessionSettings,
};
use crate::tasks::store::{Result, Store};
use crate::tasks::task::TaskId;

/// The session state that a store keeps. The behaviour suite (`store::suite`) has tests for every method.
/// What is past its `forget_after` is deleted by [`crate::tasks::store::TaskStore::purge`].
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Ends a session: it is no longer found, and its settings are deleted. The record of the end is kept
    /// until `forget_after`.
    async fn end(&self, nonce: &str, forget_after: Timestamp) -> Result<()>;

    /// Returns true if the session was ended, and the record of that was not deleted yet.
    async fn has_ended(&self, nonce: &str) -> Result<bool>;

    /// Returns the settings of the session, which are the defaults if none were set; `None` if it was ended.
    async fn settings(&self, nonce: &str) -> Result<Option<SessionSettings>>;

    /// Applies one change to a session's settings, and keeps all of them until `forget_after`. Returns the
    /// new settings. Returns `None` if nothing changed: the session was ended, or one of its limits is
    /// reached (subscriptions, [`MAX_CLIENT_TASKS`], [`MAX_POLLED_TASKS`]).
    async fn set(
        &self,
        nonce: &str,
        change: SessionChange,
        forget_after: Timestamp,
    ) -> Result<Option<SessionSettings>>;
}

/// The newest delivery of each question. Deliveries belong to a task, and are deleted with its row. The
/// behaviour suite (`store::suite`) has tests for both methods.
#[async_trait]
pub trait Deliveries: Send + Sync {
    /// Returns the stored deliveries of a task's questions, by the keys of the questions.
    async fn deliveries(&self, task: &TaskId) -> Result<BTreeMap<String, Delivery>>;

    /// Applies one change to the newest delivery of a question, by the store's clock, and returns the result.
    /// The newest delivery is the stored one, unless the row has a newer one of an older version
    /// ([`DeliveredQuestion::recorded`]). Concurrent changes of one question are applied one after another.
    /// Returns `None` if the change does not apply, or the task does not exist.
    async fn change_delivery(
        &self,
        question: &DeliveredQuestion,
        change: DeliveryChange,
    ) -> Result<Option<Delivery>>;
}

/// All storage traits that the server needs: those of the core, and those of the sessions.
pub trait ServerStore: Store + Sessions + Deliveries {}

impl<T: Store + Sessions + Deliveries> ServerStore for T {}
