//! A differential test: both stores execute the same random history, and all answers and the final contents
//! must be equal. `$TASKBRIDGE_HISTORIES` sets the number of histories, `$TASKBRIDGE_HISTORY_SEED` the first
//! seed. A failing history is reported with its seed.

mod values;

use std::sync::Arc;
use std::time::Duration;

use taskbridge::clock::Clock as _;
use taskbridge::sessions::deliveries::newest;
use taskbridge::sessions::{DeliveredQuestion, Delivery, DeliveryChange, ServerStore, SessionChange};
use taskbridge::store::sqlite::{Mode, SqliteStore};
use taskbridge::store::suite::{Bench, ManualClock};
use taskbridge::tasks::store::{
    AccessScope, AttachRequest, Change, ClaimRequest, Group, IdempotencyKey, InsertResult, Lease, NewTask,
    ReceiverFilter, ServedBackend, StoreError, UpdateResult,
};
use taskbridge::tasks::task::{Owner, Task};
use taskbridge_sdk::{GroupKey, Level, Output, Timestamp};

use super::{clock, open_store};
use crate::support::{Random, knob, postgres};

/// Number of steps in one history.
const LENGTH: usize = 150;

/// Names that are hard for a database, and a plain one.
const NAMES: [&str; 4] = ["a", "b\0", "b\\0", "'; DROP TABLE tasks; --"];

/// The receivers of notices.
const RECEIVERS: [&str; 2] = ["r", "s"];

const LEASE: Duration = Duration::from_secs(30);

struct World {
    random: Random,
    clock: Arc<ManualClock>,
    stores: [Arc<dyn ServerStore>; 2],
    /// Creates rows; both stores get the same ones.
    bench: Bench,
    /// All rows ever created, as last read.
    rows: Vec<Task>,
    /// Keeps due times distinct, so that both stores order them alike.
    due: u64,
}

/// Returns the result of an insert in a form that can be compared.
fn insert_outcome(inserted: InsertResult) -> (&'static str, Option<Task>) {
    match inserted {
        InsertResult::Created(task) => ("created", Some(task)),
        InsertResult::Existing { task, same: true } => ("existing", Some(task)),
        InsertResult::Existing { task, same: false } => ("other", Some(task)),
        InsertResult::Abandoned(task) => ("abandoned", Some(task)),
        InsertResult::NoSlot { .. } => ("no slot", None),
        InsertResult::TooMany => ("too many", None),
        InsertResult::TooLarge { .. } => ("too large", None),
    }
}

fn update_outcome(updated: &UpdateResult) -> (&'static str, u64) {
    match updated {
        UpdateResult::Written(version) => ("written", *version),
        UpdateResult::Conflict => ("conflict", 0),
        UpdateResult::NoSlot(_) => ("no slot", 0),
        UpdateResult::Stale => ("stale", 0),
    }
}

fn ok<T>(result: Result<T, StoreError>) -> T {
    result.expect("both stores can be used")
}

impl World {
    /// Claims a question of one row, renews or ends the claim.
    async fn deliver(&mut self) {
        let [a, b] = self.stores.clone();
        let task = &self.rows[self.random.below(self.rows.len() as u64) as usize];
        let (task, channel) = (task.id.clone(), task.origin.channel.clone());
        for _ in 0..4 {
            // What an older version wrote into the row may be newer than the table, or older.
            let n = 1 + self.random.below(4) as u32;
            let recorded = Delivery { n, until: self.clock.now(), over: self.chance(50), problem: None };
            let question = DeliveredQuestion {
                task: task.clone(),
                channel: channel.clone(),
                key: self.name(),
                recorded: self.chance(25).then_some(recorded),
            };
            let stored = ok(a.deliveries(&task).await).remove(&question.key);
            let seen = newest(question.recorded.clone(), stored);
            let n = seen.as_ref().map_or(1, |delivery| delivery.n);
            let change = match self.random.below(3) {
                // A quarter of the claims do not know the newest delivery.
                0 => DeliveryChange::Claim { seen: seen.filter(|_| self.chance(75)), lease: LEASE },
                1 => DeliveryChange::Renew { n, lease: LEASE },
                _ => DeliveryChange::End { n, handled: self.chance(50), problem: Some(self.name()) },
            };
            let one = ok(a.change_delivery(&question, change.clone()).await);
            assert_eq!(one, ok(b.change_delivery(&question, change).await));
        }
    }

