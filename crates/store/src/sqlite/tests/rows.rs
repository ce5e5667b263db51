//! Any task reads back as it was written.

use std::time::Duration;

use futures_util::FutureExt;
use proptest::option::of;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{
    Answer, Artifact, Ask, Content, GroupKey, JobHandle, OnBehalfOf, Output, Progress, Question, Timestamp,
};

use super::super::Mode;
use super::bench;
use crate::suite::Bench;
use taskbridge_core::tasks::task::{
    CancelRequest, EngineOutage, Job, Origin, Outcome, Owner, QuestionSource, QuestionStatus, RecoverySearch,
    Spec, Task, TaskId, TaskQuestion, TaskState, Undelivered,
};

/// Text that is difficult for databases: quotes, line ends, zero bytes, every script.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,8}", "\\PC{0,12}", Just("'; DROP TABLE tasks; --\0\r\n\"".to_owned())]
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (0..Timestamp::MAX.as_millis()).prop_map(Timestamp::from_millis)
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![any::<u32>().prop_map(f64::from), prop::num::f64::NORMAL | prop::num::f64::ZERO]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        number().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A value for an optional field, where JSON's null means absent.
fn some_value() -> impl Strategy<Value = Value> {
    value().prop_filter("null is none", |value| !value.is_null())
}

fn job() -> impl Strategy<Value = Job> {
    let spec =
        || {
            let unresolved = prop::collection::btree_map(text(), text().prop_map(TaskId::from_wire), 0..3);
            (value(), value(), of(text()), unresolved).prop_map(|(target, arguments, sealed, unresolved)| {
                Spec { target, arguments, sealed, unresolved }
            })
        };
    let recovery_search =
        (timestamp(), any::<u32>()).prop_map(|(since, times)| RecoverySearch { since, times });
    prop_oneof![
        (spec(), any::<bool>(), any::<u32>(), timestamp()).prop_map(
            |(spec, queued, attempts, not_before)| { Job::Pending { spec, queued, attempts, not_before } }
        ),
        (spec(), any::<u32>(), of(recovery_search), timestamp()).prop_map(
            |(spec, attempts, recovery_search, not_before)| {
                Job::Starting { spec, attempts, sought: recovery_search, first_attempt_at: None, not_before }
            }
        ),
        (text(), text(), timestamp()).prop_map(|(handle, group, started_at)| Job::Open {
            handle: JobHandle::new(handle),
            group: GroupKey::new(group),
            started_at
        }),
        of(text()).prop_map(|handle| Job::Closed { handle: handle.map(JobHandle::new) }),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        value().prop_map(Ask::Form),
        text().prop_map(Ask::Url),
        value().prop_map(|value| Ask::Sampling(Map::from_iter([("messages".to_owned(), value)]))),
        Just(Ask::Roots),
    ]
}

fn task_question() -> impl Strategy<Value = TaskQuestion> {
    let status = prop_oneof![
        Just(QuestionStatus::Open),
        Just(QuestionStatus::Visiting),
        Just(QuestionStatus::Closed),
        (value(), any::<u32>(), timestamp()).prop_map(|(answer_value, attempts, not_before)| {
            let answer = Answer::Accept(Map::from_iter([("said".to_owned(), answer_value)]));
            QuestionStatus::Answered { answer, attempts, not_before }
        }),
    ];
    (text(), ask(), timestamp(), status, some_value()).prop_map(|(message, ask, at, status, kept)| {
        TaskQuestion {
            answered_by: None,
            answered_as: None,
            settled_at: None,
            not_allowed: false,
            key: "q1".to_owned(),
            question: Question { id: message.clone(), message, ask },
            asker: QuestionSource::Job,
            at,
            status,
            front_end: Map::from_iter([("delivery".to_owned(), kept)]),
        }
    })
}

fn output() -> impl Strategy<Value = Output> {
    (text(), of(some_value()), of(any::<u64>()), any::<u64>()).prop_map(
        |(text, structured, size, files_bytes)| Output {
            content: vec![Content::text(text.clone())],
            structured,
            artifacts: vec![Artifact { name: text, mime_type: None, size }],
            raw: vec![0],
            files_bytes,
        },
    )
}

