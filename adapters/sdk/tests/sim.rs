//! Tests of the simulated engine: faults, modes, time, and memory. The behaviour suite tests what every
//! backend must do.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::sim::{Config, Fault, Mode, Operation, SimBackend, SimEngine};
use taskbridge_sdk::{
    Answer, AnswerOutcome, Backend as _, ErrorKind, GroupKey, JobHandle, JobKey, JobSpec, JobState, Output,
    Questions as _, Subject,
};
use tokio::time::{Instant, advance};

fn job(n: u8, target: Value) -> JobSpec {
    let key = JobKey::from_bytes([n; 16]);
    JobSpec { key, ..taskbridge_sdk::suite::job(target, json!({})) }
}

fn with_may_exist(job: &JobSpec) -> JobSpec {
    JobSpec { may_exist: true, ..job.clone() }
}

async fn next_hint(backend: &SimBackend) -> JobHandle {
    backend.abilities().wakeups.expect("an engine in this process gives hints").next().await
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The start returns the final state of a job that has no delay.
#[tokio::test(start_paused = true)]
async fn job_without_delay_ends_at_start() {
    let backend = SimEngine::new(Mode::Keyed).backend();
    let started = backend.start(&job(1, json!({"text": "hello"}))).await.unwrap();
    let first = started.first.expect("done");
    assert_eq!(first.state, JobState::Succeeded(Output::text("hello")));
    assert_eq!(backend.observe(&started.handle).await.unwrap(), first);
}

#[tokio::test(start_paused = true)]
async fn job_ends_after_its_delay() {
    let engine = SimEngine::new(Mode::Keyed);
    let backend = engine.backend();
    let handle = backend.start(&job(1, json!({"delay_ms": 100}))).await.unwrap().handle;
    advance(millis(99)).await;
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Running);
    assert_eq!(engine.running().len(), 1);
    advance(millis(1)).await;
    assert!(matches!(backend.observe(&handle).await.unwrap().state, JobState::Succeeded(_)));
    assert_eq!(engine.running().len(), 0);
}

/// A keyed engine returns the first job for a repeated start, and an unkeyed one starts another job.
#[tokio::test(start_paused = true)]
async fn repeated_start_is_keyed() {
    for (mode, jobs) in [(Mode::Keyed, 1), (Mode::Unkeyed, 2)] {
        let engine = SimEngine::new(mode);
        let (backend, spec) = (engine.backend(), job(1, json!({"delay_ms": 5})));
        let first = backend.start(&spec).await.unwrap();
        backend.start(&spec).await.unwrap();
        assert_eq!(engine.starts(&spec.key), jobs, "{mode:?}");
        assert_eq!(backend.start(&with_may_exist(&spec)).await.unwrap(), first, "{mode:?}");
        assert_eq!((engine.starts(&spec.key), engine.total_starts()), (jobs, jobs as u64), "{mode:?}");
    }
}

/// A job exists after a lost reply, and none after a lost request.
#[tokio::test(start_paused = true)]
async fn lost_reply_differs_from_lost_request() {
    for (fault, jobs) in [(Fault::LostReply, 1), (Fault::LostBefore, 0)] {
        let engine = SimEngine::new(Mode::Unkeyed);
        let (backend, spec) = (engine.backend(), job(1, json!({})));
        engine.inject(Operation::Start, fault);
        assert_eq!(backend.start(&spec).await.unwrap_err().kind(), ErrorKind::Uncertain);
        assert_eq!(engine.starts(&spec.key), jobs, "{fault:?}");
        let repeat = backend.start(&with_may_exist(&spec)).await;
        assert_eq!(repeat.is_ok(), jobs == 1, "{fault:?}: {repeat:?}");
        assert_eq!(engine.starts(&spec.key), jobs, "{fault:?}");
    }
}

