//! Tells those who do not poll: a signed CloudEvents POST for each notice that they are owed, until they have it. What is
//! owed is in the store ([`crate::tasks::notices`]); here is only how it gets there. It must not touch a row, nor hold up
//! anything else: a receiver that is dead or slow costs a few connections and some memory, and nobody else's time.
//!
//! [`receiver`] is what the config says of one, [`event`] what is sent, [`signature`] who it is from, [`http`] the way, and
//! [`sender`] the loop.

mod event;
mod http;
mod receiver;
mod sender;
mod signature;

pub use http::Http;
pub use receiver::{Receiver, Receivers};
pub use sender::{Answer, Carrier, Letter, Notifier};
pub use signature::{BadSecret, Key};
