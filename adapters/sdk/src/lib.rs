//! All that an adapter author needs, and the vocabulary that the server shares with its adapters.
//!
//! An *engine* is an outside system that runs work. An adapter (trait [`Adapter`]) can connect to one kind of
//! engine; what it connects is a [`Backend`]; one run inside the engine is a *job*. This crate holds those traits,
//! the plain words they speak ([`JobSpec`], [`Observation`], [`Output`], [`Error`], ...), what they do alike ([`Templates`],
//! [`one_line`], [`open_below`], ...), the [`suite`] that every backend must pass, and a simulated engine ([`sim`]) to try
//! things on.
//!
//! It must not know MCP, HTTP, a store, or any real engine: adapters depend on it, and the server does too.

pub mod sim;
pub mod suite;

mod abilities;
mod adapter;
mod backend;
mod below;
mod bounded;
mod budget;
mod cause;
mod checkup;
mod command_line;
mod depth;
mod discovery;
mod error;
mod excerpt;
mod harmless;
mod hooks;
mod job;
mod line;
mod media;
mod near;
mod note;
mod on_behalf_of;
mod output;
mod question;
mod registry;
mod secret;
mod source_file;
mod template;
mod time;

pub use abilities::{Artifacts, LogRequest, LogText, Logs, Questions, Taken, Wakeups};
pub use adapter::{Adapter, Connect, Helper, Problem};
pub use async_trait::async_trait;
pub use backend::Backend;
pub use below::open_below;
pub use bounded::{BoundedFile, open_regular};
pub use budget::Budget;
pub use cause::{find_cause, innermost};
pub use checkup::{Checkup, Finding, PolicyDocument, ToolTarget, Verdict};
pub use command_line::CommandArgument;
pub use depth::{DEEPEST_VALUE, count_values, from_json, limit_depth};
pub use discovery::{DiscoveredTool, Discovery, tool_name};
pub use error::{Error, ErrorKind, Result};
pub use excerpt::{excerpt, is_mostly_text};
pub use harmless::harmless;
pub use hooks::{Delivery, Hooks, Told, same_secret};
pub use job::{
    FileContent, GroupKey, InputFile, JobHandle, JobKey, JobSpec, JobState, Observation, Progress, Started,
    Subject, Trace,
};
pub use line::{one_line, short_line};
pub use media::{is_text, media_type};
pub use near::is_near;
pub use note::{Level, Note};
pub use on_behalf_of::OnBehalfOf;
pub use output::{Artifact, ArtifactData, Content, Embedded, Output};
pub use question::{Answer, Ask, Question};
pub use registry::{Registration, Registry};
pub use schemars::JsonSchema;
pub use secret::Secret;
pub use source_file::SourceFile;
pub use template::{Context, Templates, unknown_parameter};
pub use time::Timestamp;