/// Tasks with arbitrary values in every part that can vary.
fn tasks(plain: Task) -> impl Strategy<Value = Task> {
    let words = (text(), text(), text(), of(text()), of(some_value()));
    let facts = (of(timestamp()), of(timestamp()), of((number(), of(number()))), of(number()), any::<bool>());
    let parts = (
        job(),
        prop::collection::vec(task_question(), 0..3),
        of((timestamp(), text())),
        of((timestamp(), text())),
    );
    let slots = prop::collection::vec(text(), 0..3);
    (words, facts, parts, slots).prop_map(move |(words, facts, parts, slots)| {
        let (owner, tool, backend, session, progress_token) = words;
        let (ended_at, due_at, progress, furthest, taken) = facts;
        let (job, questions, trouble, undelivered) = parts;
        let on_behalf_of = session.clone().map(OnBehalfOf::named);
        Task {
            owner: Owner::new(owner),
            tool,
            backend,
            message: session.clone(),
            origin: Origin {
                on_behalf_of: on_behalf_of.clone(),
                channel: session,
                front_end: progress_token
                    .map(|token| ("progress_token".to_owned(), token))
                    .into_iter()
                    .collect(),
                ..Origin::default()
            },
            slots,
            refused_when_full: false,
            ended_at,
            state: ended_at.map_or(TaskState::Working, |_| TaskState::Ended(Outcome::Broken)),
            progress: progress.map(|(done, total)| Progress { done, total }),
            furthest,
            job,
            cancel: due_at.map(|at| CancelRequest {
                unsupported: false,
                at,
                taken,
                attempts: 3,
                not_before: at,
                on_behalf_of: on_behalf_of.clone(),
            }),
            questions,
            trouble: trouble.map(|(since, reason)| EngineOutage { since, reason }),
            undelivered: undelivered.map(|(waiting_until, digest)| Undelivered { digest, waiting_until }),
            due_at,
            ..plain.clone()
        }
    })
}

/// Returns the result immediately: inline mode never waits.
fn run_inline<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("an inline store does its work at once")
}

fn check(bench: &Bench, before: Task, after: &Task, output: &Output) -> Result<(), TestCaseError> {
    let added = run_inline(bench.add(before.clone()));
    let read = run_inline(bench.read(&added.id));
    prop_assert_eq!(read, Some(Task { version: 1, ..before }));
    let after = Task { id: added.id.clone(), owner: added.owner, version: 1, ..after.clone() };
    run_inline(bench.end_with(&after, output));
    let read = run_inline(bench.read(&added.id));
    prop_assert_eq!(read, Some(Task { version: 2, ..after }));
    let kept = run_inline(bench.store.output(&added.id)).expect("the output can be read");
    prop_assert_eq!(kept.as_ref(), Some(output));
    Ok(())
}

/// Any task is read back as it was inserted and as it was updated.
#[test]
fn task_round_trips_through_store() {
    let bench = bench(Mode::Inline);
    let any_task = || tasks(bench.task());
    proptest!(|(before in any_task(), after in any_task(), output in output())| {
        let (mut before, mut after) = (Task { id: bench.task().id, ..before }, after);
        // Every case uses queues of its own.
        for slot in before.slots.iter_mut().chain(&mut after.slots) {
            slot.push_str(before.id.as_str());
        }
        check(&bench, before, &after, &output)?;
    });
}

/// Durations with nanoseconds, the largest duration and JSON ids are read back unchanged.
#[test]
fn extreme_values_round_trip_through_store() {
    let bench = bench(Mode::Inline);
    let mut task = bench.task();
    task.terms.ttl = Duration::from_nanos(1_000_000_001);
    task.terms.keep_result = Duration::MAX;
    task.origin.front_end.insert("progress_token".to_owned(), json!(7));
    let added = run_inline(bench.add(task.clone()));
    assert_eq!(run_inline(bench.read(&added.id)), Some(Task { version: 1, ..task }));
}
