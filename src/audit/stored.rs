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
const MAX_LOST_RACES: usize = 50;
/// The interval between deletions of old lines.
const DELETE_INTERVAL: Duration = Duration::from_secs(600);
/// The maximum number of lines per deletion.
const DELETE_BATCH: usize = 10_000;

/// The log in the store.
pub struct StoreLog {
    lines: Arc<dyn AuditLineStore>,
    retention: Duration,
    context: LogContext,
    /// The number of the last line and the head of the chain, after the last write of this process.
    position: Option<(u64, Head)>,
    /// The head that this process wrote last. If the store ends earlier, it was truncated, and that must
    /// show.
    last_head: Option<Head>,
    last_deletion: Option<Timestamp>,
}

impl StoreLog {
    /// Creates the log with this retention.
    pub fn new(lines: Arc<dyn AuditLineStore>, retention: Duration, context: LogContext) -> Self {
        Self { lines, retention, context, position: None, last_head: None, last_deletion: None }
    }

    /// Appends lines: all of them or none. After `MAX_LOST_RACES` lost races, that is an error.
    ///
    /// # Errors
    /// If they cannot be written.
    pub async fn append(&mut self, objects: &[String]) -> io::Result<()> {
        for _ in 0..MAX_LOST_RACES {
            let (n, mut head, own_lines) = match self.position.take() {
                Some((n, head)) => (n, head, Vec::new()),
                None => self.read_end().await?,
            };
            let lines: Vec<String> =
                own_lines.iter().chain(objects).map(|object| head.link(&self.context.key, object)).collect();
            let (first, count) = (n + 1, lines.len() as u64);
            let first_line = lines.first().cloned();
            // The outcome of the write may be unknown, so a failure is checked by reading the lines back.
            let written = self.lines.add_lines(first, lines).await.map_err(io::Error::other)?;
            if written || self.is_stored(first, first_line.as_ref()).await? {
                self.last_head = Some(head.clone());
                self.position = Some((n + count, head));
                self.delete_old_lines().await;
                return Ok(());
            }
        }
        Err(io::Error::other("too many concurrent writers"))
    }

    /// Returns the number of the last line and the head of the chain, with the log's own lines that must be
    /// written first.
    async fn read_end(&self) -> io::Result<(u64, Head, Vec<String>)> {
        let last = self.lines.last_line().await.map_err(io::Error::other)?;
        let mut own_lines = Vec::new();
        let line = last.as_ref().map(|(_, line)| line.as_str());
        let head = self.context.continue_chain(line, self.last_head.as_ref(), &mut own_lines);
        Ok((last.map_or(0, |(n, _)| n), head, own_lines))
    }

    async fn is_stored(&self, n: u64, line: Option<&String>) -> io::Result<bool> {
        let found = self.lines.lines_after(n - 1, 1).await.map_err(io::Error::other)?;
        Ok(found.first().map(|(_, line)| line) == line)
    }

    /// Deletes old lines, at most every [`DELETE_INTERVAL`]. A failure is only logged: the lines of the
    /// append are written already.
    async fn delete_old_lines(&mut self) {
        let Some(now) = self.context.clock.stable_now() else { return };
        if self.last_deletion.is_some_and(|last_deletion| now.since(last_deletion) < DELETE_INTERVAL) {
            return;
        }
        self.last_deletion = Some(now);
        if let Err(error) = self.lines.delete_lines(now - self.retention, DELETE_BATCH).await {
            tracing::warn!(%error, "old audit lines cannot be deleted");
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
            let mut stored = self.lines.lock();
            if first != stored.len() as u64 + 1 {
                return Ok(false);
            }
            stored.extend(lines);
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

        async fn delete_lines(&self, _: Timestamp, _: usize) -> Result<usize, StoreError> {
            Ok(0)
        }
    }

    fn log(table: &Arc<Table>, replica: &str) -> StoreLog {
        let context = LogContext {
            key: Key::default(),
            clock: System::clock(),
            entropy: System::entropy(),
            replica: replica.to_owned(),
        };
        StoreLog::new(Arc::clone(table) as _, Duration::from_secs(60), context)
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
            let object = |log: &StoreLog| vec![log.context.own_line(Kind::TaskCreated, Value::Null)];
            let (first, second) = (object(&one), object(&two));
            one.append(&first).await.unwrap();
            two.append(&second).await.unwrap();
        }
        *table.lost_answers.lock() = 1;
        let object = vec![one.context.own_line(Kind::TaskEnded, Value::Null)];
        one.append(&object).await.unwrap();
        let report = verify(&table);
        assert_eq!((report.broken.as_slice(), report.heads.len(), report.lines), ([].as_slice(), 1, 12));
        // The last line is deleted while the log is in use.
        table.lines.lock().pop();
        one.append(&object).await.unwrap();
        assert_eq!(verify(&table).broken[0].what, FindingKind::Removed { from: 12, to: 12 });
    }
}
