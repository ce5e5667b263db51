//! A cache of recently polled tasks, by the bodies of their rows: an equal body is an equal task, and
//! parsing its JSON costs more than finding its row. It must not decide the current state of a row: the
//! caller has read its body.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::tasks::task::{Task, TaskId};

/// Maximum number of cached tasks; then the cache is cleared.
const MOST: usize = 1024;

/// Maximum length of a cached body.
const LONGEST: usize = 4 << 10;

/// The cache.
#[derive(Default)]
pub(super) struct TaskCache {
    lately: Mutex<HashMap<TaskId, Arc<CachedTask>>>,
}

struct CachedTask {
    body: Box<[u8]>,
    task: Task,
}

impl TaskCache {
    /// Returns the cached task if its body is equal; its version may be older.
    pub(super) fn known(&self, id: &TaskId, body: &[u8]) -> Option<Task> {
        let known = self.lately.lock().get(id).cloned()?;
        (*known.body == *body).then(|| known.task.clone())
    }

    /// Caches a task with its body.
    pub(super) fn keep(&self, task: &Task, body: &[u8]) {
        if body.len() > LONGEST {
            return;
        }
        let known = Arc::new(CachedTask { body: body.into(), task: task.clone() });
        let mut lately = self.lately.lock();
        if lately.len() >= MOST {
            lately.clear();
        }
        lately.insert(task.id.clone(), known);
    }
}
