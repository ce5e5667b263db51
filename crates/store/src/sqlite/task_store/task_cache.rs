//! A cache of recently polled tasks, by the bodies of their rows: an equal body is an equal task, and
//! parsing its JSON costs more than finding its row. It must not decide the current state of a row: the
//! caller has read its body.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use taskbridge_core::tasks::task::{Task, TaskId};

/// Maximum number of cached tasks; then the cache is cleared.
const MAX_TASKS: usize = 1024;

/// Maximum length of a cached body.
const MAX_BODY_BYTES: usize = 4 << 10;

/// The cache.
#[derive(Default)]
pub(in crate::sqlite) struct TaskCache {
    tasks: Mutex<HashMap<TaskId, Arc<CachedTask>>>,
}

struct CachedTask {
    body: Box<[u8]>,
    task: Task,
}

impl TaskCache {
    /// Returns the cached task if its body is equal; its version may be older.
    pub(super) fn get(&self, id: &TaskId, body: &[u8]) -> Option<Task> {
        let cached = self.tasks.lock().get(id).cloned()?;
        (*cached.body == *body).then(|| cached.task.clone())
    }

    /// Caches a task with its body.
    pub(super) fn insert(&self, task: &Task, body: &[u8]) {
        if body.len() > MAX_BODY_BYTES {
            return;
        }
        let cached = Arc::new(CachedTask { body: body.into(), task: task.clone() });
        let mut tasks = self.tasks.lock();
        if tasks.len() >= MAX_TASKS {
            tasks.clear();
        }
        tasks.insert(task.id.clone(), cached);
    }
}
