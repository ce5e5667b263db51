//! The store's time, told without asking the store each time. Whatever a row says of moments, one process writes and
//! another compares, and so does the store: all of them must go by one clock, and machines' own clocks differ. It must
//! not read the machine's clock.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::store::{Result, Time};
use crate::clock::Clock;

/// An answer that took longer says too little about when it was given.
const TOO_LATE: Duration = Duration::from_secs(1);

/// A clock that shows what the store's clock shows: what that said when it was last asked, and what has passed since
/// by a clock that nobody can set.
pub struct StoreTime {
    store: Arc<dyn Time>,
    known: Mutex<Known>,
}

/// The store's time at one moment.
#[derive(Clone, Copy)]
struct Known {
    at: Instant,
    time: Timestamp,
}

impl StoreTime {
    /// The time of this store.
    ///
    /// # Errors
    /// If the store cannot be used: without its time, nothing can be written that others understand.
    pub async fn of(store: Arc<dyn Time>) -> Result<Arc<Self>> {
        let (known, _) = ask(&*store).await?;
        Ok(Arc::new(Self { store, known: Mutex::new(known) }))
    }

    /// Asks again every `tick` until `stop`. While the store is away, time goes on as it was known.
    pub(super) async fn follow(&self, tick: Duration, stop: &CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(tick) => {}
            }
            match ask(&*self.store).await {
                Ok((known, took)) if took <= TOO_LATE => *self.known.lock() = known,
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "the store's time cannot be read"),
            }
        }
    }
}

impl Clock for StoreTime {
    fn now(&self) -> Timestamp {
        let Known { at, time } = *self.known.lock();
        time + at.elapsed()
    }
}

/// The store's time in the middle between the question and the answer, and how far these lie apart.
async fn ask(store: &dyn Time) -> Result<(Known, Duration)> {
    let asked = Instant::now();
    let time = store.now().await?;
    let took = asked.elapsed();
    Ok((Known { at: asked + took / 2, time }, took))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::tasks::store::StoreError;

    const SECOND: Duration = Duration::from_secs(1);

    /// What a store answers when it is asked for the time, and how long that takes.
    struct Answers(Mutex<(Option<Timestamp>, Duration)>);

    #[async_trait]
    impl Time for Answers {
        async fn now(&self) -> Result<Timestamp> {
            let (answer, takes) = *self.0.lock();
            tokio::time::sleep(takes).await;
            answer.ok_or_else(|| StoreError::Unavailable("away".to_owned()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_by_itself_and_follows_the_store() {
        let began = Timestamp::from_millis(1_764_072_600_000);
        let store = Arc::new(Answers(Mutex::new((Some(began), Duration::ZERO))));
        let time = StoreTime::of(store.clone()).await.unwrap();
        let stop = CancellationToken::new();
        let look = async {
            tokio::time::sleep(3 * SECOND).await;
            assert_eq!(time.now(), began + 3 * SECOND, "nobody asked meanwhile");
            *store.0.lock() = (Some(began + 100 * SECOND), SECOND / 2);
            tokio::time::sleep(4 * SECOND).await;
            assert_eq!(
                time.now(),
                began + 101 * SECOND + SECOND * 3 / 4,
                "the answer was of a moment in between"
            );
            *store.0.lock() = (Some(began), 2 * SECOND);
            tokio::time::sleep(10 * SECOND).await;
            assert_eq!(time.now(), began + 111 * SECOND + SECOND * 3 / 4, "an answer that came late");
            *store.0.lock() = (None, Duration::ZERO);
            tokio::time::sleep(10 * SECOND).await;
            assert_eq!(time.now(), began + 121 * SECOND + SECOND * 3 / 4, "the store is away");
            stop.cancel();
        };
        tokio::join!(time.follow(5 * SECOND, &stop), look);
    }
}
