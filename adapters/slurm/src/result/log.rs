//! Reads the ends of job logs while they are being written. It must not keep a whole log in memory.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use taskbridge_sdk::{Error, JobHandle, LogRequest, LogText, Logs, Result, async_trait};

use crate::core::Slurm;
use crate::store::disk::{self, ProgressReader};
use crate::store::folder::{Folder, PLAN, Stream, open_regular};
use crate::store::plan::Plan;

/// Maximum number of bytes that are searched, from the end of a log.
const MAX_SEARCH_BYTES: u64 = 256 * 1024 * 1024;

/// Maximum number of an array's logs that are read at once: the most recently written ones.
const MAX_TASK_LOGS: usize = 20;

/// Maximum number of files whose sizes are added up to detect new output.
const MAX_COUNTED_FILES: usize = 400;

/// Reads the end of a file, cut at a line start. A missing file is empty.
pub(crate) fn tail(path: &Path, max_bytes: usize) -> io::Result<LogText> {
    let Some((mut file, size)) = open(path)? else { return Ok(LogText::default()) };
    let max_bytes = max_bytes as u64;
    // One additional byte shows whether the cut is at a line start.
    let from = size.saturating_sub(max_bytes.saturating_add(1));
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    let cut = size > max_bytes;
    if cut {
        let start = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..start);
    }
    Ok(LogText { text: truncate_to(String::from_utf8_lossy(&bytes).into_owned(), max_bytes), cut })
}

