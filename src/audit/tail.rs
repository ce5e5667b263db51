//! The first and the last line of a file, without reading all of it. This module must not know what lines
//! mean.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

/// How many bytes of a file's end are read to find its last line. Lines are far shorter.
const TAIL: u64 = 1024 * 1024;

/// The end of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// The last line with a line break.
    pub(super) last: Option<String>,
    /// The bytes after it.
    pub(super) torn: Option<Vec<u8>>,
}

/// Returns the end of a file of this length, in bytes.
pub(super) fn tail(file: &mut File, length: u64) -> io::Result<Tail> {
    let from = length.saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes)?;
    let mut lines = bytes.split(|byte| *byte == b'\n').rev();
    let torn = lines.next().filter(|rest| !rest.is_empty()).map(<[u8]>::to_vec);
    let last = lines.find(|line| !line.is_empty()).map(|line| String::from_utf8_lossy(line).into_owned());
    Ok(Tail { last, torn })
}

/// Returns the first line of a file of this length, in bytes; `None` if it is empty.
pub(super) fn first_line(file: &mut File, length: u64) -> io::Result<Option<String>> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.take(TAIL.min(length)).read_to_end(&mut bytes)?;
    let line = bytes.split(|byte| *byte == b'\n').next().filter(|line| !line.is_empty());
    Ok(line.map(|line| String::from_utf8_lossy(line).into_owned()))
}
