//! A task, and the filter of a subscription, as the 2026-07-28 messages and those of the tasks extension contain
//! them. Field names and shapes are those of the schemas. `to_wire` and the handlers write the other messages
//! as JSON. It must not decide values.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::mcp::wire::types::TaskStatus;

/// Name of the tasks extension.
pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// `Task`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task<'a> {
    pub(super) task_id: &'a str,
    pub(super) status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status_message: Option<String>,
    pub(super) created_at: String,
    pub(super) last_updated_at: String,
    pub(super) ttl_ms: u64,
    pub(super) poll_interval_ms: u64,
}

/// `DetailedTask`: a task with what its status requires, at most one of the three.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DetailedTask<'a> {
    #[serde(flatten)]
    pub(super) task: Task<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_requests: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<crate::mcp::wire::jsonrpc::Error>,
}

/// `SubscriptionFilter`, with that of the tasks extension: what a client requests, or is granted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Filter {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) tools_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) prompts_list_changed: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) resources_list_changed: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_subscriptions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task_ids: Option<Vec<String>>,
}
