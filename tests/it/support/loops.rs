//! What the loops need in a test without the rest of the server: a clock and a catalog of tools.

use std::time::Duration;

use async_trait::async_trait;
use taskbridge::clock::{Clock, Uptime};
use taskbridge::tasks::store::SlotLimit;
use taskbridge::tasks::task::Spec;
use taskbridge::tasks::tools::{OpenedSpec, ToolCatalog};
use taskbridge_sdk::{Output, Result, Timestamp};
use tokio::time::Instant;

/// The paused clock of the tokio runtime, with its start.
pub(crate) struct PausedClock(pub(crate) Instant);

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000) + self.0.elapsed()
    }
}

impl Uptime for PausedClock {
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    fn boot_id(&self) -> String {
        String::new()
    }
}

/// Tools without sealed arguments and without slots. Every output is valid.
pub(crate) struct PlainTools;

#[async_trait]
impl ToolCatalog for PlainTools {
    fn open(&self, spec: &Spec) -> Result<OpenedSpec> {
        Ok(OpenedSpec { arguments: spec.arguments.clone(), files: Vec::new() })
    }

    async fn validate_output(&self, _tool: &str, _output: &Output) -> std::result::Result<(), String> {
        Ok(())
    }

    fn limits(&self, _slots: &[String]) -> Vec<SlotLimit> {
        Vec::new()
    }
}