    /// Takes notices of one receiver, and acknowledges some of them.
    async fn send(&mut self) {
        let [a, b] = self.stores.clone();
        let (receiver, holder) = (RECEIVERS[self.random.below(2) as usize], self.holder());
        let limit = 1 + self.random.below(4) as usize;
        let one = ok(a.take_notices(receiver, &holder, LEASE, limit).await);
        let mut other = ok(b.take_notices(receiver, &holder, LEASE, limit).await);
        other.sort_by(|x, y| x.notice.id.cmp(&y.notice.id));
        let mut sorted = one.clone();
        sorted.sort_by(|x, y| x.notice.id.cmp(&y.notice.id));
        assert_eq!(sorted, other);
        for due_notice in one {
            if self.chance(50) {
                ok(a.ack_notice(&due_notice.notice).await);
                ok(b.ack_notice(&due_notice.notice).await);
            } else {
                let (holder, pause) = (self.holder(), self.random.millis(100_000));
                ok(a.retry_notice_later(&due_notice.notice, &holder, pause).await);
                ok(b.retry_notice_later(&due_notice.notice, &holder, pause).await);
            }
        }
        if self.chance(10) {
            let before = self.clock.now() - self.random.millis(1_000_000);
            let receivers = [receiver.to_owned()];
            let which = if self.chance(50) {
                ReceiverFilter::Only(receiver)
            } else {
                ReceiverFilter::AllExcept(&receivers)
            };
            assert_eq!(ok(a.delete_notices(which, before).await), ok(b.delete_notices(which, before).await));
        }
    }

