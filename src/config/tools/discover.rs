//! `[backends.NAME.discover]`: the server's own fields there, which set how tools are discovered. The other
//! fields belong to the adapter. This module must not call a backend.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::callers::access::Access;
use crate::config::reading::duration::DurationText;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;

/// The field of a backend that enables discovery. Its other fields belong to the adapter.
pub(in crate::config) const FIELD: &str = "discover";
/// The fields that the server reads there.
const SERVER_FIELDS: [&str; 3] = ["every", "prefix", "access"];

/// The server's own fields of `[backends.NAME.discover]`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Discover {
    /// How often the discovery runs.
    #[serde(with = "DurationText")]
    pub every: Duration,
    /// Prefix of the tool names, to distinguish them from tools of other backends.
    pub prefix: String,
    /// Who may call its tools and act on their tasks. `[access]` sets the defaults.
    pub access: Option<Access>,
}

impl Default for Discover {
    fn default() -> Self {
        Self { every: Duration::from_secs(300), prefix: String::new(), access: None }
    }
}

/// Removes and reads the server's discovery fields of a backend. Returns `None` if it has no discovery.
pub(super) fn take_server_fields(
    reader: &mut Reader<'_>,
    backend: &str,
    fields: &mut Map<String, Value>,
) -> Option<Discover> {
    let field = join(backend, FIELD);
    // A value that is not a table is left to the adapter, which refuses it.
    let table = fields.get_mut(FIELD)?.as_object_mut()?;
    let server_fields: Map<String, Value> =
        SERVER_FIELDS.into_iter().filter_map(|name| Some((name.to_owned(), table.remove(name)?))).collect();
    let discover: Discover = reader.read(&field, Value::Object(server_fields))?;
    if discover.every.is_zero() {
        reader.problem(join(&field, "every"), "must not be zero: write an interval such as \"5m\"");
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if discover.prefix.len() > 32 || !discover.prefix.chars().all(is_allowed) {
        let message = "a prefix of tool names has at most 32 letters, digits, `_`, `-` or `.`";
        reader.problem(join(&field, "prefix"), message);
    }
    Some(discover)
}
