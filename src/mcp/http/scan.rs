//! [`HeadScanner`]: reads the bytes of a connection along with the HTTP library, for what the library keeps to itself: which
//! heads have lines that end in a bare LF, and which are large. It follows heads and bodies only as far as it must to know
//! where the next head begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// The largest head that needs no memory budget: what the HTTP library's first buffer holds.
const SMALL: usize = 8 * 1024;

/// The memory, in KiB, that the large heads of all connections may take together: 256 of 64 KiB.
const BUDGET_KIB: usize = 32 * 1024;

/// How much of a line is kept: enough for the headers that say where a body ends.
const KEPT: usize = 64;

/// The memory budget of large heads. Cheap to clone.
#[derive(Clone)]
pub(super) struct LargeHeads(Arc<Semaphore>);

impl Default for LargeHeads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_KIB)))
    }
}

/// What was found in the heads of one connection.
#[derive(Default)]
pub(super) struct Findings {
    /// The number, from 1 on, of the first head with a bare LF; 0 without one.
    bare: AtomicUsize,
    /// How many heads the HTTP library has handed on.
    handed_on: AtomicUsize,
    last: AtomicBool,
}

impl Findings {
    /// True if the head that the HTTP library hands on now has a line that ends in a bare LF. To be asked once for each.
    pub(super) fn next_has_bare_lf(&self) -> bool {
        let number = self.handed_on.fetch_add(1, Ordering::Relaxed) + 1;
        (1..=number).contains(&self.bare.load(Ordering::Relaxed))
    }

    /// True if no request is to follow on the connection. The HTTP library keeps the buffer of a large head for as long as the
    /// connection lasts.
    pub(super) fn is_last(&self) -> bool {
        self.last.load(Ordering::Relaxed)
    }
}

/// Where the next byte belongs.
enum Place {
    Head,
    /// To a body that has so many bytes left.
    Body(u64),
    /// Behind the last head that is read: no request follows.
    End,
}

/// Follows the bytes of one connection.
pub(super) struct HeadScanner {
    findings: Arc<Findings>,
    place: Place,
    /// Heads that have ended.
    heads: usize,
    /// Bytes of this head.
    size: usize,
    /// True once this head has a line that is not empty.
    begun: bool,
    /// The length of this head's body; `None` if it is not said in a way that is followed here.
    body: Option<u64>,
    /// How the line begins, how long it is, and its last byte.
    line: Vec<u8>,
    line_length: usize,
    previous: u8,
    budget: PollSemaphore,
    /// What a large head takes of the budget, in KiB.
    cost: u32,
    /// Kept until the connection ends, as the buffer is.
    permit: Option<OwnedSemaphorePermit>,
}

impl HeadScanner {
    /// For a connection whose heads have so many bytes at most.
    pub(super) fn new(findings: Arc<Findings>, budget: &LargeHeads, head_bytes: usize) -> Self {
        // A buffer that grows is up to twice as large as what it holds.
        let cost = (head_bytes.saturating_mul(2) / 1024).min(BUDGET_KIB);
        Self {
            findings,
            place: Place::Head,
            heads: 0,
            size: 0,
            begun: false,
            body: Some(0),
            line: Vec::new(),
            line_length: 0,
            previous: 0,
            budget: PollSemaphore::new(Arc::clone(&budget.0)),
            cost: u32::try_from(cost).unwrap_or(u32::MAX),
            permit: None,
        }
    }

