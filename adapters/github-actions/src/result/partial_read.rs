//! [`PartialReader`]: reads the parts of a run's end within one deadline. A part that cannot be read is
//! omitted and named, so that a missing log keeps no task open. It must not know what a part is.

use std::future::Future;
use std::time::Duration;

use taskbridge_sdk::{Error, ErrorKind, Result, one_line};
use tokio::time::{Instant, timeout_at};

/// Maximum number of parts that are named.
const MAX_REASONS: usize = 10;

pub(crate) struct PartialReader {
    deadline: Instant,
    /// Why each part could not be read. Each text begins with the name of the part.
    unread_reasons: Vec<String>,
    /// True if a retry may help for a part.
    is_retryable: bool,
}

impl PartialReader {
    /// Creates a reader with a deadline for all parts together.
    pub(crate) fn with_timeout(timeout: Duration) -> Self {
        Self { deadline: Instant::now() + timeout, unread_reasons: Vec::new(), is_retryable: false }
    }

    /// Reads one part, or returns its default if it cannot be read.
    ///
    /// # Errors
    /// `Limited`, because then nothing else can be read either.
    pub(crate) async fn read_part<T: Default>(
        &mut self,
        label: &str,
        future: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let timeout_error = |_| Err(Error::unavailable(format!("{label}: timed out")));
        let error = match timeout_at(self.deadline, future).await.unwrap_or_else(timeout_error) {
            Ok(part) => return Ok(part),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Limited { .. } => return Err(error),
            ErrorKind::Denied | ErrorKind::Rejected => {}
            _ => self.is_retryable = true,
        }
        let reason = one_line(&error.to_string());
        if self.unread_reasons.len() < MAX_REASONS && !self.unread_reasons.contains(&reason) {
            self.unread_reasons.push(reason);
        }
        Ok(T::default())
    }

    /// Returns why the first part could not be read, if a retry may help for any part.
    pub(crate) fn retryable_reason(&self) -> Option<&str> {
        self.unread_reasons.first().filter(|_| self.is_retryable).map(String::as_str)
    }

    /// Returns why parts could not be read, without duplicates and at most `MAX_REASONS`.
    pub(crate) fn unread_reasons(&self) -> &[String] {
        &self.unread_reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unread_part_is_named_once() {
        let mut reader = PartialReader::with_timeout(Duration::from_secs(5));
        assert_eq!(reader.read_part("a", async { Ok(7) }).await.unwrap(), 7);
        for _ in 0..2 {
            let denied = async { Err::<u8, _>(Error::denied("b: not this token's to see")) };
            assert_eq!(reader.read_part("b", denied).await.unwrap(), 0);
        }
        assert_eq!(reader.retryable_reason(), None, "it stays denied");
        reader.read_part("c", std::future::pending::<Result<()>>()).await.unwrap();
        reader.read_part("d", std::future::pending::<Result<()>>()).await.unwrap();
        let reasons = ["b: not this token's to see", "c: timed out", "d: timed out"];
        assert_eq!(reader.unread_reasons(), reasons);
        assert_eq!(reader.retryable_reason(), Some(reasons[0]));
        let limited = async { Err::<(), _>(Error::limited(None, "wait")) };
        let mut reader = PartialReader::with_timeout(Duration::from_secs(5));
        assert!(reader.read_part("e", limited).await.is_err());
    }
}
