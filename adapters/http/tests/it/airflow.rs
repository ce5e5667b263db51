//! How many requests many runs of Airflow take, with the preset, against recorded replies. The tests in
//! `tests/real` run against the real one.

use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::{Backend, JobHandle, JobState, Subject};

use crate::nasty::{Answer, Nasty};
use crate::world::{connect, fields};

const CONFIG: &str = r#"
preset = "airflow-3"
auth.exchange = { user = "bridge", password = "secret" }
"#;
const LIST: &str = "GET /api/v2/dags/~/dagRuns";
const QUESTIONS: &str = "GET /api/v2/dags/~/dagRuns/~/hitlDetails";

fn run(number: usize) -> String {
    format!("tb-{number:026}")
}

fn subject(number: usize) -> Subject {
    let handle = json!({ "dag": format!("d{}", number % 50), "result": "result", "run": run(number) });
    let handle = JobHandle::new(handle.to_string());
    Subject { handle, watched: false, age: Duration::from_secs(600) }
}

/// Lets the engine list this many runs, half of which are queued, and a question of the first one.
fn script_list(nasty: &Nasty, runs: usize) {
    for first in (0..=runs).step_by(100) {
        let state = |number: usize| if number.is_multiple_of(2) { "running" } else { "queued" };
        let page: Vec<Value> = (first..runs.min(first + 100))
            .map(|number| json!({ "dag_run_id": run(number), "state": state(number) }))
            .collect();
        let line = if first == 0 { LIST.to_owned() } else { format!("{LIST}?offset={first}") };
        nasty.script(&line, Answer::json(200, &json!({ "dag_runs": page })));
    }
    let question = json!({
        "subject": "Ship it?", "options": ["yes", "no"], "params": {}, "created_at": "2026-01-01T00:00:00Z",
        "task_instance": { "task_id": "gate", "dag_id": "d0", "dag_run_id": run(0), "map_index": -1 },
    });
    let questions = Answer::json(200, &json!({ "hitl_details": [question] }));
    nasty.script(QUESTIONS, questions.with_header("date", "Thu, 01 Jan 2026 00:01:00 GMT"));
}

async fn engine(runs: usize) -> Nasty {
    let nasty = Nasty::start().await;
    nasty.script("POST /auth/token", Answer::json(201, &json!({ "access_token": "t" })));
    script_list(&nasty, runs);
    nasty
}

/// 1,000 runs of 50 DAGs are 11 pages of one list, which are kept for 66 s, and one list of questions, which
/// is kept for 6 s: 20 requests a minute. No run takes a request of its own.
#[tokio::test]
async fn thousand_runs_share_one_list() {
    let nasty = engine(1000).await;
    let backend = connect(fields(&nasty.address, &[CONFIG])).await.unwrap();
    let subjects: Vec<Subject> = (0..1000).map(subject).collect();
    let group = backend.group(&subjects[0].handle);
    assert!(subjects.iter().all(|subject| backend.group(&subject.handle) == group));
    let mut asked = 0;
    // As the server does: sweeps of at most 500 jobs.
    for (number, jobs) in subjects.chunks(500).cycle().take(6).enumerate() {
        for seen in backend.observe_all(&group, jobs).await {
            let seen = seen.unwrap();
            assert!(matches!(seen.state, JobState::Running | JobState::Queued), "sweep {number}: {seen:?}");
            asked += seen.questions.len();
        }
    }
    assert_eq!(asked, 3, "the first run asks in each of its sweeps");
    let questions = nasty.seen(QUESTIONS).len();
    assert!((1..=6).contains(&questions), "{questions}");
    assert_eq!(nasty.seen(LIST).len() - questions, 11);
    assert_eq!(nasty.seen("GET /api/v2/dags/d").len(), 0);
    assert_eq!(nasty.seen("POST").len(), 1);
}

/// Jobs that started after the list was read take a new list, and no request each.
#[tokio::test]
async fn started_runs_share_a_new_list() {
    let nasty = engine(300).await;
    let backend = connect(fields(&nasty.address, &[CONFIG])).await.unwrap();
    let subjects: Vec<Subject> = (0..400).map(subject).collect();
    let group = backend.group(&subjects[0].handle);
    backend.observe_all(&group, &subjects[..200]).await;
    script_list(&nasty, 400);
    for seen in backend.observe_all(&group, &subjects).await {
        assert!(!seen.unwrap().state.has_ended());
    }
    let lists = nasty.seen(LIST).len() - nasty.seen(QUESTIONS).len();
    assert_eq!((lists, nasty.seen("GET /api/v2/dags/d").len()), (4 + 5, 0));
}

/// A job of the simulated schedule: when it started, and when it is polled next.
struct Scheduled {
    started: Duration,
    next: Duration,
}

/// Polls the jobs that are due as the server does: a tenth of their age after the poll before, within 100 ms
/// and 30 s, up to a tenth of that earlier, and at most 500 jobs in a sweep. In its first minute a job is
/// watched.
async fn sweep(backend: &dyn Backend, jobs: &mut [Scheduled], now: Duration) {
    let interval = |job: &Scheduled| {
        let age = now.saturating_sub(job.started);
        (age / 10).clamp(Duration::from_millis(100), Duration::from_secs(30))
    };
    let due: Vec<usize> =
        (0..jobs.len()).filter(|at| jobs[*at].next <= now + interval(&jobs[*at]) / 10).collect();
    if due.iter().all(|at| jobs[*at].next > now) {
        return;
    }
    for part in due.chunks(500) {
        let subjects: Vec<Subject> = part
            .iter()
            .map(|at| {
                let age = now.saturating_sub(jobs[*at].started);
                Subject { age, watched: age < Duration::from_secs(60), ..subject(*at) }
            })
            .collect();
        for seen in backend.observe_all(&backend.group(&subjects[0].handle), &subjects).await {
            assert!(!seen.unwrap().state.has_ended());
        }
        for at in part {
            jobs[*at].next = now + interval(&jobs[*at]);
        }
    }
}

/// 1,000 starts in 20 s: few requests in their first minute, and at most 40 a minute later. The time of the
/// schedule is simulated.
#[tokio::test]
async fn burst_of_starts_takes_few_requests() {
    let nasty = engine(0).await;
    nasty.script(
        "GET /api/v2/dags/d",
        Answer::json(200, &json!({ "state": "running", "task_instances": [] })),
    );
    let backend = connect(fields(&nasty.address, &[CONFIG])).await.unwrap();
    let (mut jobs, mut minutes, step) = (Vec::new(), Vec::new(), Duration::from_millis(200));
    let count = || nasty.engine.lock().seen.len();
    let mut before = count();
    for number in 1..=5 * 60 * 6 {
        let now = step * number;
        if jobs.len() < 1000 {
            jobs.extend((0..10).map(|_| Scheduled { started: now, next: now + Duration::from_millis(100) }));
            script_list(&nasty, jobs.len());
        }
        sweep(&*backend, &mut jobs, now).await;
        tokio::time::pause();
        tokio::time::advance(step).await;
        tokio::time::resume();
        if number % (5 * 60) == 0 {
            minutes.push(count() - before);
            before = count();
        }
    }
    assert!(minutes[0] <= 1200, "{minutes:?}");
    // The last jobs are watched until the 80th second.
    assert!(minutes[2..].iter().all(|requests| *requests <= 40), "{minutes:?}");
}
