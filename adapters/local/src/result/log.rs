//! Bounded storage of what a job prints: the start and the end of each stream, in segments of equal size.
//! Segment 0 is the start. Of the others, only the last two are kept, so a gap in the numbers shows exactly
//! how much was dropped. It must not know what the text means.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use taskbridge_sdk::{is_mostly_text, open_regular};

/// Maximum number of files in a log folder that are read. The two writers of a job keep six, but jobs can add
/// others.
const MAX_FILES: usize = 1000;

/// The two output streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Stream::Out => "stdout",
            Stream::Err => "stderr",
        }
    }

    /// Returns the segment number of a file of this stream. Returns `None` if the name does not match.
    fn segment_number(self, name: &OsStr) -> Option<u64> {
        name.to_str()?.strip_prefix(self.name())?.strip_prefix('.')?.parse().ok()
    }
}

/// Writer of one stream. If the disk is full, it loses log lines and the job continues.
pub(crate) struct Writer {
    folder: PathBuf,
    stream: Stream,
    segment_bytes: u64,
    file: Option<File>,
    remaining: u64,
    next_number: u64,
}

impl Writer {
    /// Creates a writer that keeps at most `max` bytes in this folder.
    pub(crate) fn new(folder: &Path, stream: Stream, max: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            stream,
            segment_bytes: segment_bytes(max),
            file: None,
            remaining: 0,
            next_number: 0,
        }
    }

    /// Appends output. After an error the rest of these bytes is lost, and the next call tries again.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.remaining == 0 && self.open_next().is_err() {
                return;
            }
            let len =
                usize::try_from(self.remaining).map_or(bytes.len(), |remaining| bytes.len().min(remaining));
            let (head, rest) = bytes.split_at(len);
            let Some(Ok(())) = self.file.as_mut().map(|file| file.write_all(head)) else { return };
            self.remaining -= head.len() as u64;
            bytes = rest;
        }
    }

    fn open_next(&mut self) -> io::Result<()> {
        let path = |number| self.folder.join(format!("{}.{number}", self.stream.name()));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path(self.next_number))?;
        if let Some(old) = self.next_number.checked_sub(2).filter(|old| *old > 0) {
            fs::remove_file(path(old))?;
        }
        self.file = Some(file);
        self.remaining = self.segment_bytes;
        self.next_number += 1;
        Ok(())
    }
}

/// Returns the length of a segment if at most `max` bytes are kept.
fn segment_bytes(max: u64) -> u64 {
    (max / 3).max(1)
}

/// Returns how many bytes were printed on both streams. Dropped segments count with their full length, so
/// that the number never decreases.
pub(crate) fn printed(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for stream in [Stream::Out, Stream::Err] {
        let mut newest = None;
        let mut segment_length = 0;
        for entry in fs::read_dir(folder)?.take(MAX_FILES) {
            let entry = entry?;
            let Some(number) = stream.segment_number(&entry.file_name()) else { continue };
            // A segment that was dropped in the meantime is neither the first nor the newest.
            let Ok(length) = entry.metadata().map(|metadata| metadata.len()) else { continue };
            if number == 0 {
                segment_length = length;
            }
            newest = newest.max(Some((number, length)));
        }
        // Saturating, because jobs can create files with any number and length.
        let stream_bytes =
            newest.map_or(0, |(number, length)| number.saturating_mul(segment_length).saturating_add(length));
        bytes = u64::saturating_add(bytes, stream_bytes);
    }
    Ok(bytes)
}

/// The part of one stream that is kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RetainedLog {
    pub(crate) start: Vec<u8>,
    /// Number of bytes that are missing between the start and the end.
    pub(crate) dropped: u64,
    pub(crate) end: Vec<u8>,
}

impl RetainedLog {
    /// Reads a stream with the limit `max`, even while it is being written. Jobs can create files there: it
    /// never reads more than a [`Writer`] keeps, and counts longer content as dropped.
    pub(crate) fn read(folder: &Path, stream: Stream, max: u64) -> io::Result<Self> {
        let mut newest = BTreeSet::new();
        for entry in fs::read_dir(folder)?.take(MAX_FILES) {
            newest.extend(stream.segment_number(&entry?.file_name()).filter(|number| *number > 0));
            if newest.len() > 2 {
                newest.pop_first();
            }
        }
        let max_part_bytes = segment_bytes(max);
        let path = |number| folder.join(format!("{}.{number}", stream.name()));
        let first = Part::read(&path(0), max_part_bytes, Cut::End)?.unwrap_or_default();
        let missing_segments = newest.first().map_or(0, |oldest| oldest - 1);
        let mut dropped = missing_segments.saturating_mul(first.length).saturating_add(first.omitted_bytes());
        let mut end = Vec::new();
        for number in newest {
            // A segment that is dropped after the listing counts as dropped.
            let part = Part::read(&path(number), max_part_bytes, Cut::Start)?;
            dropped = dropped.saturating_add(part.as_ref().map_or(first.length, Part::omitted_bytes));
            end.extend(part.unwrap_or_default().bytes);
        }
        Ok(Self { start: first.bytes, dropped, end })
    }

