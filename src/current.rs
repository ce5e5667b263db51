//! [`Current`]: what is in force now and can be replaced while it is in use. It must not know what it holds, and tells
//! nobody of a change.

use std::sync::Arc;

use parking_lot::RwLock;

/// A value that can be replaced. Whoever took the one before keeps it for as long as it needs it.
#[derive(Debug)]
pub struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    /// This value is in force first.
    pub fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    /// The value in force. Costs two counters; take it once where two looks must agree.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    /// Puts another value in force.
    pub fn replace(&self, value: T) {
        let before = std::mem::replace(&mut *self.0.write(), Arc::new(value));
        // What it was is dropped outside of the lock.
        drop(before);
    }
}
