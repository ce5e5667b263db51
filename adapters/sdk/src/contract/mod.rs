//! The contract: the traits that an adapter implements, with the types and small functions that belong to a
//! single one of them. [`crate::model`] describes the job itself. This folder must not know any engine, and
//! must not perform I/O.

mod abilities;
mod adapter;
mod backend;
mod budget;
mod checkup;
mod discovery;
mod hooks;
mod registry;

pub use abilities::{Abilities, AnswerOutcome, Artifacts, LogRequest, LogText, Logs, Questions, Wakeups};
pub use adapter::{Adapter, ConnectContext, Helper, Problem};
pub use backend::Backend;
pub use budget::Budget;
pub use checkup::{Checkup, Finding, PolicyDocument, ToolTarget, Verdict};
pub use discovery::{DiscoveredTool, Discovery, tool_name};
pub use hooks::{Delivery, HookEvent, Hooks, same_secret};
pub use registry::{Registration, Registry};
