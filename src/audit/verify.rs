//! Verification of an audit log against its chain: it detects changed, removed, moved and inserted lines.
//! That lines are missing at the end shows only if the log must contain a hash that was kept elsewhere (an
//! anchor). Pure: the caller passes lines, and this module must not know where they come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::chain::{self, Head, Key, ZERO_HASH};
use super::record::Kind;

/// The maximum number of findings in each of the two lists. More would not help if a whole file is nonsense.
const MAX_FINDINGS: usize = 1_000;

/// The result of a verification.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of lines that belong to a chain.
    pub lines: u64,
    /// The end of each chain, by chain id.
    pub heads: BTreeMap<String, Head>,
    /// The findings that show manipulation.
    pub broken: Vec<Finding>,
    /// The findings that are worth knowing and do not show manipulation.
    pub notes: Vec<Finding>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file name and line number.
    pub location: String,
    /// The kind of finding.
    pub what: FindingKind,
}

/// The kind of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// It is not a line of an audit log.
    Unreadable,
    /// Its hash does not match its content: it was changed, or written with another key.
    Changed,
    /// Lines before it are missing.
    Removed {
        /// The number of the first missing line.
        from: u64,
        /// The number of the last missing line.
        to: u64,
    },
    /// Its number occurred before: it was copied or moved.
    Repeated(u64),
    /// Its number follows the line before, but its hash does not: one of the two was replaced.
    Replaced(u64),
    /// No line has the expected hash that was kept elsewhere.
    NoAnchor(String),
    /// The log begins in the middle of a chain: older files are missing.
    BeginsAt(u64),
    /// A chain begins in addition to another one.
    Begins(String),
    /// A line was cut off when its process was killed or its disk was full. Its content is lost.
    Torn,
    /// The number of lines that could not be written, and are lost.
    Lost(u64),
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindingKind::Unreadable => f.write_str("not a line of an audit log"),
            FindingKind::Changed => f.write_str(
                "changed: the hash does not match the content of the line (or was made with another key)",
            ),
            FindingKind::Removed { from, to } if from == to => {
                write!(f, "removed: line {from} before this one is missing")
            }
            FindingKind::Removed { from, to } => {
                write!(f, "removed: lines {from} to {to} before this one are missing")
            }
            FindingKind::Repeated(seq) => write!(f, "copied or moved: line {seq} does not belong here"),
            FindingKind::Replaced(seq) => write!(f, "replaced: line {seq} does not follow the one before it"),
            FindingKind::NoAnchor(hash) => {
                write!(f, "cut off: no line has the hash {hash} of the anchor")
            }
            FindingKind::BeginsAt(seq) => write!(f, "begins with line {seq}: older files are missing"),
            FindingKind::Begins(chain) => write!(f, "chain {chain} begins in addition to another"),
            FindingKind::Torn => {
                f.write_str("a gap: the line was cut off when its process was killed or its disk was full")
            }
            FindingKind::Lost(count) => write!(f, "a gap: {count} lines could not be written, and are lost"),
        }
    }
}

/// A verifier that checks lines one after the other.
#[derive(Debug)]
pub struct Verifier {
    key: Key,
    report: Report,
    anchors: BTreeSet<String>,
    /// A line that could not be parsed. It counts as torn if the next line confirms that.
    unparsed: Option<(String, String)>,
}

impl Verifier {
    /// Creates a verifier with this key. `anchors` are hashes that were kept elsewhere; the log must contain
    /// each.
    pub fn new(key: Key, anchors: impl IntoIterator<Item = String>) -> Self {
        Self { key, report: Report::default(), anchors: anchors.into_iter().collect(), unparsed: None }
    }

