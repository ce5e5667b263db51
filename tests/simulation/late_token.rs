//! An answer needs something that arrives separately, such as the token of a step. The replica that it
//! reaches sends the answer at once, although earlier attempts failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use taskbridge_core::tasks::task::{Outcome, Task};
use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, Backend, Error, GroupKey, JobHandle, JobSpec, Observation, Questions,
    Result, Started, Subject, Wakeups,
};
use tokio::sync::{Notify, mpsc};

use super::fixture::Fixture;
use super::store_faults::StoreFaults;

/// By this time, attempts are as rare as they get: every ten seconds.
const LONG_WAIT: Duration = Duration::from_secs(60);
/// A little more than the shortest poll interval, after which hints are applied to the rows of watched jobs,
/// and than the interval of leases for those of others. A replica that has just failed claims rows later than
/// the first, unless the hint ends its delay.
const SOON: [Duration; 2] = [Duration::from_millis(150), Duration::from_millis(5_150)];

/// A connection through which no answer can be sent until a token has arrived.
struct TokenBackend {
    engine: Arc<dyn Backend>,
    has_token: AtomicBool,
    hints: mpsc::UnboundedSender<JobHandle>,
    received_hints: tokio::sync::Mutex<mpsc::UnboundedReceiver<JobHandle>>,
    /// Notified when an answer could not be sent, through any of the connections.
    failed: Arc<Notify>,
    sent: Notify,
}

impl TokenBackend {
    fn to(fixture: &Fixture, failed: &Arc<Notify>) -> Arc<Self> {
        let (hints, received_hints) = mpsc::unbounded_channel();
        Arc::new(Self {
            engine: fixture.engine.backend(),
            has_token: AtomicBool::new(false),
            hints,
            received_hints: tokio::sync::Mutex::new(received_hints),
            failed: Arc::clone(failed),
            sent: Notify::new(),
        })
    }

    fn deliver_token(&self, task: &Task) {
        self.has_token.store(true, Ordering::SeqCst);
        self.hints.send(task.handle().expect("the job runs").clone()).expect("hints are received");
    }
}

#[async_trait]
impl Backend for TokenBackend {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.engine.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.engine.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.engine.observe(handle).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.engine.cancel(handle).await
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.engine.observe_all(group, jobs).await
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { wakeups: Some(self), questions: Some(self), ..Abilities::default() }
    }
}

#[async_trait]
impl Wakeups for TokenBackend {
    async fn next(&self) -> JobHandle {
        match self.received_hints.lock().await.recv().await {
            Some(handle) => handle,
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Questions for TokenBackend {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        if !self.has_token.load(Ordering::SeqCst) {
            self.failed.notify_waiters();
            return Err(Error::unavailable("this replica has no token of the step that asked"));
        }
        let questions = self.engine.abilities().questions.expect("the sim asks");
        let outcome = questions.answer(handle, question, answer).await;
        self.sent.notify_one();
        outcome
    }

    fn needs_token(&self) -> bool {
        true
    }
}

/// The token comes to the replica that watches the job, and to one that does not.
#[tokio::test(start_paused = true)]
async fn late_token_sends_answer_at_once() {
    for at in [0, 1] {
        let (fixture, store_faults) = (Fixture::new(), Arc::new(StoreFaults::default()));
        let failed = Arc::new(Notify::new());
        let backends = [(); 2].map(|()| TokenBackend::to(&fixture, &failed));
        let first = fixture.start_with_backend("first", &store_faults, backends[0].clone()).await;
        let task = fixture.answered_task(&first).await;
        let _second = fixture.start_with_backend("second", &store_faults, backends[1].clone()).await;
        tokio::time::sleep(LONG_WAIT).await;
        // The next attempt is about ten seconds away.
        failed.notified().await;
        let arrived = tokio::time::Instant::now();
        backends[at].deliver_token(&task);
        backends[at].sent.notified().await;
        assert!(arrived.elapsed() < SOON[at], "replica {at}: {:?}", arrived.elapsed());
        tokio::time::sleep(LONG_WAIT).await;
        let task = fixture.row(&task.id).await;
        assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{task:?}");
    }
}
