//! Tests of reading, listing, writing and deleting rows.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use taskbridge_sdk::{
    Answer, Ask, JobHandle, JobState, Level, MAX_VALUE_DEPTH, Note, Observation, OnBehalfOf, Output,
    Question, Timestamp,
};

use super::Bench;
use super::bench::{closed, idempotency_key, limits, new_task, outcome_name, starting, with_slots};
use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::store::{
    AccessScope, BoundedOutput, Change, DeletedRow, MAX_DECISION_AGE, NewTask, Position, UpdateResult,
};
use taskbridge_core::tasks::task::{
    Job, Origin, Owner, QuestionSource, QuestionStatus, Spec, StoredNote, Task, TaskId, TaskQuestion,
};

pub async fn a_row_is_found_by_those_who_see_its_tool_too(bench: &Bench) {
    let task = bench.add(bench.closed_task()).await;
    let bob = Owner::new("bob");
    let get = async |id: &TaskId, tools: &[&str]| {
        let tools: Vec<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
        let scope = AccessScope { owner: &bob, tools: &tools };
        bench.store.get(id, Some(scope)).await.expect("the store can be read")
    };
    let tool = task.tool.as_str();
    assert_eq!(get(&task.id, &[tool]).await, Some(task.clone()));
    assert_eq!(get(&task.id, &["x", tool, "' OR 1 = 1 --"]).await, Some(task.clone()));
    for others in [&[][..], &["x"], &["' OR 1 = 1 --"], &[""]] {
        assert_eq!(get(&task.id, others).await, None, "{others:?}");
    }
    assert_eq!(get(&bench.task().id, &[tool]).await, None);
}

pub async fn a_row_is_found_by_its_owner_only_and_until_it_expires(bench: &Bench) {
    let task = bench.add(bench.closed_task()).await;
    let (alice, bob) = (Owner::new("alice"), Owner::new("bob"));
    let get = async |id: &TaskId, owner: Option<&Owner>| {
        bench.store.get(id, owner.map(AccessScope::from)).await.expect("the store can be read")
    };
    assert_eq!(get(&task.id, Some(&alice)).await, Some(task.clone()));
    assert_eq!(get(&task.id, Some(&bob)).await, None);
    assert_eq!(get(&bench.task().id, Some(&alice)).await, None);
    assert_eq!(get(&TaskId::from_wire("' OR 1 = 1 --"), Some(&alice)).await, None);
    bench.clock.advance(task.kept_until().since(bench.clock.now()) - Duration::from_millis(1));
    assert_eq!(get(&task.id, Some(&alice)).await, Some(task.clone()));
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(get(&task.id, Some(&alice)).await, None);
    assert_eq!(get(&task.id, None).await, Some(task), "the reconciler finds it still");
}

pub async fn a_list_has_an_owners_rows_newest_first(bench: &Bench) {
    let owner = Owner::new("alice");
    let list = async |limit| bench.store.list(&owner, None, limit).await.expect("the rows are listed");
    let expires = bench.add(bench.closed_task()).await;
    bench.clock.advance(Duration::from_secs(1));
    let older = bench.add(bench.task()).await;
    bench.add(Task { owner: Owner::new("bob"), ..bench.task() }).await;
    bench.clock.advance(Duration::from_secs(1));
    let newer = bench.add(bench.task()).await;
    assert_eq!(list(10).await, [newer.clone(), older.clone(), expires.clone()]);
    assert_eq!(list(2).await, [newer.clone(), older.clone()]);
    bench.clock.advance(expires.kept_until().since(bench.clock.now()));
    assert_eq!(list(10).await, [newer, older], "an expired row is not listed");
}

pub async fn a_list_goes_on_after_a_position(bench: &Bench) {
    let mut made = Vec::new();
    for n in 0..7 {
        made.push(bench.add(bench.task()).await);
        // Some rows have the same creation time.
        bench.clock.advance(Duration::from_millis(n % 2));
    }
    made.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let owner = &made[0].owner;
    let mut seen: Vec<Task> = Vec::new();
    loop {
        let after = seen.last().map(|last| Position { created_at: last.created_at, id: last.id.clone() });
        let page = bench.store.list(owner, after.as_ref(), 3).await.expect("the rows are listed");
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 3);
        seen.extend(page);
        // A row that is added in the meantime is newer than every position, and changes no page.
        bench.clock.advance(Duration::from_millis(1));
        bench.add(bench.task()).await;
    }
    assert_eq!(seen, made);
}

