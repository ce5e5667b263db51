//! [`PartialReader`]: reads the parts of a run's end within one deadline. A part that cannot be read is
//! omitted and named, so that a missing log keeps no task open. It must not know what a part is.

use std::future::Future;
use std::time::Duration;

use taskbridge_sdk::{Error, ErrorKind, Result, one_line};
use tokio::time::{Instant, timeout_at};

/// How long after its end was first seen a run is polled again for parts that could not be read.
pub(crate) const RETRY_FOR: Duration = Duration::from_secs(40);

/// Maximum number of parts that are named.
const MOST_NAMED: usize = 10;

pub(crate) struct PartialReader {
    deadline: Instant,
    /// Why each part could not be read. Each text begins with the name of the part.
    unread: Vec<String>,
    /// True if a retry may help for a part.
    may_come: bool,
}

impl PartialReader {
    /// Creates a reader with a deadline for all parts together.
    pub(crate) fn within(time: Duration) -> Self {
        Self { deadline: Instant::now() + time, unread: Vec::new(), may_come: false }
    }

    /// Reads one part, or returns its default if it cannot be read.
    ///
    /// # Errors
    /// `Limited`, because then nothing else can be read either.
    pub(crate) async fn part<T: Default>(
        &mut self,
        what: &str,
        read: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let late = |_| Err(Error::unavailable(format!("{what}: no answer in time")));
        let error = match timeout_at(self.deadline, read).await.unwrap_or_else(late) {
            Ok(part) => return Ok(part),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Limited { .. } => return Err(error),
            ErrorKind::Denied | ErrorKind::Rejected => {}
            _ => self.may_come = true,
        }
        let why = one_line(&error.to_string());
        if self.unread.len() < MOST_NAMED && !self.unread.contains(&why) {
            self.unread.push(why);
        }
        Ok(T::default())
    }

    /// Returns why the first part could not be read, if a retry may help for any part.
    pub(crate) fn retryable_reason(&self) -> Option<&str> {
        self.unread.first().filter(|_| self.may_come).map(String::as_str)
    }

    /// Returns why parts could not be read, without duplicates and at most `MOST_NAMED`.
    pub(crate) fn unread(&self) -> &[String] {
        &self.unread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unread_part_is_named_once() {
        let mut gathering = PartialReader::within(Duration::from_secs(5));
        assert_eq!(gathering.part("a", async { Ok(7) }).await.unwrap(), 7);
        for _ in 0..2 {
            let denied = async { Err::<u8, _>(Error::denied("b: not this token's to see")) };
            assert_eq!(gathering.part("b", denied).await.unwrap(), 0);
        }
        assert_eq!(gathering.retryable_reason(), None, "it stays denied");
        gathering.part("c", std::future::pending::<Result<()>>()).await.unwrap();
        gathering.part("d", std::future::pending::<Result<()>>()).await.unwrap();
        let unread = ["b: not this token's to see", "c: no answer in time", "d: no answer in time"];
        assert_eq!(gathering.unread(), unread);
        assert_eq!(gathering.retryable_reason(), Some(unread[0]));
        let limited = async { Err::<(), _>(Error::limited(None, "wait")) };
        let mut gathering = PartialReader::within(Duration::from_secs(5));
        assert!(gathering.part("e", limited).await.is_err());
    }
}
