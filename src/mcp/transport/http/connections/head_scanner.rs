//! [`HeadScanner`]: scans the bytes of a connection before the HTTP library parses them. It finds heads with
//! a bare LF, large heads, and heads that do not give the length of their body, which the library does not
//! report. It parses heads and bodies only as far as it needs to find the next head.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// The largest head that needs no memory budget: the size of the HTTP library's first buffer.
const SMALL_HEAD: usize = 8 * 1024;

/// Memory budget of the large heads of all connections, in KiB: enough for 256 heads of 64 KiB.
const BUDGET_KIB: usize = 32 * 1024;

/// How many bytes of a line are kept: enough for the headers that determine the end of a body.
const MAX_LINE_PREFIX: usize = 64;

/// The memory budget of large heads. Cheap to clone.
#[derive(Clone)]
pub(in crate::mcp::transport::http) struct LargeHeads(Arc<Semaphore>);

impl Default for LargeHeads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET_KIB)))
    }
}

/// What the scanner found in the heads of one connection.
#[derive(Default)]
pub(in crate::mcp::transport::http) struct Findings {
    /// The number of the first head with a bare LF, counted from 1. 0 if there is none.
    first_bare_lf: AtomicUsize,
    /// How many heads the HTTP library has parsed.
    parsed_heads: AtomicUsize,
    last: AtomicBool,
}

impl Findings {
    /// Returns true if the head that the HTTP library has just parsed, or an earlier one, contains a bare LF.
    /// Must be called once for each head.
    pub(in crate::mcp::transport::http) fn next_has_bare_lf(&self) -> bool {
        let number = self.parsed_heads.fetch_add(1, Ordering::Relaxed) + 1;
        (1..=number).contains(&self.first_bare_lf.load(Ordering::Relaxed))
    }

    /// Returns true if no request may follow on the connection. That is so after a large head, because the
    /// HTTP library keeps its buffer until the connection ends. It is also so if the scanner cannot determine
    /// where the next head begins.
    pub(in crate::mcp::transport::http) fn is_last(&self) -> bool {
        self.last.load(Ordering::Relaxed)
    }
}

/// What the next byte belongs to.
enum ScanState {
    Head,
    /// A body with this number of bytes left.
    Body(u64),
    /// After the last head that is scanned: no request follows.
    End,
}

/// Scans the bytes of one connection.
pub(in crate::mcp::transport::http) struct HeadScanner {
    findings: Arc<Findings>,
    state: ScanState,
    /// Number of complete heads.
    head_count: usize,
    /// Bytes of the current head.
    head_size: usize,
    /// True once the current head has a line that is not empty.
    has_content: bool,
    /// The length of the current head's body. `None` if the scanner cannot determine it.
    body: Option<u64>,
    /// The first bytes of the line, its length, and its last byte.
    line: Vec<u8>,
    line_length: usize,
    last_byte: u8,
    budget: PollSemaphore,
    /// Share of the budget that a large head takes, in KiB.
    cost: u32,
    /// Kept until the connection ends, like the library's buffer.
    permit: Option<OwnedSemaphorePermit>,
}

impl HeadScanner {
    /// Creates a scanner for a connection whose heads have at most `head_bytes` bytes.
    pub(in crate::mcp::transport::http) fn new(
        findings: Arc<Findings>,
        budget: &LargeHeads,
        head_bytes: usize,
    ) -> Self {
        // A growing buffer can be twice as large as its content.
        let cost = (head_bytes.saturating_mul(2) / 1024).min(BUDGET_KIB);
        Self {
            findings,
            state: ScanState::Head,
            head_count: 0,
            head_size: 0,
            has_content: false,
            body: Some(0),
            line: Vec::new(),
            line_length: 0,
            last_byte: 0,
            budget: PollSemaphore::new(Arc::clone(&budget.0)),
            cost: u32::try_from(cost).unwrap_or(u32::MAX),
            permit: None,
        }
    }

