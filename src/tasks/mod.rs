//! The core: durable tasks over jobs. It knows what a task is ([`task`]), how one moves ([`machine`]), where rows
//! live ([`store`], as a trait), and does what is owed ([`reconciler`]); [`service`] has the verbs that every
//! protocol generation speaks. It must not know a protocol, a transport, a database or an engine: it imports the
//! sdk and the clock, and nothing else of ours.

pub mod asking;
pub mod audit;
pub mod history;
pub mod ledger;
pub mod machine;
pub mod meter;
pub mod notices;
pub mod pace;
pub mod reconciler;
pub mod service;
pub mod slots;
pub mod store;
pub mod streams;
pub mod task;
mod terms;
pub mod time;
pub mod tools;
pub mod watch;