    /// Returns true if the kept part is mostly text.
    pub(crate) fn is_text(&self) -> bool {
        is_mostly_text(&self.start) && is_mostly_text(&self.end)
    }

    /// Returns a description in place of bytes that are not text.
    pub(crate) fn describe(&self, stream_name: &str) -> String {
        let bytes = self.dropped.saturating_add((self.start.len() + self.end.len()) as u64);
        format!("[{bytes} bytes on {stream_name} that are not text]")
    }

    /// Returns the kept part as text, with a marker where bytes are missing.
    pub(crate) fn into_text(mut self) -> String {
        if self.dropped == 0 {
            self.start.append(&mut self.end);
            return into_utf8(self.start);
        }
        let (start, end) = (into_utf8(self.start), into_utf8(self.end));
        // A character that was cut in two is omitted as well.
        let (start, end) = (start.trim_end_matches('\u{fffd}'), end.trim_start_matches('\u{fffd}'));
        format!("{start}\n[... {} bytes left out ...]\n{end}", self.dropped)
    }
}

/// Content that was read from one segment.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    length: u64,
}

/// Part of a segment that is omitted if it is too long.
enum Cut {
    Start,
    End,
}

impl Part {
    /// Reads a segment. Returns `None` if it does not exist or is not a regular file.
    fn read(path: &Path, max_bytes: u64, cut: Cut) -> io::Result<Option<Self>> {
        let mut file = match open_regular(path) {
            Ok(file) => file,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let length = file.metadata()?.len();
        if let Cut::Start = cut {
            file.seek(SeekFrom::Start(length.saturating_sub(max_bytes)))?;
        }
        let mut bytes = Vec::new();
        file.take(max_bytes.min(length)).read_to_end(&mut bytes)?;
        Ok(Some(Self { bytes, length }))
    }

    fn omitted_bytes(&self) -> u64 {
        self.length.saturating_sub(self.bytes.len() as u64)
    }
}

fn into_utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(max: u64, pieces: &[&str]) -> (tempfile::TempDir, RetainedLog) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(dir.path(), Stream::Out, max);
        for piece in pieces {
            writer.append(piece.as_bytes());
        }
        let log = RetainedLog::read(dir.path(), Stream::Out, max).unwrap();
        (dir, log)
    }

    #[test]
    fn small_log_is_kept_whole() {
        let (_dir, log) = write(30, &["0123456789", "abcdefghij", "ABCDEFGHIJ"]);
        assert_eq!((log.dropped, log.into_text().as_str()), (0, "0123456789abcdefghijABCDEFGHIJ"));
    }

    /// The gap between them is marked with its number of bytes.
    #[test]
    fn large_log_keeps_start_and_end() {
        let text: String = (0..1000).map(|n| format!("{n:03}\n")).collect();
        let (dir, log) = write(300, &[&text]);
        let total = log.start.len() as u64 + log.dropped + log.end.len() as u64;
        assert_eq!(total, 4000, "nothing is unaccounted for");
        assert_eq!(printed(dir.path()).unwrap(), 4000);
        assert!(log.start.len() + log.end.len() <= 300);
        let text = log.into_text();
        assert!(text.starts_with("000\n001\n") && text.ends_with("998\n999\n"), "{text}");
        assert!(text.contains("\n[... 3700 bytes left out ...]\n"), "{text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    /// A character that the cut would split is dropped.
    #[test]
    fn cut_log_has_no_broken_characters() {
        let (_dir, log) = write(30, &[&"ä".repeat(5), "€".repeat(40).as_str()]);
        assert!(!log.into_text().contains('\u{fffd}'));
    }

    #[test]
    fn the_streams_are_apart() {
        let dir = tempfile::tempdir().unwrap();
        Writer::new(dir.path(), Stream::Out, 30).append(b"out");
        Writer::new(dir.path(), Stream::Err, 30).append(b"err");
        assert_eq!(RetainedLog::read(dir.path(), Stream::Err, 30).unwrap().into_text(), "err");
    }
}
