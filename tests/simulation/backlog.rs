//! More calls than any limit of the core: a full queue of new calls and thousands of due rows, all for a
//! hung engine. It must not use an engine that recognizes a repeated start, because a duplicate start would
//! not be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::json;
use taskbridge_core::tasks::machine::CancelMode;
use taskbridge_core::tasks::service::Call;
use taskbridge_core::tasks::task::{Outcome, Owner};
use taskbridge_sdk::sim::{Mode, SimEngine};
use taskbridge_sdk::{
    Abilities, Backend, Error, GroupKey, JobHandle, JobSpec, Observation, Result, Started, Subject,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::engines::{CALM, ROUGH};
use super::fixture::{Fixture, call_with};
use super::node::{EngineLink, LEASE, TICK};
use super::store_faults::StoreFaults;

/// Number of calls to the hung engine: more than the rows that a claim ever scans.
const CALL_COUNT: usize = 5_000;
/// Time limit of a call to another engine: shorter than the timeout of a hung call.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the engine hangs.
const HANG_DURATION: Duration = Duration::from_secs(60);

/// An engine that answers nothing while it hangs, and that receives nothing sent in that time.
struct HangingEngine {
    engine: SimEngine,
    backend: Arc<dyn Backend>,
    is_hanging: watch::Sender<bool>,
    /// Starts that were sent while it hung.
    lost_starts: AtomicUsize,
}

impl HangingEngine {
    fn new() -> Arc<Self> {
        let engine = SimEngine::new(Mode::Unkeyed);
        let (backend, is_hanging) = (engine.backend(), watch::Sender::new(true));
        Arc::new(Self { engine, backend, is_hanging, lost_starts: AtomicUsize::new(0) })
    }

    fn is_hanging(&self) -> bool {
        *self.is_hanging.borrow()
    }

    async fn wait_while_hanging(&self) {
        if self.is_hanging() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Backend for HangingEngine {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        if self.is_hanging() {
            self.lost_starts.fetch_add(1, Ordering::SeqCst);
        }
        self.wait_while_hanging().await;
        self.backend.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.wait_while_hanging().await;
        self.backend.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.wait_while_hanging().await;
        self.backend.observe(handle).await
    }

    async fn cancel(&self, _handle: &JobHandle) -> Result<()> {
        Err(Error::unavailable("nothing is cancelled here"))
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { wakeups: self.backend.abilities().wakeups, ..Abilities::default() }
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.wait_while_hanging().await;
        self.backend.observe_all(group, jobs).await
    }
}

fn call_to(backend: &str, owner: &str) -> Call {
    let call = call_with(json!({"delay_ms": 100, "text": "done"}));
    Call { backend: backend.to_owned(), owner: Owner::new(owner), ..call }
}

/// Jobs of another engine start without delay, also those of the same owner. Nothing starts twice, and only
/// starts that were sent to the engine while it hung may be uncertain.
#[tokio::test(start_paused = true)]
async fn hung_engine_backlog_delays_no_other() {
    let (fixture, rough, calm) = (Fixture::new(), HangingEngine::new(), SimEngine::new(Mode::Unkeyed));
    let links = vec![EngineLink::to(ROUGH, rough.clone()), EngineLink::to(CALM, calm.backend())];
    let node = fixture.start_with_links("one", &Arc::<StoreFaults>::default(), links).await;
    // All at once: the queue of new calls is full, and most rows are left to the claims.
    let calls = join_all((0..CALL_COUNT).map(|_| node.service.call(call_to(ROUGH, "ana")))).await;
    let ids: Vec<_> = calls
        .into_iter()
        .map(|call_result| call_result.expect("the store is there").into_task().id)
        .collect();

    let hung_since = Instant::now();
    while hung_since.elapsed() < HANG_DURATION {
        for owner in ["ana", "bea"] {
            let call_result = node.service.call(call_to(CALM, owner)).await;
            let id = call_result.expect("the store is there").into_task().id;
            tokio::time::sleep(CALL_TIMEOUT).await;
            let task = fixture.row(&id).await;
            assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{owner} waits for {ROUGH}: {task:?}");
        }
        // A start is passed on directly; a cancel has to be claimed.
        let endless = Call { backend: CALM.to_owned(), ..call_with(json!({"delay_ms": 86_400_000u64})) };
        let id = node.service.call(endless).await.expect("the store is there").into_task().id;
        tokio::time::sleep(CALL_TIMEOUT).await;
        node.service.cancel(&Owner::new("ana"), &id, CancelMode::Immediate).await.expect("it runs");
        tokio::time::sleep(CALL_TIMEOUT).await;
        assert_eq!(calm.running().len(), 0, "a cancel waits for {ROUGH}");
    }
    rough.is_hanging.send_replace(false);
    let lost_starts = rough.lost_starts.load(Ordering::SeqCst);
    assert!(lost_starts > 0, "the engine was asked while it hung");

    let (started_at, mut uncertain) = (Instant::now(), 0);
    for id in &ids {
        let outcome = loop {
            if let Some(outcome) = fixture.row(id).await.outcome() {
                break outcome;
            }
            assert!(started_at.elapsed() < 100 * LEASE, "{:?} has not ended", fixture.row(id).await);
            tokio::time::sleep(TICK).await;
        };
        uncertain += usize::from(outcome != Outcome::Succeeded);
    }
    assert!(
        uncertain <= lost_starts,
        "{uncertain} tasks are uncertain, and {lost_starts} starts were sent while the engine hung"
    );
    assert_eq!(
        rough.engine.total_starts(),
        (CALL_COUNT - uncertain) as u64,
        "one job for each of the others"
    );
}
