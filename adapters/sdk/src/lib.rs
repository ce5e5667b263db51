//! SDK for adapter authors, and the vocabulary that the server shares with its adapters.
//!
//! An *engine* is an external system that runs work. An adapter (trait [`Adapter`]) can connect to one kind
//! of engine. A configured connection is a [`Backend`], and one run inside the engine is a *job*. This crate
//! contains:
//!
//! - those traits, and the plain data types that they use ([`JobSpec`], [`Observation`], [`Output`],
//!   [`Error`], ...);
//! - helpers that several adapters need ([`Templates`], [`one_line`], [`open_confined`], ...);
//! - the [`suite`] of behaviour tests that every backend must pass;
//! - a simulated engine ([`sim`]) for experiments and tests.
//!
//! Both the adapters and the server depend on it, so it must not contain code for MCP, HTTP, a store, or any
//! real engine. Some data types only have the shape of MCP's, such as [`Content`] and [`Ask`].

pub mod sim;
pub mod suite;

mod abilities;
mod adapter;
mod backend;
mod bounded;
mod budget;
mod cause;
mod checkup;
mod command_line;
mod confined_open;
mod depth;
mod discovery;
mod error;
mod excerpt;
mod hooks;
mod job;
mod local_address;
mod media;
mod note;
mod on_behalf_of;
mod output;
mod question;
mod registry;
mod sanitize;
mod secret;
mod single_line;
mod source_file;
mod template;
mod time;

pub use abilities::{Abilities, AnswerOutcome, Artifacts, LogRequest, LogText, Logs, Questions, Wakeups};
pub use adapter::{Adapter, ConnectContext, Helper, Problem};
pub use async_trait::async_trait;
pub use backend::Backend;
pub use bounded::{BoundedFile, open_regular};
pub use budget::Budget;
pub use cause::{find_cause, root_cause};
pub use checkup::{Checkup, Finding, PolicyDocument, ToolTarget, Verdict};
pub use command_line::CommandArgument;
pub use confined_open::open_confined;
pub use depth::{MAX_VALUE_DEPTH, count_values, from_json, limit_depth};
pub use discovery::{DiscoveredTool, Discovery, tool_name};
pub use error::{Error, ErrorKind, Result};
pub use excerpt::{excerpt, is_mostly_text};
pub use hooks::{Delivery, HookEvent, Hooks, same_secret};
pub use job::{
    FileContent, GroupKey, InputFile, JobHandle, JobKey, JobSpec, JobState, Observation, Progress, Started,
    Subject, Trace,
};
pub use local_address::is_local_address;
pub use media::{is_text, media_type};
pub use note::{Level, Note};
pub use on_behalf_of::OnBehalfOf;
pub use output::{Artifact, ArtifactData, Content, Embedded, Output};
pub use question::{Answer, Ask, Question};
pub use registry::{Registration, Registry};
pub use sanitize::sanitize;
pub use schemars::JsonSchema;
pub use secret::Secret;
pub use single_line::{one_line, short_line};
pub use source_file::SourceFile;
pub use template::{TemplateContext, Templates, unknown_parameter};
pub use time::Timestamp;