    /// Executes one random step in both stores. The answers must be equal.
    async fn step(&mut self) {
        let [a, b] = self.stores.clone();
        match self.random.below(100) {
            0..30 => {
                let task = self.new_task();
                let limits = self.limits(&task.slots);
                let idempotency_key = self.chance(40).then(|| IdempotencyKey {
                    scope: task.owner.as_str().to_owned(),
                    key: self.name(),
                    digest: self.name(),
                });
                let within = self.random.millis(200_000);
                let attach = self.chance(30).then(|| AttachRequest { digest: self.name(), within });
                let lease = self.chance(50).then(|| (self.holder(), LEASE));
                let (transition, notices) = (self.transition(40), self.notices_for(&task));
                let quota = None;
                let queue_behind = if self.chance(30) { task.slots.clone() } else { Vec::new() };
                let identity = self.chance(50).then(|| self.name());
                let new = NewTask {
                    task: task.clone(),
                    identity,
                    limits,
                    queue_behind,
                    quota,
                    idempotency_key,
                    attach,
                    lease,
                    transition,
                    notices,
                };
                let (one, other) = (ok(a.insert(new.clone()).await), ok(b.insert(new).await));
                let (one, other) = (insert_outcome(one), insert_outcome(other));
                assert_eq!(one, other);
                if one.0 == "created" {
                    self.rows.extend(one.1);
                }
            }
            30..60 if !self.rows.is_empty() => {
                let index = self.random.below(self.rows.len() as u64) as usize;
                let task = self.rows[index].clone();
                let task = self.mutate_task(task);
                let output = self.chance(30).then(|| Output::text(self.name()));
                let limits = self.limits(&task.slots);
                let holder = self.holder();
                let lease = match self.random.below(3) {
                    0 => Lease::Keep,
                    1 => Lease::Release(&holder),
                    _ => Lease::Acquire(&holder, LEASE),
                };
                let transition = self.transition(60);
                let notices = self.notices_for(&task);
                let now = self.clock.now();
                let change = || Change {
                    output: output.as_ref(),
                    limits: &limits,
                    lease,
                    transition: transition.as_ref(),
                    notices: &notices,
                    ..Change::new(&task, now)
                };
                let (one, other) = (ok(a.update(change()).await), ok(b.update(change()).await));
                assert_eq!(update_outcome(&one), update_outcome(&other));
                match one {
                    UpdateResult::Written(version) => self.rows[index] = Task { version, ..task },
                    // The known row is read again, so that the next change starts from the current version.
                    _ if self.chance(80) => self.refresh(index).await,
                    _ => {}
                }
            }
            60..67 => self.send().await,
            67..75 => {
                let (holder, limit) = (self.holder(), 1 + self.random.below(5) as usize);
                let cursor = self.chance(50).then(|| Owner::new(self.name()));
                let overdue = Duration::from_millis(self.random.below(3) * 500);
                let request = ClaimRequest { served: self.served(), limit, cursor, overdue };
                let one = ok(a.claim(&holder, LEASE, &request).await);
                assert_eq!(one, ok(b.claim(&holder, LEASE, &request).await));
            }
            75..82 => {
                let holder = self.holder();
                let served = [self.served(), self.served()];
                let served = if served[0].backend == served[1].backend { &served[..1] } else { &served };
                let (mut one, mut other) = (
                    ok(a.acquire_groups(&holder, LEASE, served).await),
                    ok(b.acquire_groups(&holder, LEASE, served).await),
                );
                one.sort();
                other.sort();
                assert_eq!(one, other);
            }
            82..84 => {
                let holder = self.holder();
                ok(a.release_all(&holder).await);
                ok(b.release_all(&holder).await);
            }
            84..88 => {
                let (tool, duration) = (self.name(), self.random.millis(1_000_000));
                ok(a.record_duration(&tool, duration).await);
                ok(b.record_duration(&tool, duration).await);
            }
            88..92 => {
                let (nonce, until) = (self.name(), self.next_due_time());
                if self.chance(20) {
                    ok(a.end(&nonce, until).await);
                    ok(b.end(&nonce, until).await);
                } else {
                    let setting = match self.random.below(3) {
                        0 => SessionChange::Level(Level::Warning),
                        1 => SessionChange::Subscribe(self.name(), 100),
                        _ => SessionChange::Unsubscribe(self.name()),
                    };
                    let one = ok(a.set(&nonce, setting.clone(), until).await);
                    assert_eq!(one, ok(b.set(&nonce, setting, until).await));
                }
            }
            92..94 => {
                let now = self.clock.now();
                // The order of rows that expire at the same time is undefined.
                let [mut one, mut other] = [ok(a.purge(now, 1_000).await), ok(b.purge(now, 1_000).await)];
                one.sort_by_key(|row| row.handle.clone());
                other.sort_by_key(|row| row.handle.clone());
                assert_eq!(one, other);
            }
            94 => {
                let (age, limit) = (self.random.millis(200_000), 1 + self.random.below(20) as usize);
                let before = self.clock.now() - age;
                assert_eq!(
                    ok(a.delete_entries(before, limit).await),
                    ok(b.delete_entries(before, limit).await)
                );
            }
            95 if !self.rows.is_empty() => self.deliver().await,
            _ => {
                let longest = if self.chance(5) { 8_000_000 } else { 60_000 };
                let by = self.random.millis(longest);
                self.clock.advance(by);
            }
        }
    }

    async fn refresh(&mut self, index: usize) {
        if let Some(row) = ok(self.stores[0].get(&self.rows[index].id, None).await) {
            self.rows[index] = row;
        }
    }

