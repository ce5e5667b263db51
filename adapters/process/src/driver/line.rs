//! [`LineReader`]: reads lines with a limit. It must not hold more than the limit, however long a line is.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, BufReader};

/// What to do with a line beyond the limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Long {
    /// Report it at once.
    Fail,
    /// Skip the rest of it.
    Cut,
}

/// A line was read, or not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A whole line.
    Line,
    /// The start of a line beyond the limit.
    Long,
    /// The text ended. The buffer has what came after the last newline.
    End,
}

pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    max: usize,
    long: Long,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R, max: usize, long: Long) -> Self {
        Self { reader: BufReader::with_capacity(64 * 1024, reader), max, long }
    }

    /// Reads the next line into `line`, without its newline.
    pub(super) async fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Read> {
        line.clear();
        // A single large line must not occupy its memory for ever.
        line.shrink_to(64 * 1024);
        let mut is_long = false;
        loop {
            let chunk = self.reader.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(Read::End);
            }
            let (end, found) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at, true),
                None => (chunk.len(), false),
            };
            let room = self.max - line.len();
            line.extend_from_slice(&chunk[..end.min(room)]);
            is_long |= end > room;
            std::pin::Pin::new(&mut self.reader).consume(end + usize::from(found));
            if is_long && (found || self.long == Long::Fail) {
                return Ok(Read::Long);
            }
            if found {
                return Ok(Read::Line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], max: usize, long: Long) -> Vec<(Read, String)> {
        let mut reader = LineReader::new(text, max, long);
        let (mut lines, mut line) = (Vec::new(), Vec::new());
        loop {
            let read = reader.next(&mut line).await.unwrap();
            let stop = read == Read::End || (read == Read::Long && long == Long::Fail);
            lines.push((read, String::from_utf8_lossy(&line).into_owned()));
            if stop {
                return lines;
            }
        }
    }

    #[tokio::test]
    async fn long_lines_are_bounded() {
        let text = |text: &str| text.to_owned();
        let expected = [
            (Read::Line, text("ab")),
            (Read::Long, text("abcd")),
            (Read::Line, text("")),
            (Read::End, text("x")),
        ];
        assert_eq!(lines(b"ab\nabcdefgh\n\nx", 4, Long::Cut).await, expected);
        let expected = [(Read::Line, text("abcd")), (Read::Long, text("abcd"))];
        assert_eq!(lines(b"abcd\nabcdefgh\nx", 4, Long::Fail).await, expected);
    }

    /// A line of a gigabyte without an end occupies no memory.
    #[tokio::test]
    async fn gigabyte_line_fails_early() {
        let endless = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 1 << 30);
        let (mut reader, mut line) = (LineReader::new(endless, 1 << 20, Long::Fail), Vec::new());
        assert_eq!(reader.next(&mut line).await.unwrap(), Read::Long);
        assert_eq!(line.len(), 1 << 20);
    }
}
