//! Hook for an EventBridge API destination: it verifies the secret that the destination's connection adds as
//! a header, and parses the event. It must not reveal the secret. An event is only a hint to poll the
//! execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use taskbridge_sdk::{Delivery, Hooks, JobHandle, Secret, Told, same_secret};

use crate::arn::{ExecutionArn, attached};
use crate::progress::ExecutionTracker;

/// Header that contains the secret.
pub(crate) const HEADER: &str = "x-taskbridge-secret";

/// Hook that accepts posts with the right secret.
pub(crate) struct Hook {
    secret: Secret,
    watch: Arc<ExecutionTracker>,
    /// True once a post that is not such an event was logged.
    told: AtomicBool,
}

impl Hook {
    pub(crate) fn new(secret: Secret, watch: Arc<ExecutionTracker>) -> Self {
        Self { secret, watch, told: AtomicBool::new(false) }
    }
}

impl Hooks for Hook {
    fn read(&self, delivery: &Delivery<'_>) -> Option<Told> {
        let given = delivery.header(HEADER)?;
        if !same_secret(given.as_bytes(), self.secret.reveal().as_bytes()) {
            return None;
        }
        let event: Value = serde_json::from_slice(delivery.body).unwrap_or_default();
        let Some(arn) = execution(&event) else {
            if !self.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "what is posted under the right secret is no `Step Functions Execution Status Change` as EventBridge sends it, \
                     and tells nothing: the rule's target must not transform its input"
                );
            }
            return Some(Told::default());
        };
        self.watch.has_news(arn);
        // The execution may be watched as one that was started here, or as one that is only followed.
        let jobs = vec![JobHandle::new(arn), attached(arn)];
        Some(Told { jobs, id: event["id"].as_str().map(str::to_owned) })
    }
}

/// Returns the ARN of the execution in an EventBridge event.
pub(crate) fn execution(event: &Value) -> Option<&str> {
    let arn = event["detail"]["executionArn"].as_str()?;
    ExecutionArn::parse(&JobHandle::new(arn)).is_some().then_some(arn)
}