/// A delayed request starts its job after a search has found none.
#[tokio::test(start_paused = true)]
async fn late_request_starts_after_search() {
    let engine = SimEngine::new(Mode::Unkeyed);
    let (backend, spec) = (engine.backend(), job(1, json!({"delay_ms": 10})));
    engine.inject(Operation::Start, Fault::Late(millis(50)));
    assert_eq!(backend.start(&spec).await.unwrap_err().kind(), ErrorKind::Uncertain);
    assert_eq!(backend.find(&spec).await.unwrap(), None);
    advance(millis(50)).await;
    let found = backend.find(&spec).await.unwrap().expect("it has arrived");
    assert_eq!(found.first, None);
    advance(millis(10)).await;
    assert!(backend.observe(&found.handle).await.unwrap().state.has_ended());
}

#[tokio::test(start_paused = true)]
async fn refusals_start_nothing() {
    let engine = SimEngine::new(Mode::Keyed);
    let (backend, spec) = (engine.backend(), job(1, json!({})));
    let after = Some(millis(700));
    let cases = [
        (Fault::Limited(millis(700)), ErrorKind::Limited { after }),
        (Fault::Outage, ErrorKind::Unavailable),
        (Fault::Denied, ErrorKind::Denied),
        (Fault::Rejected, ErrorKind::Rejected),
    ];
    for (fault, kind) in cases {
        engine.inject(Operation::Start, fault);
        assert_eq!(backend.start(&spec).await.unwrap_err().kind(), kind);
    }
    engine.set_outage(true);
    assert_eq!(backend.start(&spec).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(engine.total_starts(), 0);
    engine.set_outage(false);
    assert!(backend.start(&spec).await.is_ok());
}

/// The job exists before the slow reply arrives.
#[tokio::test(start_paused = true)]
async fn slow_reply_follows_started_job() {
    let engine = SimEngine::new(Mode::Keyed);
    let (backend, spec) = (engine.backend(), job(1, json!({})));
    engine.inject(Operation::Start, Fault::Slow(millis(300)));
    let started_at = Instant::now();
    let mut start = pin!(backend.start(&spec));
    poll_fn(|cx| {
        assert!(start.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    assert_eq!(engine.starts(&spec.key), 1);
    start.await.unwrap();
    assert_eq!(started_at.elapsed(), millis(300));
}

/// A keyed engine starts no second job for the key of a forgotten one.
#[tokio::test(start_paused = true)]
async fn forgotten_job_is_gone() {
    let engine = SimEngine::new(Mode::Keyed);
    let (backend, spec) = (engine.backend(), job(1, json!({"delay_ms": 50})));
    let handle = backend.start(&spec).await.unwrap().handle;
    engine.forget(&handle);
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Gone);
    assert_eq!(backend.find(&spec).await.unwrap(), None);
    assert_eq!(backend.start(&with_may_exist(&spec)).await.unwrap().handle, handle);
    assert_eq!((engine.starts(&spec.key), engine.jobs_of(&spec.key)), (1, vec![handle]));

    let spec = job(2, json!({"delay_ms": 50}));
    engine.inject(Operation::Start, Fault::Gone);
    let started = backend.start(&spec).await.unwrap();
    assert_eq!(started.first, None);
    assert_eq!(backend.observe(&started.handle).await.unwrap().state, JobState::Gone);

    let handle = backend.start(&job(3, json!({"delay_ms": 50}))).await.unwrap().handle;
    engine.inject(Operation::Observe, Fault::Gone);
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Gone);
}

/// A fault of one poll of several jobs is the result of each of them.
#[tokio::test(start_paused = true)]
async fn batch_poll_fault_affects_every_job() {
    let engine = SimEngine::new(Mode::Keyed);
    let backend = engine.backend();
    let handle = backend.start(&job(1, json!({}))).await.unwrap().handle;
    engine.inject(Operation::Observe, Fault::Limited(millis(5)));
    let handles = [handle.clone(), handle];
    for result in backend.observe_all(&GroupKey::new(""), &Subject::watched(&handles)).await {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Limited { after: Some(millis(5)) });
    }
    assert!(
        backend.observe_all(&GroupKey::new(""), &Subject::watched(&handles)).await.iter().all(Result::is_ok)
    );
}

/// The delay of a job does not pass while its question is open.
#[tokio::test(start_paused = true)]
async fn open_question_pauses_job() {
    let backend = SimEngine::new(Mode::Keyed).backend();
    let target = json!({"delay_ms": 100, "question": {"message": "Go on?"}});
    let handle = backend.start(&job(1, target)).await.unwrap().handle;
    assert!(backend.observe(&handle).await.unwrap().questions.is_empty());
    advance(millis(1000)).await;
    let observation = backend.observe(&handle).await.unwrap();
    assert_eq!((&observation.state, observation.questions.len()), (&JobState::Running, 1));
    let content = json!({"why": "so"}).as_object().cloned().unwrap();
    let outcome =
        backend.answer(&handle, &observation.questions[0].id, &Answer::Accept(content)).await.unwrap();
    assert_eq!(outcome, AnswerOutcome::Accepted);
    advance(millis(49)).await;
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Running);
    advance(millis(1)).await;
    let JobState::Succeeded(output) = backend.observe(&handle).await.unwrap().state else { panic!("over") };
    assert_eq!(output.structured, Some(json!({"answer": {"why": "so"}})));
}