pub async fn a_session_has_its_unended_rows_oldest_first(bench: &Bench) {
    let of = |session: &str, task: Task| Task {
        origin: Origin {
            channel: Some(session.to_owned()),
            on_behalf_of: Some(OnBehalfOf::named(session)),
            ..Origin::default()
        },
        ..task
    };
    let rows = async |session| bench.store.of_channel(session).await.expect("the rows are listed");
    let older = bench.add(of("s", bench.task())).await;
    bench.add(of("t", bench.task())).await;
    bench.add(bench.task()).await;
    bench.add(of("s", bench.closed_task())).await;
    bench.clock.advance(Duration::from_millis(1));
    let newer = bench.add(Task { owner: Owner::new("bob"), ..of("s", bench.task()) }).await;
    assert_eq!(rows("s").await, [older.clone(), newer.clone()]);
    bench.update(&closed(older, bench.clock.now())).await;
    assert_eq!(rows("s").await, [newer]);
    assert_eq!(rows("u").await, []);
}

pub async fn an_update_needs_the_version_that_is_there(bench: &Bench) {
    let read = bench.add(bench.task()).await;
    let message = |text: &str, row: &Task| Task { message: Some(text.to_owned()), ..row.clone() };
    let updated = bench.update(&message("first", &read)).await;
    assert!(matches!(updated, UpdateResult::Written(2)), "{updated:?}");
    let updated = bench.update(&message("second", &read)).await;
    assert!(matches!(updated, UpdateResult::Conflict), "{updated:?}");
    let now = bench.read(&read.id).await.expect("the row is there");
    assert_eq!(now, Task { version: 2, ..message("first", &read) });
    let nobody = Task { version: 1, ..bench.task() };
    assert!(matches!(bench.update(&nobody).await, UpdateResult::Conflict), "a row that is gone");

    let writes = (0..10).map(|n| message(&n.to_string(), &now)).collect::<Vec<_>>();
    let written = join_all(writes.iter().map(|row| bench.update(row))).await;
    assert_eq!(written.iter().filter(|updated| matches!(updated, UpdateResult::Written(3))).count(), 1);
}

pub async fn stale_decision_is_not_written(bench: &Bench) {
    let row = bench.add(bench.task()).await;
    let now = bench.clock.now();
    let update = async |decided_at| {
        bench.store.update(Change::new(&row, decided_at)).await.expect("the store can be written")
    };
    for other in [now - MAX_DECISION_AGE * 2, now + MAX_DECISION_AGE * 2] {
        let updated = update(other).await;
        assert!(matches!(updated, UpdateResult::Stale), "{updated:?}");
    }
    let updated = update(now - MAX_DECISION_AGE).await;
    assert!(matches!(updated, UpdateResult::Written(2)), "{updated:?}");
}

pub async fn an_output_is_written_once(bench: &Bench) {
    let task = bench.add(bench.task()).await;
    let output = async || bench.store.output(&task.id).await.expect("the store can be read");
    assert_eq!(output().await, None);
    assert_eq!(bench.store.output_within(&task.id, 9).await.expect("it can be read"), BoundedOutput::Missing);
    let ended = closed(task.clone(), bench.clock.now());
    bench.end_with(&ended, &Output::text("lost")).await;
    assert_eq!(output().await, Some(Output::text("lost")));
    let read_within = async |max_bytes| {
        bench.store.output_within(&task.id, max_bytes).await.expect("the store can be read")
    };
    let BoundedOutput::TooLarge(bytes) = read_within(1).await else { panic!("it is longer than a byte") };
    assert_eq!(read_within(bytes - 1).await, BoundedOutput::TooLarge(bytes));
    assert_eq!(read_within(bytes).await, BoundedOutput::Complete(Output::text("lost")));
    bench.end_with(&ended, &Output::text("conflict")).await;
    bench.end_with(&Task { version: 2, ..ended }, &Output::text("second")).await;
    assert_eq!(output().await, Some(Output::text("lost")), "the first one stays");
}

