//! [`Discovery`]: what an engine has that could be run, offered as tools. It must not start or change anything.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Result;

/// The engine knows what could be run in it.
///
/// What is wanted of it stands in the field `discover` of the adapter's `Config`, a table that the adapter reads; the
/// server itself reads `every` and `prefix` there, and calls this only for a backend whose config has that table.
/// `taskbridge discover` calls it for any: without the table, all there is is wanted.
#[async_trait]
pub trait Discovery: Send + Sync {
    /// The tools that the engine has now.
    ///
    /// - All that are wanted, in any order, or an error: a fault is never told as fewer tools.
    /// - No two have the same name, and a tool has its name every time and from every process ([`tool_name`] makes one),
    ///   whatever else there is.
    /// - Each can be called as it is: a job of its target takes the arguments that its input schema describes.
    /// - What the engine has no more is not among them.
    async fn discover(&self) -> Result<Vec<DiscoveredTool>>;
}

/// A tool that a backend offers: what `[tools.NAME]` says of others, but for the backend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiscoveredTool {
    /// Its name: 1 to 128 letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// A title for people.
    pub title: Option<String>,
    /// What it does and when to use it, for models.
    pub description: Option<String>,
    /// What it takes: a JSON Schema of an object.
    pub input_schema: Map<String, Value>,
    /// What to run: what a config would hold as `target`.
    pub target: Value,
    /// What else a config would say of it, such as `annotations` or `output_schema`. It must not be left to whoever can
    /// write into the engine: these fields decide what the server does.
    pub more: Map<String, Value>,
}

/// The longest name that [`tool_name`] makes: the longest that models' interfaces take.
const LONGEST_NAME: usize = 64;

/// A tool's name for something in the engine: its own name where that can be one. Otherwise what cannot stand in a name
/// is replaced, what is too long is cut, and a short digest of the whole keeps apart what would be the same then.
pub fn tool_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(fits) {
        return name.to_owned();
    }
    let digest = format!("_{:08x}", fnv1a(name.as_bytes()));
    let kept = name.chars().take(LONGEST_NAME - digest.len());
    kept.map(|c| if fits(c) { c } else { '_' }).chain(digest.chars()).collect()
}

/// Fowler, Noll and Vo's hash of 32 bits: the same in every process and version. It keeps nothing secret.
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

    #[test]
    fn what_can_be_a_name_stays_and_the_rest_stays_apart() {
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
