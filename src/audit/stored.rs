//! The audit log in the store, where all replicas write one chain. There is no lock: a replica that loses a
//! race rebuilds its lines behind those of the other. This module must not know what lines mean.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use taskbridge_sdk::Timestamp;

use super::chain::Head;
use super::file::LogContext;
use crate::tasks::audit::AuditLineStore;

/// The maximum number of lost races in a row before it counts as a failure.
const QUICKER: usize = 50;
/// The interval between deletions of old lines.
const FORGET_EVERY: Duration = Duration::from_secs(600);
/// The maximum number of lines per deletion.
const FORGOTTEN: usize = 10_000;

/// The log in the store.
pub struct StoreLog {
    lines: Arc<dyn AuditLineStore>,
    keep: Duration,
    tools: LogContext,
    /// The number of the last line and the head of the chain, after the last write of this process.
    left: Option<(u64, Head)>,
    /// The head that this process wrote last. If the store ends earlier, it was truncated, and that must
    /// show.
    ours: Option<Head>,
    forgot: Option<Timestamp>,
}

impl StoreLog {
    /// Creates the log with the retention `keep`.
    pub fn new(lines: Arc<dyn AuditLineStore>, keep: Duration, tools: LogContext) -> Self {
        Self { lines, keep, tools, left: None, ours: None, forgot: None }
    }

    /// Appends lines: all of them or none. After `QUICKER` lost races, that is an error.
    ///
    /// # Errors
    /// If they cannot be written.
    pub async fn append(&mut self, objects: &[String]) -> io::Result<()> {
        for _ in 0..QUICKER {
            let (n, mut head, own) = match self.left.take() {
                Some((n, head)) => (n, head, Vec::new()),
                None => self.end().await?,
            };
            let lines: Vec<String> =
                own.iter().chain(objects).map(|object| head.link(&self.tools.key, object)).collect();
            let (first, count) = (n + 1, lines.len() as u64);
            let mine = lines.first().cloned();
            // The outcome of the write may be unknown, so a failure is checked by reading the lines back.
            let written = self.lines.add_lines(first, lines).await.map_err(io::Error::other)?;
            if written || self.is_there(first, mine.as_ref()).await? {
                self.ours = Some(head.clone());
                self.left = Some((n + count, head));
                self.forget().await;
                return Ok(());
            }
        }
        Err(io::Error::other("other processes write into it all the time"))
    }

    /// Returns the number of the last line and the head of the chain, with the log's own lines that must be
    /// written first.
    async fn end(&self) -> io::Result<(u64, Head, Vec<String>)> {
        let last = self.lines.last_line().await.map_err(io::Error::other)?;
        let mut own = Vec::new();
        let line = last.as_ref().map(|(_, line)| line.as_str());
        let head = self.tools.goes_on(line, self.ours.as_ref(), &mut own);
        Ok((last.map_or(0, |(n, _)| n), head, own))
    }

    async fn is_there(&self, n: u64, line: Option<&String>) -> io::Result<bool> {
        let found = self.lines.lines_after(n - 1, 1).await.map_err(io::Error::other)?;
        Ok(found.first().map(|(_, line)| line) == line)
    }

    /// Deletes old lines, at most every [`FORGET_EVERY`]. A failure is only logged: the lines of the append
    /// are written already.
    async fn forget(&mut self) {
        let Some(now) = self.tools.clock.settled() else { return };
        if self.forgot.is_some_and(|forgot| now.since(forgot) < FORGET_EVERY) {
            return;
        }
        self.forgot = Some(now);
        if let Err(error) = self.lines.forget_lines(now - self.keep, FORGOTTEN).await {
            tracing::warn!(%error, "old lines of the audit log could not be deleted");
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use parking_lot::Mutex;
    use serde_json::Value;

    use super::super::chain::Key;
    use super::super::record::Kind;
    use super::super::verify::{FindingKind, Report, Verifier};
    use super::*;
    use crate::clock::System;
    use crate::tasks::store::StoreError;

    /// A table of lines. The next `lost_answers` writes succeed, but report a conflict.
    #[derive(Default)]
    struct Table {
        lines: Mutex<Vec<String>>,
        lost_answers: Mutex<u32>,
    }

    #[async_trait]
    impl AuditLineStore for Table {
        async fn last_line(&self) -> Result<Option<(u64, String)>, StoreError> {
            let lines = self.lines.lock();
            Ok(lines.last().map(|line| (lines.len() as u64, line.clone())))
        }

        async fn add_lines(&self, first: u64, lines: Vec<String>) -> Result<bool, StoreError> {
            let mut kept = self.lines.lock();
            if first != kept.len() as u64 + 1 {
                return Ok(false);
            }
            kept.extend(lines);
            let mut lost = self.lost_answers.lock();
            let is_lost = *lost > 0;
            *lost = lost.saturating_sub(1);
            // A retry whose first attempt succeeded gets this result.
            Ok(!is_lost)
        }

        async fn lines_after(&self, n: u64, limit: usize) -> Result<Vec<(u64, String)>, StoreError> {
            let lines = self.lines.lock();
            let after = (1..).zip(lines.iter().cloned()).skip(usize::try_from(n).unwrap());
            Ok(after.take(limit).collect())
        }

        async fn forget_lines(&self, _: Timestamp, _: usize) -> Result<usize, StoreError> {
            Ok(0)
        }
    }

    fn log(table: &Arc<Table>, replica: &str) -> StoreLog {
        let tools = LogContext {
            key: Key::default(),
            clock: System::clock(),
            entropy: System::entropy(),
            replica: replica.to_owned(),
        };
        StoreLog::new(Arc::clone(table) as _, Duration::from_secs(60), tools)
    }

    fn verify(table: &Table) -> Report {
        let mut verifier = Verifier::new(Key::default(), []);
        for line in table.lines.lock().iter() {
            verifier.line(String::new(), line.as_bytes());
        }
        verifier.finish(false)
    }

    #[tokio::test]
    async fn several_processes_write_one_chain() {
        let table = Arc::new(Table::default());
        let (mut one, mut two) = (log(&table, "one"), log(&table, "two"));
        for _ in 0..5 {
            let object = |log: &StoreLog| vec![log.tools.own(Kind::TaskCreated, Value::Null)];
            let (first, second) = (object(&one), object(&two));
            one.append(&first).await.unwrap();
            two.append(&second).await.unwrap();
        }
        *table.lost_answers.lock() = 1;
        let object = vec![one.tools.own(Kind::TaskEnded, Value::Null)];
        one.append(&object).await.unwrap();
        let report = verify(&table);
        assert_eq!((report.broken.as_slice(), report.heads.len(), report.lines), ([].as_slice(), 1, 12));
        // The last line is deleted while the log is in use.
        table.lines.lock().pop();
        one.append(&object).await.unwrap();
        assert_eq!(verify(&table).broken[0].what, FindingKind::Removed { from: 12, to: 12 });
    }
}