#[tokio::test(start_paused = true)]
async fn a_declined_question_fails_its_job() {
    let backend = SimEngine::new(Mode::Keyed).backend();
    let target = json!({"question": {"message": "Go on?", "at_once": true}});
    let handle = backend.start(&job(1, target)).await.unwrap().handle;
    assert_eq!(backend.answer(&handle, "q1", &Answer::Decline).await.unwrap(), AnswerOutcome::Accepted);
    assert!(matches!(backend.observe(&handle).await.unwrap().state, JobState::Failed(_)));
}

/// A job that ignores a cancel runs to its end.
#[tokio::test(start_paused = true)]
async fn job_may_ignore_cancel() {
    let backend = SimEngine::new(Mode::Keyed).backend();
    let target = json!({"delay_ms": 100, "ignore_cancel": true});
    let handle = backend.start(&job(1, target)).await.unwrap().handle;
    backend.cancel(&handle).await.unwrap();
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Running);
    advance(millis(100)).await;
    assert!(matches!(backend.observe(&handle).await.unwrap().state, JobState::Succeeded(_)));
}

/// Every backend gets one hint per end, in order.
#[tokio::test(start_paused = true)]
async fn job_end_is_hinted_once() {
    let engine = SimEngine::new(Mode::Keyed);
    let (one, two) = (engine.backend(), engine.backend());
    let started_at = Instant::now();
    let later = one.start(&job(1, json!({"delay_ms": 80}))).await.unwrap().handle;
    let sooner = one.start(&job(2, json!({"delay_ms": 30}))).await.unwrap().handle;
    for backend in [&one, &two] {
        assert_eq!(next_hint(backend).await, sooner);
        assert_eq!(next_hint(backend).await, later);
    }
    assert_eq!(started_at.elapsed(), millis(80));
    assert!(tokio::time::timeout(millis(1000), next_hint(&one)).await.is_err(), "a hint too many");
}

/// A waiter is woken by a job that was started or finished while it waited.
#[tokio::test(start_paused = true)]
async fn hint_waiter_sees_earlier_deadline() {
    let engine = SimEngine::new(Mode::Keyed);
    let backend = engine.backend();
    let slow = backend.start(&job(1, json!({"delay_ms": 60_000}))).await.unwrap().handle;
    let quick = job(2, json!({"delay_ms": 20}));
    let started_at = Instant::now();
    let (hint, quick) =
        tokio::join!(next_hint(&backend), async { backend.start(&quick).await.unwrap().handle });
    assert_eq!((hint, started_at.elapsed()), (quick, millis(20)));
    let (hint, ()) = tokio::join!(next_hint(&backend), async { engine.finish(&slow, JobState::Gone) });
    assert_eq!((hint, started_at.elapsed()), (slow, millis(20)));
}

#[tokio::test(start_paused = true)]
async fn hints_are_lost_in_an_outage() {
    let engine = SimEngine::new(Mode::Keyed);
    let backend = engine.backend();
    backend.start(&job(1, json!({"delay_ms": 20}))).await.unwrap();
    engine.set_outage(true);
    advance(millis(30)).await;
    engine.set_outage(false);
    assert!(tokio::time::timeout(millis(1000), next_hint(&backend)).await.is_err());
}

