//! Tasks that were polled lately, by the bodies of their rows: the same body is the same task, and to read its JSON again
//! costs more than to find its row. It must not decide what a row is now: whoever asks has read its body.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::tasks::task::{Task, TaskId};

/// How many are kept before all are forgotten.
const MOST: usize = 1024;

/// Longer bodies are not kept.
const LONGEST: usize = 4 << 10;

/// What was polled lately.
#[derive(Default)]
pub(super) struct Polled {
    lately: Mutex<HashMap<TaskId, Arc<Known>>>,
}

struct Known {
    body: Box<[u8]>,
    task: Task,
}

impl Polled {
    /// The task that is this body, but for its version, if it was this body when it was last polled.
    pub(super) fn known(&self, id: &TaskId, body: &[u8]) -> Option<Task> {
        let known = self.lately.lock().get(id).cloned()?;
        (*known.body == *body).then(|| known.task.clone())
    }

    /// Keeps a task that is this body.
    pub(super) fn keep(&self, task: &Task, body: &[u8]) {
        if body.len() > LONGEST {
            return;
        }
        let known = Arc::new(Known { body: body.into(), task: task.clone() });
        let mut lately = self.lately.lock();
        if lately.len() >= MOST {
            lately.clear();
        }
        lately.insert(task.id.clone(), known);
    }
}