    /// Checks the next line, without its line break.
    pub fn line(&mut self, location: String, text: &[u8]) {
        let parsed = std::str::from_utf8(text).ok().and_then(|text| chain::parse(&self.key, text));
        let torn = self.unparsed.take();
        let Some(line) = parsed else {
            self.report_unreadable(torn);
            self.unparsed = Some((location, chain::digest(text)));
            return;
        };
        if let Some((torn_location, digest)) = torn {
            let is_confirmed =
                line.is_intact && line.event == Kind::LogTorn.name() && line.detail["sha256"] == digest;
            match is_confirmed {
                true => self.add_note(torn_location, FindingKind::Torn),
                false => self.add_broken(torn_location, FindingKind::Unreadable),
            }
        }
        self.report.lines += 1;
        if !line.is_intact {
            self.add_broken(location.clone(), FindingKind::Changed);
        }
        self.check_link(&location, &line);
        if line.event == Kind::LogLost.name()
            && let Some(lost) = line.detail["lines"].as_u64()
        {
            self.add_note(location, FindingKind::Lost(lost));
        }
        self.anchors.remove(&line.head.hash);
        let head = self.report.heads.get(&line.head.chain);
        // A line that was moved back must not become the reference for the following ones.
        if head.is_none_or(|head| head.seq < line.head.seq) {
            self.report.heads.insert(line.head.chain.clone(), line.head);
        }
    }

    /// Checks a line against the one before it in its chain.
    fn check_link(&mut self, location: &str, line: &chain::Line) {
        let at = &line.head;
        let Some(head) = self.report.heads.get(&at.chain) else {
            if !self.report.heads.is_empty() {
                self.add_note(location.to_owned(), FindingKind::Begins(at.chain.clone()));
            }
            match at.seq {
                1 if line.prev == ZERO_HASH => {}
                1 => self.add_broken(location.to_owned(), FindingKind::Replaced(1)),
                seq => self.add_note(location.to_owned(), FindingKind::BeginsAt(seq)),
            }
            return;
        };
        let next = head.seq.saturating_add(1);
        let what = match at.seq {
            seq if seq < next => FindingKind::Repeated(seq),
            seq if seq > next => FindingKind::Removed { from: next, to: seq - 1 },
            seq if line.prev != head.hash => FindingKind::Replaced(seq),
            _ => return,
        };
        self.add_broken(location.to_owned(), what);
    }

    /// Returns the report. `is_open` means that the last line has no line break: its writer may have been
    /// interrupted.
    pub fn finish(mut self, is_open: bool) -> Report {
        if let Some((location, _)) = self.unparsed.take() {
            match is_open {
                true => self.add_note(location, FindingKind::Torn),
                false => self.add_broken(location, FindingKind::Unreadable),
            }
        }
        for hash in std::mem::take(&mut self.anchors) {
            self.add_broken("the log".to_owned(), FindingKind::NoAnchor(hash));
        }
        self.report
    }

    fn report_unreadable(&mut self, unparsed: Option<(String, String)>) {
        if let Some((location, _)) = unparsed {
            self.add_broken(location, FindingKind::Unreadable);
        }
    }

    fn add_broken(&mut self, location: String, what: FindingKind) {
        if self.report.broken.len() < MAX_FINDINGS {
            self.report.broken.push(Finding { location, what });
        }
    }