pub async fn an_update_takes_slots_only_where_places_are_left(bench: &Bench) {
    let take_slot = async |task: &Task| {
        let limits = limits(&["s"], 1);
        let change = Change { limits: &limits, ..Change::new(task, bench.clock.now()) };
        bench.store.update(change).await.expect("the store can be written")
    };
    let first = bench.add(with_slots(bench.task(), &["s"])).await;
    let second = bench.add(with_slots(bench.task(), &["s"])).await;
    let taken = Task { version: 2, ..starting(first.clone()) };
    assert!(matches!(take_slot(&starting(first.clone())).await, UpdateResult::Written(2)));
    assert!(matches!(take_slot(&starting(second.clone())).await, UpdateResult::NoSlot(_)));
    assert!(matches!(
        take_slot(&Task { version: 9, ..starting(second.clone()) }).await,
        UpdateResult::Conflict
    ));
    assert_eq!(bench.read(&second.id).await, Some(second.clone()), "nothing was written");
    assert!(matches!(take_slot(&taken).await, UpdateResult::Written(3)), "it has its place already");
    bench.update(&closed(Task { version: 3, ..taken }, bench.clock.now())).await;
    // Queued rows do not keep the head of their own queue from a free slot.
    let behind =
        Task { job: super::bench::pending(true, bench.clock.now()), ..with_slots(bench.task(), &["s"]) };
    bench.add(behind).await;
    assert!(matches!(take_slot(&starting(second)).await, UpdateResult::Written(2)));
}

pub async fn slots_are_free_when_the_job_is_closed(bench: &Bench) {
    let insert = async || {
        let task = with_slots(starting(bench.task()), &["s"]);
        let id = task.id.clone();
        let request = NewTask { limits: limits(&["s"], 1), ..new_task(task) };
        (outcome_name(&bench.store.insert(request).await), id)
    };
    let (outcome, id) = insert().await;
    assert_eq!(outcome, "created");
    assert_eq!(insert().await.0, "no slot");
    let held = bench.read(&id).await.expect("the row is there");
    bench.update(&closed(held, bench.clock.now())).await;
    assert_eq!(insert().await.0, "created");
}

pub async fn a_purge_deletes_what_has_expired_and_is_closed(bench: &Bench) {
    let purge = async |limit| {
        bench.store.purge(bench.clock.now(), limit).await.expect("the store can be written").len()
    };
    let ended = [bench.add(bench.closed_task()).await, bench.add(bench.closed_task()).await];
    let open = bench.add(bench.open_task("g")).await;
    assert_eq!(purge(10).await, 0, "nothing has expired");
    bench.clock.advance(Duration::from_secs(7 * 86_400));
    let young = bench.add(bench.closed_task()).await;
    assert_eq!(purge(1).await, 1);
    assert_eq!(purge(10).await, 1);
    assert_eq!(purge(10).await, 0);
    for gone in ended {
        assert_eq!(bench.read(&gone.id).await, None);
    }
    assert!(bench.read(&open.id).await.is_some(), "its job may still run");
    assert!(bench.read(&young.id).await.is_some());
}

pub async fn purge_goes_by_the_earlier_clock(bench: &Bench) {
    let ended = bench.add(bench.closed_task()).await;
    let (now, later) = (bench.clock.now(), bench.clock.now() + Duration::from_secs(7 * 86_400));
    let purge =
        async |by: Timestamp| bench.store.purge(by, 10).await.expect("the store can be written").len();
    assert_eq!(purge(later).await, 0, "the store's clock was set back");
    bench.clock.advance(Duration::from_secs(7 * 86_400));
    assert_eq!(purge(now).await, 0, "the store's clock was set ahead");
    assert_eq!(purge(later).await, 1);
    assert_eq!(bench.read(&ended.id).await, None);
}

pub async fn purge_returns_jobs(bench: &Bench) {
    let handle = JobHandle::new("run-1");
    let ended = Task { job: Job::Closed { handle: Some(handle.clone()) }, ..bench.closed_task() };
    let identity = Some("forge lab".to_owned());
    let made = bench.store.insert(NewTask { identity: identity.clone(), ..new_task(ended) }).await;
    assert_eq!(outcome_name(&made), "created");
    bench.clock.advance(Duration::from_secs(7 * 86_400));
    let purged = bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written");
    assert_eq!(purged, [DeletedRow { backend: "forge".to_owned(), identity, handle: Some(handle) }]);
}

