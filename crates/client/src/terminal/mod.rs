//! [`Terminal`]: input lines and output at the user's terminal. It opens the terminal separately, so that a
//! read can be cancelled at any time and no other program is affected.

pub(crate) mod ask;
mod bar;
mod form;
pub(crate) mod screen;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{QueueSelector, tcflush, tcgetwinsize};
use tokio::net::unix::pipe;

/// Default number of columns of a terminal.
const DEFAULT_COLUMNS: usize = 100;

/// An interactive terminal.
pub(crate) struct Terminal {
    /// The input, read asynchronously like a pipe: it needs no thread, and a read can be cancelled.
    keyboard: pipe::Receiver,
    screen: File,
    buffer: RefCell<Vec<u8>>,
}

impl Terminal {
    /// Opens the terminal of this process. `None` if standard input is not a terminal: then no question can
    /// be asked.
    pub(crate) fn open() -> Option<Self> {
        if !io::stdin().is_terminal() {
            return None;
        }
        let device = |flags: OFlags| {
            let device = open("/dev/tty", flags | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty());
            device.map(File::from).ok()
        };
        let keyboard = device(OFlags::RDONLY | OFlags::NONBLOCK)?;
        let keyboard = pipe::Receiver::from_file_unchecked(keyboard).ok()?;
        Some(Self { keyboard, screen: device(OFlags::WRONLY)?, buffer: RefCell::default() })
    }

    /// Discards input that was typed before the question.
    pub(crate) fn discard_input(&self) {
        self.buffer.borrow_mut().clear();
        let _ = tcflush(&self.screen, QueueSelector::IFlush);
    }

    /// Reads the next line; `None` when the input is closed (Ctrl-D).
    pub(crate) async fn read_line(&self) -> io::Result<Option<String>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            self.keyboard.readable().await?;
            let mut bytes = [0; 4096];
            match self.keyboard.try_read(&mut bytes) {
                Ok(0) => return Ok(None),
                Ok(count) => self.buffer.borrow_mut().extend_from_slice(&bytes[..count]),
                Err(error)
                    if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_line(&self) -> Option<String> {
        let mut buffer = self.buffer.borrow_mut();
        let end = buffer.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = buffer.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Prints text at the cursor.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        (&self.screen).write_all(text.as_bytes())
    }
}

/// Returns the number of columns of the terminal of an output.
pub(crate) fn columns(output: impl AsFd) -> usize {
    let size = tcgetwinsize(output).ok().map(|size| usize::from(size.ws_col));
    size.filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS)
}

/// Sanitizes external text for output: replaces characters that move the cursor, change the terminal or
/// change the direction of the text.
pub(crate) fn sanitize_for_terminal(text: &str) -> String {
    let is_bidi_control = |c: char| matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if c != '\n' && (c.is_control() || is_bidi_control(c)) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Control characters in text from a server become spaces.
    #[test]
    fn server_text_cannot_steer_terminal() {
        assert_eq!(sanitize_for_terminal("a\u{1b}[2Jb\rc\nd\u{202E}e\u{9b}f"), "a [2Jb c\nd e f");
    }
}