    fn add_note(&mut self, location: String, what: FindingKind) {
        if self.report.notes.len() < MAX_FINDINGS {
            self.report.notes.push(Finding { location, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(n: u64, key: &Key) -> Vec<String> {
        let mut head = Head::new("c".to_owned());
        let event = |n| format!(r#"{{"version":1,"time":"t{n}","event":"task.created"}}"#);
        (0..n).map(|n| head.link(key, &event(n))).collect()
    }

    fn verify<'a>(key: &Key, lines: impl IntoIterator<Item = &'a String>, anchor: Option<&str>) -> Report {
        let mut verifier = Verifier::new(key.clone(), anchor.map(str::to_owned));
        for (n, line) in lines.into_iter().enumerate() {
            verifier.line(format!("{n}"), line.as_bytes());
        }
        verifier.finish(false)
    }

    /// The report has the last position, and missing older files are only a note.
    #[test]
    fn intact_audit_log_verifies() {
        let key = Key::default();
        let lines = log(5, &key);
        let report = verify(&key, &lines, None);
        assert!(report.broken.is_empty() && report.notes.is_empty(), "{report:?}");
        assert_eq!((report.lines, report.heads["c"].seq), (5, 5));
        // Missing older files are not an error; the report states where the log begins.
        let report = verify(&key, &lines[2..], None);
        assert_eq!(report.broken, []);
        assert_eq!(report.notes[0].what, FindingKind::BeginsAt(3));
    }

    /// A log that was cut at its end verifies, unless a hash that was kept elsewhere is given.
    #[test]
    fn anchor_hash_reveals_removed_tail() {
        let key = Key::default();
        let lines = log(5, &key);
        let head = verify(&key, &lines, None).heads["c"].hash.clone();
        assert_eq!(verify(&key, &lines[..3], None).broken, []);
        assert_eq!(
            verify(&key, &lines[..3], Some(&head)).broken[0].what,
            FindingKind::NoAnchor(head.clone())
        );
        assert_eq!(verify(&key, &lines, Some(&head)).broken, []);
    }

    /// A torn line is a gap if the next process recorded its digest, and a change otherwise.
    #[test]
    fn torn_line_needs_record() {
        let key = Key::default();
        let mut head = Head::new("c".to_owned());
        let first = head.link(&key, r#"{"time":"t","event":"task.created"}"#);
        let torn = r#"{"version":1,"time":"2026"#.to_owned();
        let torn_record =
            |digest: &str| format!(r#"{{"time":"t","event":"log.torn","detail":{{"sha256":"{digest}"}}}}"#);
        let recorded = head.clone().link(&key, &torn_record(&chain::digest(torn.as_bytes())));
        let report = verify(&key, [&first, &torn, &recorded], None);
        assert_eq!((report.broken.as_slice(), &report.notes[0].what), ([].as_slice(), &FindingKind::Torn));
        let other = head.link(&key, &torn_record(&chain::digest(b"another")));
        for lines in
            [vec![&first, &torn, &other], vec![&first, &torn, &first], vec![&first, &torn, &torn, &recorded]]
        {
            assert_eq!(verify(&key, lines, None).broken[0].what, FindingKind::Unreadable);
        }
        let mut verifier = Verifier::new(key, None);
        verifier.line("1".to_owned(), first.as_bytes());
        verifier.line("2".to_owned(), torn.as_bytes());
        assert_eq!(verifier.finish(true).notes[0].what, FindingKind::Torn);
    }

    proptest! {
        /// Any removal, change, move or copy of a line breaks the chain.
        #[test]
        fn audit_log_edit_is_found(
            n in 3_u64..12,
            keyed: bool,
            at in any::<prop::sample::Index>(),
            to in any::<prop::sample::Index>(),
            byte in any::<prop::sample::Index>(),
            by in 1_u8..=255,
            how in 0..5_u8,
        ) {
            let key = if keyed { Key::of("secret") } else { Key::default() };
            let mut lines = log(n, &key);
            let (at, to) = (at.index(lines.len()), to.index(lines.len()));
            match how {
                // The first and the last line may be missing, which only an anchor reveals.
                0 => { lines.remove(at.clamp(1, lines.len() - 2)); }
                1 => {
                    let mut bytes = lines[at].clone().into_bytes();
                    let byte = byte.index(bytes.len());
                    bytes[byte] ^= by;
                    let mut verifier = Verifier::new(key, None);
                    for (n, line) in lines.iter().enumerate() {
                        verifier.line(n.to_string(), if n == at { &bytes } else { line.as_bytes() });
                    }
                    prop_assert!(!verifier.finish(false).broken.is_empty());
                    return Ok(());
                }
                2 if at != to => { let line = lines.remove(at); lines.insert(to, line); }
                3 => { let line = lines[at].clone(); lines.insert(to, line); }
                4 if at != to => lines.swap(at, to),
                _ => return Ok(()),
            }
            let report = verify(&key, &lines, None);
            prop_assert!(!report.broken.is_empty(), "{how} {at} {to} {lines:?}");
        }

        #[test]
        fn audit_chain_forgery_needs_key(n in 2_u64..8, at in any::<prop::sample::Index>()) {
            let key = Key::of("secret");
            let mut lines = log(n, &key);
            let at = at.index(lines.len());
            // An attacker who can write the file rebuilds all following lines, as far as that is possible
            // without the key.
            let mut head = Head::new("c".to_owned());
            if let Some(before) = at.checked_sub(1) {
                head = chain::parse(&key, &lines[before]).unwrap().head;
            }
            for line in &mut lines[at..] {
                *line = head.link(&Key::default(), r#"{"version":1,"time":"t","event":"task.ended"}"#);
            }
            prop_assert!(!verify(&key, &lines, None).broken.is_empty());
        }
    }
}
