//! A replica that cannot reach an engine leaves the engine's jobs to another replica that can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use taskbridge::tasks::task::Outcome;
use taskbridge_sdk::{
    Backend, Error, GroupKey, JobHandle, JobSpec, Observation, Result, Started, Subject, Wakeups,
};

use super::node::LEASE;
use super::place::{Place, call_with};
use super::store_faults::StoreFaults;

/// Duration of the jobs of these tests.
const JOB: Duration = Duration::from_secs(10);

/// A connection to the engine that can be cut.
struct Way {
    engine: Arc<dyn Backend>,
    is_cut: AtomicBool,
}

impl Way {
    fn to(place: &Place) -> Arc<Self> {
        Arc::new(Self { engine: place.engine.backend(), is_cut: AtomicBool::new(false) })
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    fn open(&self) -> Result<&dyn Backend> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => Err(Error::unavailable("connection refused")),
            false => Ok(&*self.engine),
        }
    }
}

#[async_trait]
impl Backend for Way {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.open()?.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.open()?.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.open()?.observe(handle).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.open()?.cancel(handle).await
    }

    fn wakeups(&self) -> Option<&dyn Wakeups> {
        self.engine.wakeups()
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        match self.open() {
            Ok(engine) => engine.observe_all(group, jobs).await,
            Err(_) => jobs.iter().map(|_| Err(Error::unavailable("connection refused"))).collect(),
        }
    }
}

/// The replica that started the job owns its group and loses its connection to the engine. Another replica
/// sees the job end.
#[tokio::test(start_paused = true)]
async fn unreachable_engine_releases_groups() {
    let (place, store_faults) = (Place::new(), Arc::new(StoreFaults::default()));
    let way = Way::to(&place);
    let first = place.start_over("first", &store_faults, way.clone()).await;
    let called = first.service.call(call_with(json!({"delay_ms": JOB.as_millis() as u64}))).await;
    let id = called.expect("the store is there").into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    way.cut(true);
    let _second = place.start_over("second", &store_faults, place.engine.backend()).await;
    tokio::time::sleep(6 * LEASE).await;
    assert_eq!(place.row(&id).await.outcome(), Some(Outcome::Succeeded));
}

/// A replica that is alone acquires its groups again.
#[tokio::test(start_paused = true)]
async fn lone_replica_takes_groups_again() {
    let (place, store_faults) = (Place::new(), Arc::new(StoreFaults::default()));
    let way = Way::to(&place);
    let first = place.start_over("first", &store_faults, way.clone()).await;
    let called = first.service.call(call_with(json!({"delay_ms": JOB.as_millis() as u64}))).await;
    let id = called.expect("the store is there").into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    way.cut(true);
    tokio::time::sleep(20 * LEASE).await;
    assert_eq!(place.row(&id).await.outcome(), None);
    way.cut(false);
    // At most the backoff of failed polls and one release.
    tokio::time::sleep(8 * LEASE).await;
    assert_eq!(place.row(&id).await.outcome(), Some(Outcome::Succeeded));
}
