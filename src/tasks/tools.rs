//! What the core asks of the catalog about tools, as a trait, so that it need not know the catalog.

use async_trait::async_trait;
use taskbridge_sdk::{InputFile, Output, Result};

use super::store::SlotLimit;
use super::task::Spec;

/// The catalog, as the core sees it.
#[async_trait]
pub trait Tools: Send + Sync {
    /// Opens a stored spec for a start: the arguments with the sensitive ones in place, and the files among them.
    ///
    /// # Errors
    /// `Config` if what is sealed cannot be opened any more.
    fn open(&self, spec: &Spec) -> Result<Opened>;

    /// Checks a job's output against the tool's output schema; the text says what does not fit.
    async fn judge(&self, tool: &str, output: &Output) -> std::result::Result<(), String>;

    /// The limits that are in force now for these slots; a slot without a limit is left out.
    fn limits(&self, slots: &[String]) -> Vec<SlotLimit>;
}

/// A spec, opened.
pub struct Opened {
    /// The arguments: an object.
    pub arguments: serde_json::Value,
    /// The files among them.
    pub files: Vec<InputFile>,
}
