//! Reads the output of a job for the client: the ends of its logs, its result and its artifacts, and messages
//! about what cannot be read. It must not judge how the job ended.

use std::io;
use std::path::Path;

use serde_json::Value;
use taskbridge_sdk::{Artifact, Content};

use crate::result::{artifacts, log};
use crate::store::disk;
use crate::store::folder::{Folder, Stream, read_open};
use crate::store::plan::Plan;

/// Maximum size of the result file in bytes.
const MAX_RESULT_BYTES: u64 = 1024 * 1024;

/// Maximum number of bytes of each log in the result of a successful job.
pub(crate) const MAX_LOG_BYTES: usize = 4 * 1024;

/// The same for a failed job, whose text should stay short. Each log of a failed array task gets a third of
/// it.
pub(crate) const MAX_FAILED_LOG_BYTES: usize = 600;

/// The output that was read so far.
#[derive(Debug, Default)]
pub(crate) struct JobOutputs {
    logs: Vec<Content>,
    notes: Vec<String>,
    /// What cannot be read at the moment, because the server of its file system is unavailable.
    pub(crate) transient_error: Option<String>,
}

impl JobOutputs {
    /// Reads at most `max_bytes` bytes from the end of a log.
    pub(crate) fn read_log(&mut self, folder: &Folder, stream: Stream, task: Option<u32>, max_bytes: usize) {
        let stream_name = match stream {
            Stream::Out => "standard output",
            Stream::Err => "standard error",
        };
        let task_suffix = task.map_or_else(String::new, |task| format!(" of task {task}"));
        let path = folder.log(stream, task);
        let tail = match log::tail(&path, max_bytes) {
            Ok(tail) => tail,
            Err(e) => return self.add_read_error(&format!("The {stream_name}{task_suffix}"), &path, &e),
        };
        if !tail.text.trim().is_empty() {
            let prefix = if tail.cut { "The end of the" } else { "The" };
            self.logs.push(Content::text(format!("{prefix} {stream_name}{task_suffix}:\n{}", tail.text)));
        }
    }

    /// Returns false, and adds a message, if the folder in which the script ran does not exist and something
    /// must be read from it. Always true for a folder below the job's own. A folder outside of it existed at
    /// the submission. After a reboot of this machine, it may not be mounted yet.
    pub(crate) fn check_root(&mut self, plan: &Plan, folder: &Folder) -> bool {
        let is_own_folder = plan.root.starts_with(folder.path());
        if is_own_folder || (plan.result.is_none() && plan.artifacts.is_empty()) {
            return true;
        }
        disk::enter_path(&plan.root);
        let error = match std::fs::metadata(&plan.root) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => e,
            // Reading from the folder reports any other error.
            _ => return true,
        };
        let root = plan.root.display();
        self.transient_error.get_or_insert_with(|| format!("the script's folder {root} does not exist"));
        self.notes.push(format!(
            "The script's folder {root} cannot be read: {error}. Check that its file system is mounted on this machine."
        ));
        false
    }

    /// Reads the result file of the script. Returns `None` if there is no valid one.
    pub(crate) fn read_result(&mut self, plan: &Plan, name: &str) -> Option<Value> {
        let read = || {
            let Some(file) = artifacts::open_in_root(plan, name)? else { return Ok(None) };
            read_open(file, Path::new(name), MAX_RESULT_BYTES).map(Some)
        };
        let bytes = match read() {
            Ok(bytes) => bytes?,
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                self.notes.push(format!("The result is ignored: {e}."));
                return None;
            }
            Err(e) => {
                self.add_read_error(&format!("The result `{name}`"), &plan.root.join(name), &e);
                return None;
            }
        };
        let result = serde_json::from_slice(&bytes);
        result.map_err(|e| self.notes.push(format!("The result `{name}` is not valid JSON: {e}."))).ok()
    }

    /// Lists the artifacts.
    pub(crate) fn list_artifacts(&mut self, plan: &Plan) -> Vec<Artifact> {
        let listing = artifacts::list(plan);
        self.notes.extend(listing.omission_note);
        if let Some((path, e)) = &listing.list_error {
            let description = format!("The artifact folder {}", path.display());
            self.add_read_error(&description, path, e);
        }
        listing.artifacts
    }

    /// Returns all logs that were read, and the messages about what could not be read.
    pub(crate) fn into_content(mut self) -> Vec<Content> {
        if !self.notes.is_empty() {
            self.logs.push(Content::text(self.notes.join("\n")));
        }
        self.logs
    }

    fn add_read_error(&mut self, description: &str, path: &Path, error: &io::Error) {
        if disk::is_transient(error) {
            self.transient_error.get_or_insert_with(|| format!("{} cannot be read: {error}", path.display()));
        }
        self.notes.push(format!("{description} cannot be read: {error}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A result that is missing, too large or invalid is reported in the output.
    #[test]
    fn result_file_error_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let plan = Plan { root: dir.path().to_owned(), ..Plan::default() };
        let max_bytes = usize::try_from(MAX_RESULT_BYTES).unwrap();
        let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
        for (content, is_read, expected_text) in [
            (Some(r#"{"energy": -7.5}"#.to_owned()), true, None),
            (Some(text(max_bytes)), true, None),
            (
                Some(text(max_bytes + 1)),
                false,
                Some("The result is ignored: out.json has 1048577 bytes, the limit is 1048576."),
            ),
            (
                Some("{\"energy\": ".to_owned()),
                false,
                Some("The result `out.json` is not valid JSON: EOF while"),
            ),
            (None, false, None),
        ] {
            let file = dir.path().join("out.json");
            match &content {
                Some(text) => std::fs::write(&file, text).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let mut outputs = JobOutputs::default();
            let result = outputs.read_result(&plan, "out.json");
            let expected = content.filter(|_| is_read).map(|text| serde_json::from_str(&text).unwrap());
            assert_eq!(result, expected, "{expected_text:?}");
            assert_eq!(outputs.transient_error, None, "the error is permanent");
            match (expected_text, outputs.into_content().as_slice()) {
                (None, []) => {}
                (Some(prefix), [Content::Text { text }]) => assert!(text.starts_with(prefix), "{text}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
