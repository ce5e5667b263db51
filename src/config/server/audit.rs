//! `[audit]`: the destinations of the audit log, and the policy for calls that cannot be logged. It must not
//! open anything.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::audit::chain::Key;
use crate::audit::{LogFileConfig, Settings};
use crate::config::reading::duration::DurationText;
use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;

/// Minimum file size before rotation: one line has up to a few KiB.
const MIN_FILE_BYTES: u64 = 4 * 1024;

/// The audit log: one JSON line for every event that must be accounted for (docs/audit.md). Changes take
/// effect after a restart.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Audit {
    /// Where it is written: `"file"`, `"stdout"` (not with --stdio), `"store"`, or several of them. If empty,
    /// only the server log reports tasks that are created, end, are read or are not found, under the target
    /// `audit`.
    to: Vec<To>,
    /// With `"file"`: the file; a relative path starts at the folder of this config file.
    path: Option<PathBuf>,
    /// With `"file"`: the file is rotated at this size, in bytes.
    max_bytes: u64,
    /// With `"file"`: the file is rotated when its first line reaches this age.
    #[serde(with = "DurationText")]
    max_age: Duration,
    /// With `"file"`: the number of rotated files that are kept. Older ones are deleted.
    keep_files: NonZeroUsize,
    /// With `"file"`: whether lines are synced to disk before an event counts as written. Without it, the
    /// operating system writes them within seconds, and only a crash of the machine loses some.
    fsync: bool,
    /// With `"store"`: the retention of lines.
    #[serde(with = "DurationText")]
    keep: Duration,
    /// A long random text (`openssl rand -hex 32`), `{ env = "NAME" }` or `{ file = "PATH" }`. It is required
    /// to rebuild the chain after a change.
    key: Option<Secret>,
    /// The policy for calls that cannot be logged.
    on_failure: OnFailure,
}

/// A destination of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum To {
    /// A file.
    File,
    /// Standard output.
    Stdout,
    /// The store that contains the tasks.
    Store,
}

/// The policy for calls that cannot be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OnFailure {
    /// Calls proceed. Lines are buffered in memory for a while, and the server log reports lost ones.
    Continue,
    /// Calls are refused before anything starts, and no result is returned.
    Refuse,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            to: Vec::new(),
            path: None,
            max_bytes: 100 * 1024 * 1024,
            max_age: Duration::from_secs(86_400),
            keep_files: NonZeroUsize::new(90).expect("the default is not zero"),
            fsync: false,
            keep: Duration::from_secs(90 * 86_400),
            key: None,
            on_failure: OnFailure::Continue,
        }
    }
}

/// Converts the table into settings.
pub(in crate::config) fn settings(reader: &mut Reader<'_>, audit: Audit, dir: &Path) -> Settings {
    let writes_to = |to| audit.to.contains(&to);
    for (index, to) in audit.to.iter().enumerate() {
        if audit.to[..index].contains(to) {
            reader.problem(format!("audit.to[{index}]"), "duplicate entry: remove one of them");
        }
    }
    if audit.to.is_empty() && audit.on_failure == OnFailure::Refuse {
        let message = "has no effect without a destination: set `to`, or remove this";
        reader.problem("audit.on_failure", message);
    }
    if audit.path.is_some() && !writes_to(To::File) {
        reader.problem("audit.path", "no file is written: write to = [\"file\"], or remove it");
    }
    let file = match (writes_to(To::File), &audit.path) {
        (false, _) => None,
        (true, None) => {
            reader.problem("audit.path", "missing: write the path of the log file");
            None
        }
        (true, Some(path)) => Some(LogFileConfig {
            path: dir.join(path),
            max_bytes: audit.max_bytes,
            max_age: audit.max_age,
            keep_files: audit.keep_files.get(),
            sync_writes: audit.fsync,
        }),
    };
    if audit.max_bytes < MIN_FILE_BYTES {
        reader.problem("audit.max_bytes", format!("too small: write at least {MIN_FILE_BYTES}"));
    }
    for (field, time) in [("audit.max_age", audit.max_age), ("audit.keep", audit.keep)] {
        if time < Duration::from_secs(1) {
            reader.problem(field, "must be at least one second");
        }
    }
    let store = writes_to(To::Store).then_some(audit.keep);
    let key = audit.key.and_then(|secret| secret.reveal_key(reader, "audit.key", "key", dir));
    let refuses = audit.on_failure == OnFailure::Refuse;
    Settings {
        file,
        stdout: writes_to(To::Stdout),
        store,
        key: key.map_or_else(Key::default, |text| Key::of(&text)),
        refuse_on_failure: refuses,
    }
}
