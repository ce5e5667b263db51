//! Hints of the program that a job has changed: notifications, and those that came with an answer. It must not
//! poll.

use taskbridge_sdk::{JobHandle, Wakeups, async_trait};

use crate::core::Core;

#[async_trait]
impl Wakeups for Core {
    async fn next(&self) -> JobHandle {
        match self.hints.lock().await.recv().await {
            Some(handle) => handle,
            // The program is stopped, so no hint can come any more.
            None => std::future::pending().await,
        }
    }
}