    /// Compares the answers of all read operations.
    async fn compare(&self) {
        let [a, b] = &self.stores;
        let served: Vec<_> = NAMES
            .iter()
            .zip(NAMES.iter().cycle().skip(1))
            .map(|(name, other)| ServedBackend {
                identity: Some((*other).to_owned()),
                ..ServedBackend::named(*name)
            })
            .chain(NAMES.iter().map(|name| ServedBackend::named(*name)))
            .collect();
        assert_eq!(ok(a.next_due(&served).await), ok(b.next_due(&served).await));
        for served in &served {
            assert_eq!(ok(a.list_due(served, None, 50).await), ok(b.list_due(served, None, 50).await));
            let served = std::slice::from_ref(served);
            assert_eq!(ok(a.queue_heads(served).await), ok(b.queue_heads(served).await));
        }
        for task in &self.rows {
            let id = &task.id;
            assert_eq!(ok(a.get(id, None).await), ok(b.get(id, None).await));
            let (owner_scope, tools) = (AccessScope::from(&task.owner), std::slice::from_ref(&task.tool));
            let other_owner = Owner::new("stranger");
            for scope in
                [owner_scope, AccessScope::from(&other_owner), AccessScope { owner: &other_owner, tools }]
            {
                assert_eq!(ok(a.get(id, Some(scope)).await), ok(b.get(id, Some(scope)).await));
            }
            assert_eq!(ok(a.output(id).await), ok(b.output(id).await));
            assert_eq!(ok(a.entries(id).await), ok(b.entries(id).await));
            assert_eq!(ok(a.deliveries(id).await), ok(b.deliveries(id).await));
            assert_eq!(ok(a.ahead(task).await), ok(b.ahead(task).await));
        }
        for name in NAMES {
            let owner = Owner::new(name);
            assert_eq!(ok(a.list(&owner, None, 50).await), ok(b.list(&owner, None, 50).await));
            assert_eq!(ok(a.of_channel(name).await), ok(b.of_channel(name).await));
            assert_eq!(ok(a.usual_duration(name).await), ok(b.usual_duration(name).await));
            assert_eq!(ok(a.settings(name).await), ok(b.settings(name).await));
            assert_eq!(ok(a.has_ended(name).await), ok(b.has_ended(name).await));
            for key in NAMES {
                let group = Group { backend: name.to_owned(), key: GroupKey::new(key) };
                let jobs = async |store: &Arc<dyn ServerStore>| {
                    let mut jobs = ok(store.open_jobs(&group, Some(name), Timestamp::from_millis(0)).await);
                    jobs.sort_by(|a, b| a.id.cmp(&b.id));
                    jobs
                };
                assert_eq!(jobs(a).await, jobs(b).await);
            }
        }
    }
}

#[tokio::test]
async fn both_stores_come_to_the_same() {
    let first: u64 = knob("TASKBRIDGE_HISTORY_SEED", 1);
    for seed in first..first + knob("TASKBRIDGE_HISTORIES", 3) {
        let clock = clock();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tasks.db");
        let sqlite: Arc<dyn ServerStore> =
            Arc::new(SqliteStore::open(&file, clock.clone(), Mode::Inline).unwrap());
        let postgres: Arc<dyn ServerStore> = open_store(&postgres::schema(), &clock).await;
        let bench = Bench::new(Arc::clone(&sqlite), clock.clone());
        let stores = [sqlite, postgres];
        let mut world = World { random: Random::new(seed), clock, stores, bench, rows: Vec::new(), due: 0 };
        let mut history = ReportOnPanic { seed, step: 0 };
        for step in 0..LENGTH {
            history.step = step;
            world.step().await;
            if step % 25 == 24 {
                world.compare().await;
            }
        }
        assert!(world.rows.len() > LENGTH / 10, "most of the history was refused");
    }
}

/// Prints the seed and the step when a comparison fails.
struct ReportOnPanic {
    seed: u64,
    step: usize,
}

impl Drop for ReportOnPanic {
    #[allow(clippy::print_stderr, reason = "a failing history is named, so that it can be played again")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("step {}: play it again with TASKBRIDGE_HISTORY_SEED={}", self.step, self.seed);
        }
    }
}
