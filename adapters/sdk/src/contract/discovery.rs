//! [`Discovery`]: offers what an engine could run as tools. It must not start or change anything.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Result;

/// Ability to list what the engine could run.
///
/// The field `discover` of the adapter's `Config` is a table that selects the tools. The adapter reads this
/// table. The server itself reads `every` and `prefix` in it, and calls this trait only for a backend whose
/// config has the table. `taskbridge discover` calls it for every backend; without the table, it lists
/// everything.
#[async_trait]
pub trait Discovery: Send + Sync {
    /// Returns the tools that the engine has now.
    ///
    /// - It returns all selected tools in any order, or an error. A fault never appears as a shorter list.
    /// - No two tools have the same name. A tool has the same name every time and in every process,
    ///   regardless of which other tools exist. [`tool_name`] creates such names.
    /// - Each tool can be called as described: a job with its target accepts the arguments that its input
    ///   schema describes.
    /// - The list does not contain what the engine no longer has.
    async fn discover(&self) -> Result<Vec<DiscoveredTool>>;
}

/// A tool that a backend offers, with the same information as `[tools.NAME]`, except the backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiscoveredTool {
    /// Name of the tool: 1 to 128 letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// Title for people.
    pub title: Option<String>,
    /// What the tool does and when to use it, written for models.
    pub description: Option<String>,
    /// JSON Schema of the arguments, which are an object.
    #[serde(default)]
    pub input_schema: Map<String, Value>,
    /// What to run: the `target` that a config would contain.
    #[serde(default)]
    pub target: Value,
    /// Other fields that a config could set, such as `annotations` or `output_schema`. They must not come
    /// from people who can write to the engine, because they control what the server does.
    #[serde(default)]
    pub more: Map<String, Value>,
}

/// Longest name that [`tool_name`] creates, which is the longest that the APIs of models accept.
const MAX_NAME_LEN: usize = 64;

/// Returns a tool name for something in the engine. A name of 1 to 64 letters, digits, `_`, `-` and `.` is
/// returned unchanged. Otherwise other characters are replaced, a name that is too long is cut, and a 32-bit
/// digest of the whole name is appended to keep names distinct.
pub fn tool_name(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.is_empty() && name.len() <= MAX_NAME_LEN && name.chars().all(is_allowed) {
        return name.to_owned();
    }
    let digest = format!("_{:08x}", fnv1a(name.as_bytes()));
    let prefix = name.chars().take(MAX_NAME_LEN - digest.len());
    prefix.map(|c| if is_allowed(c) { c } else { '_' }).chain(digest.chars()).collect()
}

/// Computes the 32-bit FNV-1a hash (Fowler, Noll and Vo), which is the same in every process and version. It
/// is not cryptographic.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_gives_the_published_numbers() {
        assert_eq!([fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")], [0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968]);
    }

    /// A valid name is unchanged; others are shortened and get a suffix that keeps them distinct.
    #[test]
    fn tool_names_stay_valid_and_distinct() {
        assert_eq!(tool_name("nightly-build_2.x"), "nightly-build_2.x");
        let (spaced, lined) = (tool_name("nightly build"), tool_name("nightly\nbuild"));
        assert!(spaced.starts_with("nightly_build_") && lined.starts_with("nightly_build_"));
        assert_ne!(spaced, lined);
        let (long, longer) = (tool_name(&"a".repeat(65)), tool_name(&"a".repeat(66)));
        assert_eq!((long.len(), longer.len()), (64, 64));
        assert_ne!(long, longer);
        assert_eq!(tool_name(&"é".repeat(80)).len(), 64);
        assert!(!tool_name("").is_empty());
    }
}
