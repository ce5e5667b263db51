//! [`Pty`]: a program at its own terminal, which a test types to and reads as a person would. `setsid` of
//! util-linux makes it the controlling terminal, so that Ctrl-C works.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tokio::net::unix::pipe;

/// Timeout for expected output.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Ctrl-C and Ctrl-D, as they are typed.
pub(crate) const CTRL_C: &str = "\u{3}";
pub(crate) const CTRL_D: &str = "\u{4}";

/// A program at its terminal. Dropping it kills the program.
pub(crate) struct Pty {
    child: Child,
    screen: pipe::Receiver,
    keyboard: File,
    /// All bytes that the program wrote.
    written: Vec<u8>,
    /// Received bytes that are incomplete: part of a character or of an escape sequence.
    unread: Vec<u8>,
    /// All text shown so far, without colors and cursor movements.
    shown: String,
    /// How much of the text has been matched.
    matched: usize,
}

impl Pty {
    /// Starts `command`, which must not be started yet, at a terminal of 100 columns.
    pub(crate) fn start(command: &Command) -> Self {
        Self::start_at(command, 100)
    }

    /// Starts `command` at a terminal of this many columns.
    pub(crate) fn start_at(command: &Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal: OwnedFd = open(name.as_c_str(), flags, Mode::empty()).unwrap();
        // Otherwise Ctrl-C discards output that this end has not read yet.
        let mut modes = tcgetattr(&terminal).unwrap();
        modes.local_modes.insert(LocalModes::NOFLSH);
        tcsetattr(&terminal, OptionalActions::Now, &modes).unwrap();

        let mut at_terminal = Command::new("setsid");
        at_terminal.arg("--ctty").arg(command.get_program()).args(command.get_args());
        at_terminal.env_clear().env("TERM", "xterm");
        at_terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        at_terminal.current_dir(command.get_current_dir().expect("it runs in a place"));
        at_terminal.stdin(terminal.try_clone().unwrap());
        at_terminal.stdout(terminal.try_clone().unwrap()).stderr(terminal);
        let child = at_terminal.spawn().unwrap();

        let keyboard = File::from(master.try_clone().unwrap());
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        let screen = pipe::Receiver::from_file_unchecked(File::from(master)).unwrap();
        let (written, unread, shown) = Default::default();
        Self { child, screen, keyboard, written, unread, shown, matched: 0 }
    }

    /// Types `keys`.
    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line.
    pub(crate) fn enter_line(&mut self, line: &str) {
        self.type_keys(&format!("{line}\n"));
    }

    /// Waits until `expected` is shown, after the previous match.
    pub(crate) async fn wait_for(&mut self, expected: &str) {
        let shown = tokio::time::timeout(TIMEOUT, async {
            loop {
                if let Some(at) = self.shown[self.matched..].find(expected) {
                    self.matched += at + expected.len();
                    return true;
                }
                if !self.read_more().await {
                    return false;
                }
            }
        });
        let shown = shown.await.unwrap_or(false);
        assert!(shown, "{expected:?} is never shown. The end of what is:\n{}", self.last_text());
    }

    /// Waits until the program ends; returns its exit code and all text shown.
    pub(crate) async fn wait_for_end(mut self) -> (Option<i32>, String) {
        let ended = tokio::time::timeout(TIMEOUT, async { while self.read_more().await {} }).await;
        assert!(ended.is_ok(), "it does not end. The end of what it shows:\n{}", self.last_text());
        let code = self.child.wait().unwrap().code();
        (code, std::mem::take(&mut self.shown))
    }

    /// Waits until the program ends, and returns all bytes that it wrote.
    pub(crate) async fn recording(mut self) -> Vec<u8> {
        let ended = tokio::time::timeout(TIMEOUT, async { while self.read_more().await {} }).await;
        assert!(ended.is_ok(), "it does not end. The end of what it shows:\n{}", self.last_text());
        std::mem::take(&mut self.written)
    }

    /// Returns all bytes that the program has written so far.
    pub(crate) fn written(&self) -> &[u8] {
        &self.written
    }

    /// Closes the terminal, as closing its window does, waits until the program ends, and returns its exit
    /// code.
    pub(crate) async fn close_terminal(mut self) -> Option<i32> {
        // These assignments close both of our ends of the terminal.
        self.screen = pipe::pipe().unwrap().1;
        self.keyboard = File::options().write(true).open("/dev/null").unwrap();
        let ended = tokio::time::timeout(TIMEOUT, async {
            loop {
                match self.child.try_wait().unwrap() {
                    Some(status) => return status.code(),
                    None => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        ended.await.expect("it goes on without its terminal")
    }

    /// Processes the complete part of the input, without escape sequences (ECMA-48: `ESC [`, parameters, a
    /// final letter).
    fn process_input(&mut self) {
        let complete = match self.unread.iter().rposition(|byte| *byte == 0x1b) {
            Some(at) if !self.unread[at..].iter().any(u8::is_ascii_alphabetic) => at,
            _ => self.unread.len(),
        };
        let complete = match std::str::from_utf8(&self.unread[..complete]) {
            Ok(_) => complete,
            Err(error) => error.valid_up_to(),
        };
        let text = String::from_utf8(self.unread.drain(..complete).collect()).unwrap();
        let mut parts = text.split('\u{1b}');
        self.shown.extend(parts.next());
        for part in parts {
            self.shown.extend(part.split_once(|c: char| c.is_ascii_alphabetic()).map(|(_, rest)| rest));
        }
    }

    /// Returns the end of the text shown.
    fn last_text(&self) -> &str {
        let from = self.shown.char_indices().rev().nth(2000).map_or(0, |(at, _)| at);
        &self.shown[from..]
    }

    /// Reads more; returns false at the end.
    async fn read_more(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            self.screen.readable().await.unwrap();
            match self.screen.try_read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => {
                    self.written.extend_from_slice(&bytes[..count]);
                    self.unread.extend_from_slice(&bytes[..count]);
                    self.process_input();
                    return true;
                }
                // What the program wrote last may not be readable yet, even if the program has ended.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // A terminal whose program has ended returns EIO.
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
