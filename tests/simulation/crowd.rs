//! More calls than any limit of the core: a full queue of new calls and thousands of due rows, all for a
//! hung engine. It must not use an engine that recognizes a repeated start, because a duplicate start would
//! not be seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::json;
use taskbridge::tasks::machine::Cancel;
use taskbridge::tasks::service::Call;
use taskbridge::tasks::task::{Outcome, Owner};
use taskbridge_sdk::sim::{Mode, SimEngine};
use taskbridge_sdk::{
    Backend, Error, GroupKey, JobHandle, JobSpec, Observation, Result, Started, Subject, Wakeups,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::engines::{CALM, ROUGH};
use super::node::{LEASE, TICK, Way};
use super::place::{Place, call_with};
use super::store_faults::StoreFaults;

/// Number of calls to the hung engine: more than the rows that a claim ever scans.
const CROWD: usize = 5_000;
/// Time limit of a call to another engine: shorter than the timeout of a hung call.
const SOON: Duration = Duration::from_secs(3);
/// How long the engine hangs.
const HANGS: Duration = Duration::from_secs(60);

/// An engine that answers nothing while it hangs, and that receives nothing sent in that time.
struct Hanging {
    engine: SimEngine,
    backend: Arc<dyn Backend>,
    hangs: watch::Sender<bool>,
    /// Starts that were sent while it hung.
    lost: AtomicUsize,
}

impl Hanging {
    fn new() -> Arc<Self> {
        let engine = SimEngine::new(Mode::Unkeyed);
        let (backend, hangs) = (engine.backend(), watch::Sender::new(true));
        Arc::new(Self { engine, backend, hangs, lost: AtomicUsize::new(0) })
    }

    fn hangs(&self) -> bool {
        *self.hangs.borrow()
    }

    async fn answer(&self) {
        if self.hangs() {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Backend for Hanging {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        if self.hangs() {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        self.answer().await;
        self.backend.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.answer().await;
        self.backend.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.answer().await;
        self.backend.observe(handle).await
    }

    async fn cancel(&self, _handle: &JobHandle) -> Result<()> {
        Err(Error::unavailable("nothing is cancelled here"))
    }

    fn wakeups(&self) -> Option<&dyn Wakeups> {
        self.backend.wakeups()
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.answer().await;
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
    let (place, rough, calm) = (Place::new(), Hanging::new(), SimEngine::new(Mode::Unkeyed));
    let ways = vec![Way::to(ROUGH, rough.clone()), Way::to(CALM, calm.backend())];
    let node = place.start_reaching("one", &Arc::<StoreFaults>::default(), ways).await;
    // All at once: the queue of new calls is full, and most rows are left to the claims.
    let calls = join_all((0..CROWD).map(|_| node.service.call(call_to(ROUGH, "ana")))).await;
    let ids: Vec<_> =
        calls.into_iter().map(|made| made.expect("the store is there").into_task().id).collect();

    let hung = Instant::now();
    while hung.elapsed() < HANGS {
        for owner in ["ana", "bea"] {
            let made = node.service.call(call_to(CALM, owner)).await;
            let id = made.expect("the store is there").into_task().id;
            tokio::time::sleep(SOON).await;
            let task = place.row(&id).await;
            assert_eq!(task.outcome(), Some(Outcome::Succeeded), "{owner} waits for {ROUGH}: {task:?}");
        }
        // A start is passed on directly; a cancel has to be claimed.
        let endless = Call { backend: CALM.to_owned(), ..call_with(json!({"delay_ms": 86_400_000u64})) };
        let id = node.service.call(endless).await.expect("the store is there").into_task().id;
        tokio::time::sleep(SOON).await;
        node.service.cancel(&Owner::new("ana"), &id, Cancel::Settle).await.expect("it runs");
        tokio::time::sleep(SOON).await;
        assert_eq!(calm.running().len(), 0, "a cancel waits for {ROUGH}");
    }
    rough.hangs.send_replace(false);
    let lost = rough.lost.load(Ordering::SeqCst);
    assert!(lost > 0, "the engine was asked while it hung");

    let (began, mut uncertain) = (Instant::now(), 0);
    for id in &ids {
        let outcome = loop {
            if let Some(outcome) = place.row(id).await.outcome() {
                break outcome;
            }
            assert!(began.elapsed() < 100 * LEASE, "{:?} has not ended", place.row(id).await);
            tokio::time::sleep(TICK).await;
        };
        uncertain += usize::from(outcome != Outcome::Succeeded);
    }
    assert!(
        uncertain <= lost,
        "{uncertain} tasks are uncertain, and {lost} starts were sent while the engine hung"
    );
    assert_eq!(rough.engine.total_starts(), (CROWD - uncertain) as u64, "one job for each of the others");
}
