//! What the core needs to know about tools, as a trait, so that it does not depend on the catalog.

use async_trait::async_trait;
use taskbridge_sdk::{InputFile, Output, Result};

use super::store::SlotLimit;
use super::task::Spec;

/// The catalog, as the core sees it.
#[async_trait]
pub trait ToolCatalog: Send + Sync {
    /// Opens a stored spec for a start. Returns the arguments with the sensitive ones decrypted, and their
    /// input files.
    ///
    /// # Errors
    /// `Config` if the sealed arguments can no longer be decrypted.
    fn open(&self, spec: &Spec) -> Result<OpenedSpec>;

    /// Validates a job's output against the tool's output schema. The error text names the mismatch.
    async fn validate_output(&self, tool: &str, output: &Output) -> std::result::Result<(), String>;

    /// Returns the limits now in force for these slots. A slot without a limit is left out.
    fn limits(&self, slots: &[String]) -> Vec<SlotLimit>;
}

/// An opened spec.
pub struct OpenedSpec {
    /// The arguments: an object.
    pub arguments: serde_json::Value,
    /// The input files in the arguments.
    pub files: Vec<InputFile>,
}
