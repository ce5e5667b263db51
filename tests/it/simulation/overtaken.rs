//! What a look saw at its moment must not undo what a later look of another process saw, however long it was on its way
//! into the store. Found by seed 113517: a question that an older look did not know of was withdrawn for good.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use taskbridge::clock::Clock;
use taskbridge::store::sqlite::{Mode as StoreMode, SqliteStore};
use taskbridge::tasks::service::{Call, WhenFull};
use taskbridge::tasks::store::TaskStore;
use taskbridge::tasks::task::{Origin, Outcome, Owner, Spec, Task, TaskId, TaskState};
use taskbridge_sdk::Answer;
use taskbridge_sdk::sim::{Mode, SimEngine};
use tokio::sync::Semaphore;

use super::clocks::WorldClock;
use super::leases::Leases;
use super::misdeeds::{FirstWatchers, Sabotage};
use super::node::{LEASE, Node, Parts};
use super::points::Points;
use super::rng::Rng;
use super::store::{CONNECTIONS, PointedStore};
use super::weather::Weather;
use super::world::terms;

/// When the job asks.
const ASKS_AFTER: Duration = Duration::from_secs(60);

/// Two machines over one file, and an engine.
struct Place {
    dir: tempfile::TempDir,
    clock: Arc<dyn Clock>,
    engine: SimEngine,
}

impl Place {
    fn store(&self) -> SqliteStore {
        let file = self.dir.path().join("tasks.db");
        SqliteStore::open(&file, Arc::clone(&self.clock), StoreMode::Inline).expect("the file can be opened")
    }

    async fn start(&self, name: &str, weather: &Arc<Weather>) -> Node {
        let points = Points::new(Arc::new(Rng::new(1)));
        let leases: Arc<Leases> = Arc::default();
        let store = PointedStore {
            inner: self.store(),
            points: Arc::clone(&points),
            clock: Arc::clone(&self.clock),
            leases: Arc::clone(&leases),
            weather: Arc::clone(weather),
            sabotage: Sabotage::new(None, name.to_owned(), FirstWatchers::default()),
            connections: Semaphore::new(CONNECTIONS),
        };
        let parts = Parts {
            name: name.to_owned(),
            store: Arc::new(store),
            backend: self.engine.backend(),
            clock: Arc::clone(&self.clock),
            world: Arc::clone(&self.clock),
            leases,
            entropy: Arc::new(Rng::new(2)),
            points,
            bug: None,
        };
        Node::start(parts).await.expect("the store is there")
    }

    async fn row(&self, id: &TaskId) -> Task {
        self.store().get(id, None).await.expect("the file can be read").expect("it is there")
    }
}

/// A job that tells its progress, and asks in the middle.
fn call() -> Call {
    let delay_ms = 2 * ASKS_AFTER.as_secs() * 1_000;
    let arguments = json!({"delay_ms": delay_ms, "steps": 40, "question": {"message": "go on?"}});
    Call {
        owner: Owner::new("ana"),
        origin: Origin::default(),
        tool: "work".to_owned(),
        backend: "sim".to_owned(),
        spec: Spec { target: json!({}), arguments, sealed: None },
        references: Vec::new(),
        terms: terms(),
        slots: Vec::new(),
        when_full: WhenFull::Queue,
        most_kept: None,
        confirm: None,
        once: None,
        plain: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_is_written_late_withdraws_no_question() {
    let place = Place {
        dir: tempfile::tempdir().expect("there is a temporary folder"),
        clock: Arc::new(WorldClock::new()),
        engine: SimEngine::new(Mode::Keyed),
    };
    let (cut_off, fine) = (Arc::new(Weather::default()), Arc::new(Weather::default()));
    let first = place.start("first", &cut_off).await;
    let called = first.service.call(call()).await.expect("the store is there");
    let id = called.into_task().id;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // It goes on looking, sees progress, and cannot write that; its lease of the group runs out.
    cut_off.refuse_writes();
    let second = place.start("second", &fine).await;
    tokio::time::sleep(ASKS_AFTER + LEASE).await;
    assert_eq!(place.row(&id).await.state, TaskState::InputRequired, "the second watches the group");
    cut_off.clear();
    tokio::time::sleep(2 * LEASE).await;
    let task = place.row(&id).await;
    assert_eq!(task.state, TaskState::InputRequired, "{task:?}");
    let asked = task.open_questions().next().expect("it asks").key.clone();
    let yes = Answer::Accept(serde_json::Map::new());
    second.service.answer(&task.owner, &id, &asked, yes).await.expect("the question is open");
    tokio::time::sleep(ASKS_AFTER + 2 * LEASE).await;
    assert_eq!(place.row(&id).await.outcome(), Some(Outcome::Succeeded));
    drop(first);
}
