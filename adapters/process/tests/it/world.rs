//! [`World`]: a folder that is the engine, and backends over it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use taskbridge_process::{Config, Process};
use taskbridge_sdk::{Adapter as _, Backend, ConnectContext, JobKey, Result};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Time for a call of a program that works.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Runs the rows of a table, so many at a time. It fails with the names of the rows that failed.
pub(crate) async fn run_rows<F>(width: usize, rows: impl IntoIterator<Item = (String, F)>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut rows, mut names, mut failed) = (rows.into_iter(), HashMap::new(), Vec::new());
    let mut running = JoinSet::new();
    loop {
        while running.len() < width
            && let Some((name, row)) = rows.next()
        {
            names.insert(running.spawn(row).id(), name);
        }
        match running.join_next_with_id().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => failed.push(names[&error.id()].clone()),
            None => break,
        }
    }
    assert!(failed.is_empty(), "these rows failed, each for the reason printed above: {failed:?}");
}

pub(crate) struct World {
    folder: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The context of a backend whose calls have this time.
    pub(crate) fn context(&self, limit: Duration) -> ConnectContext {
        ConnectContext {
            name: "jobs".to_owned(),
            config_dir: self.folder().to_owned(),
            state_dir: self.folder().to_owned(),
            program: env!("CARGO_BIN_EXE_taskbridge-process-launcher").into(),
            call_timeout: limit,
        }
    }

    /// The config of the test program, with further members of its own config.
    pub(crate) fn config(&self, more: Value) -> Value {
        let mut config = json!({"folder": self.folder()});
        let members: Map<String, Value> = more.as_object().cloned().unwrap_or_default();
        config.as_object_mut().unwrap().extend(members);
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/engine.py");
        // It starts faster without the packages of the machine.
        json!({"command": ["python3", "-S", program], "config": config})
    }

    pub(crate) async fn try_connect(&self, config: Value, limit: Duration) -> Result<Arc<dyn Backend>> {
        let config: Config = serde_json::from_value(config).unwrap();
        Process::connect(config, &self.context(limit)).await
    }

    pub(crate) async fn connect(&self, more: Value) -> Arc<dyn Backend> {
        self.try_connect(self.config(more), LIMIT).await.unwrap()
    }

    /// How many jobs really started under this key.
    pub(crate) fn starts(&self, key: &JobKey) -> usize {
        let log = std::fs::read_to_string(self.folder().join("starts.log")).unwrap_or_default();
        log.lines().filter(|line| *line == key.as_str()).count()
    }
}