/// Returns the last lines that contain some words, ignoring case.
fn search(path: &Path, query: &str, max_bytes: usize) -> io::Result<LogText> {
    let Some((mut file, size)) = open(path)? else { return Ok(LogText::default()) };
    let from = size.saturating_sub(MAX_SEARCH_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let needle = query.to_lowercase();
    let (mut matches, mut length, mut cut) = (std::collections::VecDeque::new(), 0, from > 0);
    let mut reader = BufReader::new(ProgressReader(file).take(size - from));
    let mut line = Vec::new();
    loop {
        line.clear();
        // A very long line is processed in parts, to limit the memory.
        let read = reader.by_ref().take(64 * 1024).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        if !text.to_lowercase().contains(&needle) {
            continue;
        }
        length += text.len();
        matches.push_back(text.into_owned());
        while length > max_bytes {
            let Some(first) = matches.pop_front() else { break };
            length -= first.len();
            cut = true;
        }
    }
    Ok(LogText { text: matches.into_iter().collect(), cut })
}

fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    match open_regular(path) {
        Ok(file) => {
            let size = file.metadata()?.len();
            Ok(Some((file, size)))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Cuts the text again if needed: invalid UTF-8 becomes longer when it is replaced.
fn truncate_to(text: String, max_bytes: u64) -> String {
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    if text.len() <= max_bytes {
        return text;
    }
    let from = text.ceil_char_boundary(text.len() - max_bytes);
    text[from..].find('\n').map_or_else(String::new, |at| text[from + at + 1..].to_owned())
}

/// Returns how many bytes a job has printed, unless it has too many files to check each of them.
pub(crate) fn log_bytes(folder: &Folder) -> Option<u64> {
    let logs = folder.file("logs");
    disk::enter_path(&logs);
    let mut total = 0;
    for (number, entry) in std::fs::read_dir(logs).ok()?.flatten().enumerate() {
        if number >= MAX_COUNTED_FILES {
            return None;
        }
        // Together the files can take long, although none of them hangs.
        disk::enter_path(&entry.path());
        total += entry.metadata().map_or(0, |metadata| metadata.len());
    }
    Some(total)
}

/// Returns the logs of a job, each with its title. A single log has no title.
fn log_files(folder: &Folder, plan: Option<&Plan>) -> Vec<(String, std::path::PathBuf)> {
    let size = |path: &Path| {
        disk::enter_path(path);
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    };
    if plan.is_none_or(|plan| plan.array.is_none()) {
        // Standard output is last, since it is usually the one being followed.
        let (err, out) = (folder.log(Stream::Err, None), folder.log(Stream::Out, None));
        return match (size(&err), size(&out)) {
            (0, _) => vec![(String::new(), out)],
            (_, 0) => vec![(String::new(), err)],
            _ => vec![
                ("--- standard error ---\n".to_owned(), err),
                ("--- standard output ---\n".to_owned(), out),
            ],
        };
    }
    let logs = folder.file("logs");
    disk::enter_path(&logs);
    let entries = std::fs::read_dir(logs).into_iter().flatten().flatten().filter_map(|entry| {
        disk::enter_path(&entry.path());
        let metadata = entry.metadata().ok().filter(|metadata| metadata.len() > 0)?;
        let name = entry.file_name().into_string().ok()?;
        let (stream, task) = name.split_once('.')?;
        let stream = if stream == "err" { "standard error" } else { "standard output" };
        Some((metadata.modified().ok()?, format!("--- task {task}, {stream} ---\n"), entry.path()))
    });
    // Keeps only the last ones, since scripts can create any number of files there.
    let mut newest = BTreeSet::new();
    for entry in entries {
        newest.insert(entry);
        if newest.len() > MAX_TASK_LOGS {
            newest.pop_first();
        }
    }
    newest.into_iter().map(|(_, title, path)| (title, path)).collect()
}

fn read_logs(folder: &Folder, request: &LogRequest) -> io::Result<LogText> {
    let plan = folder.read_json::<Plan>(PLAN)?;
    let files = log_files(folder, plan.as_ref());
    let file_budget = request.max_bytes / files.len().max(1);
    let (mut text, mut cut) = (String::new(), false);
    for (title, path) in files {
        let budget = file_budget.saturating_sub(title.len());
        let part = match &request.search {
            Some(query) => search(&path, query, budget)?,
            None => tail(&path, budget)?,
        };
        cut |= part.cut;
        if part.text.is_empty() || file_budget < title.len() {
            continue;
        }
        text.push_str(&title);
        text.push_str(&part.text);
        if !title.is_empty() && !text.ends_with('\n') && text.len() < request.max_bytes {
            text.push('\n');
        }
    }
    Ok(LogText { text, cut })
}

#[async_trait]
impl Logs for Slurm {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let Some(slurm_handle) = self.parse(handle)? else { return Ok(LogText::default()) };
        let (folder, request) = (self.folder(&slurm_handle.key), request.clone());
        let read = self.disks.jobs.run(move || read_logs(&folder, &request));
        read.await?.map_err(|e| Error::unavailable(format!("the job's log cannot be read: {e}")).caused_by(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_tail_begins_at_line_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        assert_eq!(tail(&path, 10).unwrap(), LogText::default());
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        for (max_bytes, text, cut) in [
            (14, "one\ntwo\nthree\n", false),
            (13, "two\nthree\n", true),
            (10, "two\nthree\n", true),
            (6, "three\n", true),
            (5, "", true),
            (0, "", true),
        ] {
            assert_eq!(
                tail(&path, max_bytes).unwrap(),
                LogText { text: text.to_owned(), cut },
                "{max_bytes}"
            );
        }
        std::fs::write(&path, [b'\n', 0xff, 0xff, 0xff, b'\n']).unwrap();
        assert!(tail(&path, 5).unwrap().text.len() <= 5);
    }

    /// The log size of an array with more files than `MAX_COUNTED_FILES` is unknown.
    #[test]
    fn large_array_log_is_not_measured() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.create(None).unwrap();
        for task in 0..MAX_COUNTED_FILES as u32 {
            std::fs::write(folder.log(Stream::Out, Some(task)), "x").unwrap();
        }
        assert_eq!(log_bytes(&folder), Some(MAX_COUNTED_FILES as u64));
        std::fs::write(folder.log(Stream::Err, Some(0)), "x").unwrap();
        assert_eq!(log_bytes(&folder), None);
    }

    /// Of many log files, the last twenty are shown.
    #[test]
    fn newest_logs_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path(), "tb-a");
        folder.create(None).unwrap();
        for task in 0..100 {
            let path = folder.log(Stream::Out, Some(task));
            std::fs::write(&path, "x").unwrap();
            let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(task.into());
            File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        }
        let plan = Plan { array: Some("0-99".to_owned()), ..Plan::default() };
        let shown_paths: Vec<_> = log_files(&folder, Some(&plan)).into_iter().map(|(_, path)| path).collect();
        let expected: Vec<_> = (80..100).map(|task| folder.log(Stream::Out, Some(task))).collect();
        assert_eq!(shown_paths, expected);
    }

    #[test]
    fn log_search_keeps_last_matches() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "Error one\nfine\nERROR two\n").unwrap();
        assert_eq!(
            search(&path, "error", 99).unwrap(),
            LogText { text: "Error one\nERROR two\n".to_owned(), cut: false }
        );
        assert_eq!(
            search(&path, "error", 12).unwrap(),
            LogText { text: "ERROR two\n".to_owned(), cut: true }
        );
    }
}