pub async fn a_purge_leaves_nothing_of_a_row(bench: &Bench) {
    let keyed = async |task: Task| {
        let request = NewTask {
            limits: limits(&["s"], 1),
            idempotency_key: idempotency_key("alice", "k", "d"),
            ..new_task(task)
        };
        outcome_name(&bench.store.insert(request).await)
    };
    let task = with_slots(starting(bench.task()), &["s"]);
    assert_eq!(keyed(task.clone()).await, "created");
    bench.end_with(&closed(Task { version: 1, ..task.clone() }, bench.clock.now()), &Output::text("x")).await;
    bench.clock.advance(Duration::from_secs(7 * 86_400));
    assert_eq!(bench.store.purge(bench.clock.now(), 10).await.expect("the store can be written").len(), 1);
    assert_eq!(bench.store.output(&task.id).await.expect("the store can be read"), None);
    assert!(bench.next_due().await.is_none());
    // The id, key and slot can be used again.
    assert_eq!(keyed(task).await, "created");
}

/// Returns a value with this nesting depth.
fn nested(levels: usize) -> Value {
    (0..levels)
        .fold(json!("]}"), |value, level| if level % 2 == 0 { json!([value]) } else { json!({ "a": value }) })
}

/// Returns a task as an older version wrote it, with notes, a question and a call nested up to the maximum
/// depth.
fn deep_task(bench: &Bench, value: &Value) -> Task {
    let now = bench.clock.now();
    let object = json!({ "x": value }).as_object().cloned().expect("it is an object");
    let note = Note { n: 1, level: Level::Info, data: value.clone(), at: None };
    let ask = Ask::Sampling(object.clone());
    let question = Question { id: "q".to_owned(), message: "?".to_owned(), ask };
    let status = QuestionStatus::Answered { answer: Answer::Accept(object), attempts: 0, not_before: now };
    let task_question =
        TaskQuestion { status, ..TaskQuestion::new("q1".to_owned(), question, QuestionSource::Job, now) };
    let spec = Spec {
        target: value.clone(),
        arguments: json!({ "x": value }),
        sealed: None,
        unresolved: Default::default(),
    };
    let job = Job::Starting { spec, attempts: 1, sought: None, first_attempt_at: None, not_before: now };
    Task {
        notes: vec![StoredNote { note, seen_at: now }],
        questions: vec![task_question],
        job,
        ..bench.task()
    }
}

/// Rows are readable at any nesting depth, and nothing is lost: deeper parts are kept as text.
pub async fn deep_json_stays_readable(bench: &Bench) {
    for levels in (0..90).step_by(30).chain(90..135).chain([200]) {
        let value = nested(levels);
        let task = bench.add(deep_task(bench, &value)).await;
        let read = bench.read(&task.id).await.expect("the row is there");
        // A part that is kept as text is quoted once more.
        let plain = |value: &Value| value.to_string().replace(['"', '\\'], "");
        let same = |found: &Value| plain(found) == plain(&value);
        assert!(same(&read.notes[0].note.data), "{levels}");
        let Job::Starting { spec, .. } = &read.job else { panic!("it is starting") };
        assert!(same(&spec.arguments["x"]) && same(&spec.target), "{levels}");
        if levels <= MAX_VALUE_DEPTH {
            assert_eq!(read, task, "{levels}");
        }
        let output = Output { structured: Some(value.clone()), ..Output::default() };
        assert!(matches!(
            bench.end_with(&closed(read, bench.clock.now()), &output).await,
            UpdateResult::Written(_)
        ));
        let kept = bench.store.output(&task.id).await.expect("the result can be read").expect("there is one");
        assert!(same(&kept.structured.expect("it is kept")), "{levels}");
    }
    // New data of jobs is bounded before it is stored.
    let seen =
        Observation::new(JobState::Succeeded(Output { structured: Some(nested(127)), ..Output::default() }));
    let JobState::Succeeded(bounded) = seen.sanitized().state else { panic!("it succeeded") };
    let task = bench.add(bench.task()).await;
    bench.end_with(&closed(task.clone(), bench.clock.now()), &bounded).await;
    let kept = bench.store.output(&task.id).await.expect("the result can be read");
    assert_eq!(kept, Some(bounded), "an older version reads it, too");
}