/// A job that a test ends stays in that state.
#[tokio::test(start_paused = true)]
async fn finished_job_keeps_first_end() {
    let engine = SimEngine::new(Mode::Keyed);
    let backend = engine.backend();
    let handle = backend.start(&job(1, json!({"delay_ms": 60_000}))).await.unwrap().handle;
    let state = JobState::Failed(Output::text("by hand"));
    engine.finish(&handle, state.clone());
    engine.finish(&handle, JobState::Gone);
    assert_eq!(backend.observe(&handle).await.unwrap().state, state);
}

/// Only the last `remember` ended jobs are kept.
#[tokio::test(start_paused = true)]
async fn ended_jobs_are_forgotten_eventually() {
    let engine = SimEngine::from_config(&Config { remember: 10, ..Config::default() });
    let backend = engine.backend();
    let mut handles = Vec::new();
    for n in 0..200 {
        handles.push(backend.start(&job(n, json!({"delay_ms": n % 2}))).await.unwrap().handle);
    }
    advance(millis(1)).await;
    assert_eq!((engine.remembered(), engine.running().len(), engine.total_starts()), (10, 0, 200));
    let mut remembered = 0;
    for (n, handle) in (0..200).zip(&handles) {
        let is_gone = backend.observe(handle).await.unwrap().state == JobState::Gone;
        assert_eq!(engine.starts(&JobKey::from_bytes([n; 16])), usize::from(!is_gone));
        remembered += usize::from(!is_gone);
    }
    assert_eq!(remembered, 10);
}

#[tokio::test(start_paused = true)]
async fn a_journal_holds_every_accepted_start() {
    let file = std::env::temp_dir().join(format!("taskbridge-sim-journal-{}", std::process::id()));
    let engine = SimEngine::new(Mode::Unkeyed);
    engine.keep_journal(&file).unwrap();
    let (backend, spec) = (engine.backend(), job(1, json!({"text": "two\nlines"})));
    engine.inject(Operation::Start, Fault::LostReply);
    backend.start(&spec).await.unwrap_err();
    engine.inject(Operation::Start, Fault::LostBefore);
    backend.start(&spec).await.unwrap_err();
    let journal = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(journal, format!("{} {} \"two\\nlines\"\n", spec.key, engine.jobs_of(&spec.key)[0]));
}

/// Only the adapter panics: the engine has acted, and it serves the next request.
#[tokio::test(start_paused = true)]
async fn injected_panic_leaves_the_job_running() {
    let engine = SimEngine::new(Mode::Keyed);
    let (backend, spec) = (engine.backend(), job(1, json!({"delay_ms": 100})));
    engine.inject(Operation::Start, Fault::Panic);
    assert!(panics(backend.start(&spec)).await);
    assert_eq!(engine.starts(&spec.key), 1);
    let handle = backend.start(&with_may_exist(&spec)).await.unwrap().handle;
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Running);
}

/// The adapter also panics for jobs that are polled together with this one.
#[tokio::test(start_paused = true)]
async fn panic_on_poll_panics_every_time() {
    let engine = SimEngine::new(Mode::Keyed);
    let backend = engine.backend();
    let good = backend.start(&job(1, json!({"delay_ms": 100}))).await.unwrap().handle;
    let bad = backend.start(&job(2, json!({"delay_ms": 100, "panic_on_poll": true}))).await.unwrap().handle;
    let group = GroupKey::new("");
    for _ in 0..2 {
        let both = [good.clone(), bad.clone()];
        assert!(panics(backend.observe(&bad)).await);
        assert!(panics(backend.observe_all(&group, &Subject::watched(&both))).await);
        assert!(backend.observe(&good).await.is_ok());
        advance(millis(200)).await;
    }
}

/// Returns true if a call of the adapter panics.
async fn panics<T>(call: impl Future<Output = T>) -> bool {
    use futures_util::FutureExt as _;
    std::panic::AssertUnwindSafe(call).catch_unwind().await.is_err()
}
