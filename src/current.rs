//! [`Current`]: a shared value that can be replaced while it is in use. It must not know its content, and
//! does not notify about changes.

use std::sync::Arc;

use parking_lot::RwLock;

/// A replaceable value. Readers keep the version that they have until they drop it.
#[derive(Debug)]
pub struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    /// Creates it with its first value.
    pub fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    /// Returns the current value. Costs two reference counter updates. Call it once where several reads must
    /// agree.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    /// Replaces the value.
    pub fn replace(&self, value: T) {
        let previous = std::mem::replace(&mut *self.0.write(), Arc::new(value));
        // Drops the previous value outside the lock.
        drop(previous);
    }
}
