//! Hook for an EventBridge API destination: it verifies the secret that the destination's connection adds as
//! a header, and parses the event. It must not reveal the secret. An event is only a hint to poll the
//! execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use taskbridge_sdk::{Delivery, HookEvent, Hooks, JobHandle, Secret, same_secret};

use crate::identity::handle::{ExecutionArn, attached_handle};
use crate::store::progress::ExecutionTracker;

/// Header that contains the secret.
pub(crate) const SECRET_HEADER: &str = "x-taskbridge-secret";

/// Hook that accepts posts with the right secret.
pub(crate) struct Hook {
    secret: Secret,
    tracker: Arc<ExecutionTracker>,
    /// True once a post that is not such an event was logged.
    warned: AtomicBool,
}

impl Hook {
    pub(crate) fn new(secret: Secret, tracker: Arc<ExecutionTracker>) -> Self {
        Self { secret, tracker, warned: AtomicBool::new(false) }
    }
}

impl Hooks for Hook {
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent> {
        let secret = delivery.header(SECRET_HEADER)?;
        if !same_secret(secret.as_bytes(), self.secret.reveal().as_bytes()) {
            return None;
        }
        let event: Value = serde_json::from_slice(delivery.body).unwrap_or_default();
        let Some(arn) = event_execution_arn(&event) else {
            if !self.warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "hook request ignored: its body is not a `Step Functions Execution Status Change` event of EventBridge; \
                     remove the input transformer of the rule's target"
                );
            }
            return Some(HookEvent::default());
        };
        self.tracker.record_hint(arn);
        // The execution may be watched as one that was started here, or as one that is only followed.
        let jobs = vec![JobHandle::new(arn), attached_handle(arn)];
        Some(HookEvent { jobs, keys: Vec::new(), id: event["id"].as_str().map(str::to_owned) })
    }
}

/// Returns the ARN of the execution in an EventBridge event.
pub(crate) fn event_execution_arn(event: &Value) -> Option<&str> {
    let arn = event["detail"]["executionArn"].as_str()?;
    ExecutionArn::parse(&JobHandle::new(arn)).is_some().then_some(arn)
}
