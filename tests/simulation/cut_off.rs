//! A replica that cannot reach an engine leaves the engine's jobs to another replica that can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use taskbridge_core::tasks::task::Outcome;
use taskbridge_sdk::{
    Abilities, Backend, Error, GroupKey, JobHandle, JobSpec, Observation, Result, Started, Subject,
};

use super::fixture::{Fixture, call_with};
use super::node::LEASE;
use super::store_faults::StoreFaults;

/// Duration of the jobs of these tests.
const JOB_DURATION: Duration = Duration::from_secs(10);

/// A connection to the engine that can be cut.
struct CuttableBackend {
    engine: Arc<dyn Backend>,
    is_cut: AtomicBool,
}

impl CuttableBackend {
    fn to(fixture: &Fixture) -> Arc<Self> {
        Arc::new(Self { engine: fixture.engine.backend(), is_cut: AtomicBool::new(false) })
    }

    fn set_cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    fn backend(&self) -> Result<&dyn Backend> {
        match self.is_cut.load(Ordering::SeqCst) {
            true => Err(Error::unavailable("connection refused")),
            false => Ok(&*self.engine),
        }
    }
}

#[async_trait]
impl Backend for CuttableBackend {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.backend()?.start(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.backend()?.find(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.backend()?.observe(handle).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.backend()?.cancel(handle).await
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities { wakeups: self.engine.abilities().wakeups, ..Abilities::default() }
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        match self.backend() {
            Ok(engine) => engine.observe_all(group, jobs).await,
            Err(_) => jobs.iter().map(|_| Err(Error::unavailable("connection refused"))).collect(),
        }
    }
}

/// The replica that started the job owns its group and loses its connection to the engine. Another replica
/// sees the job end.
#[tokio::test(start_paused = true)]
async fn unreachable_engine_releases_groups() {
    let (fixture, store_faults) = (Fixture::new(), Arc::new(StoreFaults::default()));
    let backend = CuttableBackend::to(&fixture);
    let first = fixture.start_with_backend("first", &store_faults, backend.clone()).await;
    let call_result =
        first.service.call(call_with(json!({"delay_ms": JOB_DURATION.as_millis() as u64}))).await;
    let id = call_result.expect("the store is there").into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    backend.set_cut(true);
    let _second = fixture.start_with_backend("second", &store_faults, fixture.engine.backend()).await;
    tokio::time::sleep(6 * LEASE).await;
    assert_eq!(fixture.row(&id).await.outcome(), Some(Outcome::Succeeded));
}

/// A replica that is alone acquires its groups again.
#[tokio::test(start_paused = true)]
async fn lone_replica_takes_groups_again() {
    let (fixture, store_faults) = (Fixture::new(), Arc::new(StoreFaults::default()));
    let backend = CuttableBackend::to(&fixture);
    let first = fixture.start_with_backend("first", &store_faults, backend.clone()).await;
    let call_result =
        first.service.call(call_with(json!({"delay_ms": JOB_DURATION.as_millis() as u64}))).await;
    let id = call_result.expect("the store is there").into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    backend.set_cut(true);
    tokio::time::sleep(20 * LEASE).await;
    assert_eq!(fixture.row(&id).await.outcome(), None);
    backend.set_cut(false);
    // At most the backoff of failed polls and one release.
    tokio::time::sleep(8 * LEASE).await;
    assert_eq!(fixture.row(&id).await.outcome(), Some(Outcome::Succeeded));
}
