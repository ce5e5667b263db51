//! A task as the 2025-11-25 messages contain it. Field names and shapes are those of the schema. `to_wire` and
//! the handlers write the other messages as JSON. It must not decide values.

use serde::Serialize;

use crate::mcp::wire::types::TaskStatus;

/// `Task`, and with it `GetTaskResult`, `CancelTaskResult` and `TaskStatusNotificationParams`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task<'a> {
    pub(super) task_id: &'a str,
    pub(super) status: TaskStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status_message: Option<String>,
    pub(super) created_at: String,
    pub(super) last_updated_at: String,
    pub(super) ttl: u64,
    pub(super) poll_interval: u64,
}
