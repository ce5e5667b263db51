//! [`Lines`]: reads the input line by line. It must not parse a line.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The lines of the input. Lines that are too long are skipped.
pub(super) struct Lines<R> {
    input: R,
    line: Vec<u8>,
    too_long: bool,
}

/// A line was longer than this limit in bytes.
pub(super) struct TooLong(pub(super) usize);

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), too_long: false }
    }

    /// Returns the next line that is not blank, of at most `max_bytes` bytes, or `None` at the end of the
    /// input. Cancel safe: no input is lost if the future is dropped.
    pub(super) async fn next(&mut self, max_bytes: usize) -> io::Result<Option<Result<Vec<u8>, TooLong>>> {
        loop {
            let chunk = self.input.fill_buf().await?;
            let at_end = chunk.is_empty();
            let newline = chunk.iter().position(|byte| *byte == b'\n');
            let text = &chunk[..newline.unwrap_or(chunk.len())];
            self.too_long |= self.line.len() + text.len() > max_bytes;
            if !self.too_long {
                self.line.extend_from_slice(text);
            }
            let consumed = newline.map_or(chunk.len(), |newline| newline + 1);
            self.input.consume(consumed);
            if newline.is_some() || at_end {
                let line = std::mem::take(&mut self.line);
                if std::mem::take(&mut self.too_long) {
                    return Ok(Some(Err(TooLong(max_bytes))));
                }
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(Ok(line)));
                }
                if at_end {
                    return Ok(None);
                }
            }
        }
    }
}
