//! Webhook delivery for consumers that do not poll: a signed CloudEvents POST for each pending notice, until
//! it is accepted. Pending notices are in the store ([`crate::tasks::notices`]); this module only delivers
//! them. It must not change a task's row, nor delay anything else: a dead or slow receiver costs only a few
//! connections and some memory.
//!
//! [`receiver`] is the config of a receiver, [`event`] the payload, [`signature`] the signature, [`http`]
//! the transport, and [`sender`] the loop.

mod event;
mod http;
mod receiver;
mod sender;
mod signature;

pub use http::Http;
pub use receiver::{Receiver, Receivers};
pub use sender::{DeliveryResult, Notifier, WebhookRequest, WebhookTransport};
pub use signature::{BadSecret, Key};
