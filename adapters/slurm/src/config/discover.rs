//! Config of discovery. Defines only the format. The doc comments below become the config's JSON Schema.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Settings for the tools to offer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table: { scripts = \"FOLDER\" }")]
#[schemars(rename = "SlurmDiscover")]
pub struct Discover {
    /// The folder of the batch scripts: files that end with `.sh`, `.bash`, `.sbatch`, `.slurm` or `.job`.
    /// Each is a tool, so everyone with write access to the folder decides what runs. A relative path starts
    /// at the folder of the config file.
    pub scripts: PathBuf,
    /// The partitions that callers may choose. The default is all that are up.
    #[serde(default)]
    pub partitions: Option<Vec<String>>,
    /// The qualities of service that callers may choose, as far as the accounting database grants them to the
    /// server's user. The default is none.
    #[serde(default)]
    pub qos: Option<Vec<String>>,
}
