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

mod config;
mod contract;
mod error;
mod files;
mod model;
mod templates;
mod text;
mod untrusted;

pub use async_trait::async_trait;
pub use config::{Secret, is_forbidden_address, is_local_address, is_metadata_name, is_private_address};
pub use contract::{
    Abilities, Adapter, AnswerOutcome, Artifacts, Backend, Budget, Checkup, ConnectContext, Delivery,
    DiscoveredTool, Discovery, Finding, Helper, HookEvent, Hooks, LogRequest, LogText, Logs, PolicyDocument,
    Problem, Questions, Registration, Registry, ToolTarget, Verdict, Wakeups, same_secret, tool_name,
};
pub use error::{Error, ErrorKind, Result};
pub use files::{BoundedFile, SourceFile, open_confined, open_regular};
pub use model::{
    Answer, Artifact, ArtifactData, Ask, Content, Embedded, FileContent, GroupKey, InputFile, JobHandle,
    JobKey, JobSpec, JobState, Level, Note, Observation, OnBehalfOf, Output, Progress, Question, Started,
    Subject, Timestamp, Trace,
};
pub use schemars::JsonSchema;
pub use templates::{CommandArgument, TemplateContext, Templates, unknown_parameter};
pub use text::{excerpt, find_cause, is_mostly_text, is_text, media_type, one_line, root_cause, short_line};
pub use untrusted::{
    MAX_LINK_BYTES, MAX_VALUE_DEPTH, count_values, from_json, is_page_link, limit_depth, sanitize,
};