    /// Waits until the next bytes may be read: more than a small head needs a part of the memory budget.
    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.permit.is_none() && self.size >= SMALL {
            self.permit = ready!(self.budget.poll_acquire_many(context, self.cost));
        }
        Poll::Ready(())
    }

    /// Takes note of the bytes that came next.
    pub(super) fn scan(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.place {
                Place::Head => {
                    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |lf| lf + 1);
                    let (part, rest) = bytes.split_at(end);
                    self.scan_head(part);
                    bytes = rest;
                }
                Place::Body(left) => {
                    let passed = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[passed..];
                    let left = left - passed as u64;
                    self.place = if left == 0 { Place::Head } else { Place::Body(left) };
                }
                Place::End => return,
            }
        }
    }

    /// Takes note of a line, or of a part of one.
    fn scan_head(&mut self, part: &[u8]) {
        self.size += part.len();
        if self.size > SMALL {
            self.findings.last.store(true, Ordering::Relaxed);
        }
        let (text, ends) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
        self.line_length += text.len();
        self.previous = text.last().copied().unwrap_or(self.previous);
        self.line.extend(text.iter().take(KEPT - self.line.len()));
        if ends {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let bare = self.line_length == 0 || self.previous != b'\r';
        if bare && self.findings.bare.load(Ordering::Relaxed) == 0 {
            self.findings.bare.store(self.heads + 1, Ordering::Relaxed);
        }
        let empty = self.line_length == usize::from(!bare);
        if !empty {
            self.begun = true;
            self.note_body();
        }
        self.line.clear();
        self.line_length = 0;
        // Empty lines before a head are none of it.
        if empty && self.begun {
            self.end_head();
        }
    }

    /// Takes note of where the body ends, if this line says so.
    fn note_body(&mut self) {
        let Some(colon) = self.line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&self.line[..colon], &self.line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"content-length") {
            let whole = self.line_length <= KEPT;
            let length = std::str::from_utf8(value).ok().and_then(|value| value.trim().parse().ok());
            self.body = self.body.and(length.filter(|_| whole));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.body = None;
        }
    }

    fn end_head(&mut self) {
        self.place = match self.body {
            Some(0) => Place::Head,
            Some(length) => Place::Body(length),
            None => {
                self.findings.last.store(true, Ordering::Relaxed);
                Place::End
            }
        };
        self.heads += 1;
        (self.size, self.begun, self.body) = (0, false, Some(0));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt as _;

    use super::*;

    fn scanner(budget: &LargeHeads) -> HeadScanner {
        HeadScanner::new(Arc::default(), budget, 64 * 1024)
    }

    /// The heads with a bare LF or behind one, of so many, and whether the last of them is the last of its connection.
    fn found(bytes: &str, heads: usize, at_once: usize) -> (Vec<usize>, bool) {
        let mut scanner = scanner(&LargeHeads::default());
        bytes.as_bytes().chunks(at_once).for_each(|some| scanner.scan(some));
        let findings = scanner.findings;
        ((1..=heads).filter(|_| findings.next_has_bare_lf()).collect(), findings.is_last())
    }

    #[test]
    fn bare_lf_is_found_in_its_head() {
        let good = "\r\nPOST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH:  3 \r\n\r\n\n\nx";
        let bad = "GET / HTTP/1.1\nHost: a\r\n\r\n";
        for (bytes, heads, expected) in [
            (good.to_owned(), 1, vec![]),
            (good.repeat(3), 3, vec![]),
            (bad.to_owned(), 1, vec![1]),
            (format!("{good}{bad}"), 2, vec![2]),
            (format!("{good}{good}{bad}{good}"), 4, vec![3, 4]),
            ("GET / HTTP/1.1\r\nHost: a\r\n\n".to_owned(), 1, vec![1]),
            ("GET / HTTP/1.1\r\nHost: a\n\r\n".to_owned(), 1, vec![1]),
            ("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), 1, vec![1]),
        ] {
            for at_once in [1, 2, 7, 1000] {
                assert_eq!(found(&bytes, heads, at_once), (expected.clone(), false), "{bytes:?} {at_once}");
            }
        }
    }

    #[test]
    fn unclear_body_or_large_head_is_last() {
        for head in [
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n".to_owned(),
            "Content-Length: x\r\n".to_owned(),
            format!("Content-Length: {}5\r\n", "0".repeat(100)),
            format!("X: {}\r\n", "a".repeat(SMALL)),
        ] {
            assert!(found(&format!("GET / HTTP/1.1\r\n{head}\r\n"), 1, 1000).1, "{head}");
        }
    }

    #[test]
    fn large_heads_share_a_budget() {
        let budget = LargeHeads::default();
        let mut ready = 0;
        let mut scanners: Vec<_> = (0..300).map(|_| scanner(&budget)).collect();
        for scanner in &mut scanners {
            assert!(poll_fn(|context| scanner.poll_ready(context)).now_or_never().is_some(), "small as yet");
            scanner.scan(&[b'a'; SMALL]);
            ready += usize::from(poll_fn(|context| scanner.poll_ready(context)).now_or_never().is_some());
        }
        assert_eq!(ready, 256);
        drop(scanners.remove(0));
        let waiting = scanners.last_mut().unwrap();
        assert!(poll_fn(|context| waiting.poll_ready(context)).now_or_never().is_none(), "others came first");
        drop(scanners);
        assert_eq!(budget.0.available_permits(), BUDGET_KIB);
    }
}