    /// Waits until the next bytes may be read: a large head needs a share of the memory budget.
    pub(in crate::mcp::transport::http) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.permit.is_none() && self.head_size >= SMALL_HEAD {
            self.permit = ready!(self.budget.poll_acquire_many(context, self.cost));
        }
        Poll::Ready(())
    }

    /// Scans the next bytes.
    pub(in crate::mcp::transport::http) fn scan(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.state {
                ScanState::Head => {
                    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |lf| lf + 1);
                    let (part, rest) = bytes.split_at(end);
                    self.scan_head(part);
                    bytes = rest;
                }
                ScanState::Body(remaining) => {
                    let skipped = usize::try_from(remaining).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[skipped..];
                    let remaining = remaining - skipped as u64;
                    self.state = if remaining == 0 { ScanState::Head } else { ScanState::Body(remaining) };
                }
                ScanState::End => return,
            }
        }
    }

    /// Scans a line of a head, or a part of a line.
    fn scan_head(&mut self, part: &[u8]) {
        self.head_size += part.len();
        if self.head_size > SMALL_HEAD {
            self.findings.last.store(true, Ordering::Relaxed);
        }
        let (text, ends_line) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
        self.line_length += text.len();
        self.last_byte = text.last().copied().unwrap_or(self.last_byte);
        self.line.extend(text.iter().take(MAX_LINE_PREFIX - self.line.len()));
        if ends_line {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let is_bare = self.line_length == 0 || self.last_byte != b'\r';
        if is_bare && self.findings.first_bare_lf.load(Ordering::Relaxed) == 0 {
            self.findings.first_bare_lf.store(self.head_count + 1, Ordering::Relaxed);
        }
        let is_empty = self.line_length == usize::from(!is_bare);
        if !is_empty {
            self.has_content = true;
            self.note_body();
        }
        self.line.clear();
        self.line_length = 0;
        // Empty lines before a head do not belong to it.
        if is_empty && self.has_content {
            self.end_head();
        }
    }

    /// Records the length of the body, if this line determines it.
    fn note_body(&mut self) {
        let Some(colon) = self.line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&self.line[..colon], &self.line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_whole = self.line_length <= MAX_LINE_PREFIX;
            let length = std::str::from_utf8(value).ok().and_then(|value| value.trim().parse().ok());
            self.body = self.body.and(length.filter(|_| is_whole));
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.body = None;
        }
    }

    fn end_head(&mut self) {
        self.state = match self.body {
            Some(0) => ScanState::Head,
            Some(length) => ScanState::Body(length),
            None => {
                self.findings.last.store(true, Ordering::Relaxed);
                ScanState::End
            }
        };
        self.head_count += 1;
        (self.head_size, self.has_content, self.body) = (0, false, Some(0));
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

    /// Returns the heads that have a bare LF or follow one, and whether the last head is the last of its
    /// connection.
    fn scan_all(bytes: &str, heads: usize, chunk_size: usize) -> (Vec<usize>, bool) {
        let mut scanner = scanner(&LargeHeads::default());
        bytes.as_bytes().chunks(chunk_size).for_each(|chunk| scanner.scan(chunk));
        let findings = scanner.findings;
        ((1..=heads).filter(|_| findings.next_has_bare_lf()).collect(), findings.is_last())
    }

    /// Line endings without CR are found in the head that has them, however the bytes are split.
    #[test]
    fn bare_lf_is_found_in_head() {
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
            for chunk_size in [1, 2, 7, 1000] {
                assert_eq!(
                    scan_all(&bytes, heads, chunk_size),
                    (expected.clone(), false),
                    "{bytes:?} {chunk_size}"
                );
            }
        }
    }

    /// A head that is large, or does not give the length of its body, is the last one of its connection.
    #[test]
    fn unclear_body_ends_scanning() {
        for head in [
            "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n".to_owned(),
            "Content-Length: x\r\n".to_owned(),
            format!("Content-Length: {}5\r\n", "0".repeat(100)),
            format!("X: {}\r\n", "a".repeat(SMALL_HEAD)),
        ] {
            assert!(scan_all(&format!("GET / HTTP/1.1\r\n{head}\r\n"), 1, 1000).1, "{head}");
        }
    }

    #[test]
    fn large_heads_share_a_budget() {
        let budget = LargeHeads::default();
        let mut ready = 0;
        let mut scanners: Vec<_> = (0..300).map(|_| scanner(&budget)).collect();
        for scanner in &mut scanners {
            assert!(poll_fn(|context| scanner.poll_ready(context)).now_or_never().is_some(), "small as yet");
            scanner.scan(&[b'a'; SMALL_HEAD]);
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
