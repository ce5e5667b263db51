//! `[audit]`: where the audit log is kept, and what becomes of calls that it cannot tell of. It must not open anything.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::duration;
use super::reader::Reader;
use super::secret::Secret;
use crate::audit::chain::Key;
use crate::audit::{Place, Settings};

/// The smallest file that is put aside: a line has up to a few KiB.
const SMALLEST: u64 = 4 * 1024;
/// The fewest characters of a key. In hexadecimal they hold 128 bits.
const SHORTEST: usize = 32;

/// The audit log: one line in JSON for everything that somebody must be able to account for (docs/audit.md). A change takes effect
/// when the server is started again.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Audit {
    /// Where it is kept: `"file"`, `"stdout"` (not where clients are served over stdio), `"store"`, or several of them. Without any,
    /// the log has a line for each task that is made, ends, is read or is looked for in vain, under the target `audit`.
    to: Vec<To>,
    /// With `"file"`: the file; a relative path starts at the folder of this config file.
    path: Option<PathBuf>,
    /// With `"file"`: another file is begun once it is as large as this, in bytes.
    max_bytes: u64,
    /// With `"file"`: another file is begun once its first line is as old as this.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    max_age: Duration,
    /// With `"file"`: how many files are kept beside the one that is written to. The oldest are deleted.
    keep_files: NonZeroUsize,
    /// With `"file"`: whether lines are on the disk before anybody hears that they are written. Without it, the operating system
    /// writes them within seconds, and only a machine that crashes loses some.
    fsync: bool,
    /// With `"store"`: how long lines are kept.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    keep: Duration,
    /// A long random text (`openssl rand -hex 32`), `{ env = "NAME" }` or `{ file = "PATH" }`. With it, nobody who has not got it can make
    /// the chain anew after a change.
    key: Option<Secret>,
    /// What becomes of calls that cannot be told of.
    on_failure: OnFailure,
}

/// A place that keeps lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum To {
    /// A file.
    File,
    /// Standard output.
    Stdout,
    /// The store that tasks are kept in.
    Store,
}

/// What becomes of calls that cannot be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OnFailure {
    /// They are made. Lines are kept in memory for a while, and the log has a line for those that are lost.
    Continue,
    /// They are refused before anything starts, and no result is handed out.
    Refuse,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            to: Vec::new(),
            path: None,
            max_bytes: 100 * 1024 * 1024,
            max_age: Duration::from_secs(86_400),
            keep_files: NonZeroUsize::new(90).expect("it is not zero"),
            fsync: false,
            keep: Duration::from_secs(90 * 86_400),
            key: None,
            on_failure: OnFailure::Continue,
        }
    }
}

/// What it comes to.
pub(super) fn settings(reader: &mut Reader<'_>, audit: Audit, dir: &Path) -> Settings {
    let goes_to = |to| audit.to.contains(&to);
    for (index, to) in audit.to.iter().enumerate() {
        if audit.to[..index].contains(to) {
            reader.problem(format!("audit.to[{index}]"), "it is listed before: remove one of them");
        }
    }
    if audit.to.is_empty() && audit.on_failure == OnFailure::Refuse {
        let message = "nothing is kept that could fail: say where in `to`, or remove it";
        reader.problem("audit.on_failure", message);
    }
    if audit.path.is_some() && !goes_to(To::File) {
        reader.problem("audit.path", "no file is written: write to = [\"file\"], or remove it");
    }
    let file = match (goes_to(To::File), &audit.path) {
        (false, _) => None,
        (true, None) => {
            reader.problem("audit.path", "a log to a file needs its path");
            None
        }
        (true, Some(path)) => Some(Place {
            path: dir.join(path),
            max_bytes: audit.max_bytes,
            max_age: audit.max_age,
            keep_files: audit.keep_files.get(),
            syncs: audit.fsync,
        }),
    };
    if audit.max_bytes < SMALLEST {
        reader.problem("audit.max_bytes", format!("it is too small for a few lines: at least {SMALLEST}"));
    }
    for (field, time) in [("audit.max_age", audit.max_age), ("audit.keep", audit.keep)] {
        if time < Duration::from_secs(1) {
            reader.problem(field, "it must be a second at least");
        }
    }
    let store = goes_to(To::Store).then_some(audit.keep);
    let refuses = audit.on_failure == OnFailure::Refuse;
    Settings { file, stdout: goes_to(To::Stdout), store, key: key(reader, audit.key.as_ref(), dir), refuses }
}

fn key(reader: &mut Reader<'_>, secret: Option<&Secret>, dir: &Path) -> Key {
    let Some(text) = secret.and_then(|secret| secret.reveal(reader, "audit.key", dir)) else {
        return Key::default();
    };
    let length = text.chars().count();
    if length < SHORTEST {
        let message = format!(
            "it has {length} characters, and a key needs at least {SHORTEST}: write what `openssl rand -hex 32` prints"
        );
        reader.problem("audit.key", message);
    }
    Key::of(&text)
}
