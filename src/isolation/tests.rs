//! Adapters that panic, block and hang. `tests/it/isolation.rs` tests the effects on their tasks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::json;
use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, Budget, Checkup, Delivery, DiscoveredTool, Discovery, Finding,
    GroupKey, HookEvent, Hooks, JobHandle, JobKey, JobSpec, JobState, Observation, Questions, Started,
    Subject, Timestamp, ToolTarget, Wakeups,
};

use super::panics::MAX_MESSAGE;
use super::*;

/// A backend whose job handle selects the behaviour; all other methods panic.
#[derive(Default)]
struct Faulty {
    hints: AtomicU32,
    dropped: Arc<AtomicBool>,
    abilities_panic: bool,
}

/// Records when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[async_trait]
impl Backend for Faulty {
    async fn start(&self, _: &JobSpec) -> Result<Started> {
        panic!("start\u{1b}[31m {}", "x".repeat(1000))
    }

    async fn find(&self, _: &JobSpec) -> Result<Option<Started>> {
        panic!("find")
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        match handle.as_str() {
            "panics" => panic!("observe"),
            "blocks" => std::thread::sleep(Duration::from_secs(60)),
            "hangs" => {
                let _dropped = Dropped(Arc::clone(&self.dropped));
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        Ok(Observation::new(JobState::Running))
    }

    async fn cancel(&self, _: &JobHandle) -> Result<()> {
        panic!("cancel")
    }

    fn group(&self, _: &JobHandle) -> GroupKey {
        panic!("group")
    }

    fn abilities(&self) -> Abilities<'_> {
        assert!(!self.abilities_panic, "abilities");
        Abilities {
            questions: Some(self),
            wakeups: Some(self),
            discovery: Some(self),
            checkup: Some(self),
            hooks: Some(self),
            ..Abilities::default()
        }
    }

    fn identity(&self) -> Option<String> {
        panic!("identity")
    }

    fn budgets(&self) -> Vec<Budget> {
        panic!("budgets")
    }
}

#[async_trait]
impl Questions for Faulty {
    async fn answer(&self, _: &JobHandle, _: &str, _: &Answer) -> Result<AnswerOutcome> {
        panic!("answer")
    }

    fn list_lag(&self) -> Duration {
        panic!("list_lag")
    }

    fn needs_token(&self) -> bool {
        panic!("needs_token")
    }
}

#[async_trait]
impl Wakeups for Faulty {
    async fn next(&self) -> JobHandle {
        assert!(self.hints.fetch_add(1, Ordering::SeqCst) > 0, "the first hint");
        JobHandle::new("hinted")
    }
}

impl Hooks for Faulty {
    fn read(&self, _: &Delivery<'_>) -> Option<HookEvent> {
        panic!("hooks")
    }
}

#[async_trait]
impl Discovery for Faulty {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        panic!("discover")
    }
}

#[async_trait]
impl Checkup for Faulty {
    async fn check_up(&self, _: &[ToolTarget]) -> Vec<Finding> {
        panic!("check_up")
    }
}

async fn isolated(metrics: Option<&Arc<Metrics>>) -> Arc<dyn Backend> {
    let connecting = async { Ok(Arc::new(Faulty::default()) as _) };
    Isolation::new("faulty", metrics).unwrap().connect(connecting).await.unwrap()
}

fn job(may_exist: bool) -> JobSpec {
    JobSpec {
        key: JobKey::from_bytes([7; 16]),
        target: json!({}),
        arguments: json!({}),
        files: Vec::new(),
        may_exist,
        first_attempt_at: Timestamp::from_millis(0),
        trace: None,
        on_behalf_of: None,
    }
}

fn kind<T>(answer: Result<T>) -> ErrorKind {
    let Err(error) = answer else { panic!("the call succeeded") };
    assert!(Crash::caused(&error) && error.to_string().contains("backend `faulty` crashed"), "{error}");
    error.kind()
}

/// A panic in any method of a backend fails only that call, and is counted.
#[tokio::test]
async fn panic_fails_one_call() {
    let metrics = Arc::new(Metrics::default());
    let backend = isolated(Some(&metrics)).await;
    let handle = JobHandle::new("panics");
    assert_eq!(kind(backend.start(&job(false)).await), ErrorKind::Uncertain);
    assert_eq!(kind(backend.start(&job(true)).await), ErrorKind::Unavailable);
    assert_eq!(kind(backend.find(&job(true)).await), ErrorKind::Unavailable);
    assert_eq!(kind(backend.observe(&handle).await), ErrorKind::Unavailable);
    assert_eq!(kind(backend.cancel_for(&handle, None).await), ErrorKind::Unavailable);
    let both = ["fine", "panics"]
        .map(|name| Subject { handle: JobHandle::new(name), watched: true, age: Duration::MAX })
        .to_vec();
    let results = backend.observe_all(&GroupKey::new(""), &both).await;
    assert_eq!(results.into_iter().map(kind).collect::<Vec<_>>(), [ErrorKind::Unavailable; 2]);
    let questions = backend.abilities().questions.unwrap();
    let answer = questions.answer_for(&handle, "q", &Answer::Decline, None).await;
    assert_eq!((kind(answer), questions.list_lag()), (ErrorKind::Unavailable, Duration::ZERO));
    assert!(!questions.needs_token());
    assert_eq!((backend.group(&handle), backend.identity()), (GroupKey::new(""), None));
    let discovery = backend.abilities().discovery.unwrap();
    assert_eq!(kind(discovery.discover().await), ErrorKind::Unavailable);
    assert!(backend.budgets().is_empty());
    assert!(
        backend.abilities().hooks.unwrap().read(&Delivery { headers: &[], body: b"", path: "" }).is_none()
    );
    let findings = backend.abilities().checkup.unwrap().check_up(&[]).await;
    assert!(findings[0].says.contains("crashed"), "{findings:?}");
    assert!(backend.observe(&JobHandle::new("fine")).await.is_ok());
    let text = metrics.text();
    assert!(text.contains("taskbridge_engine_crashes_total{backend=\"faulty\"} 15\n"), "{text}");
}

/// A backend whose `abilities` panics has none.
#[tokio::test]
async fn panic_in_abilities_gives_none() {
    let connecting = async { Ok(Arc::new(Faulty { abilities_panic: true, ..Faulty::default() }) as _) };
    let backend = Isolation::new("faulty", None).unwrap().connect(connecting).await.unwrap();
    let Abilities { questions, logs, artifacts, wakeups, discovery, checkup, hooks } = backend.abilities();
    assert!(questions.is_none() && logs.is_none() && artifacts.is_none() && wakeups.is_none());
    assert!(discovery.is_none() && checkup.is_none() && hooks.is_none());
}

#[tokio::test]
async fn panic_while_connecting_is_an_error() {
    let connecting = async { panic!("connect") };
    let connected = Isolation::new("faulty", None).unwrap().connect(connecting).await;
    assert_eq!(kind(connected), ErrorKind::Unavailable);
}

#[test]
fn panic_message_is_bounded_and_plain() {
    let panic = catch_panic(|| panic!("a\u{1b}[31mb\n{}", "x".repeat(1000))).err().unwrap();
    assert!(panic.message.starts_with("ab x") && panic.message.chars().count() == MAX_MESSAGE + 1);
}

/// More blocked calls than worker threads delay neither other calls nor the shutdown.
#[tokio::test]
async fn blocked_calls_block_no_others() {
    let backend = isolated(None).await;
    for _ in 0..8 {
        let handle = JobHandle::new("blocks");
        let blocked = tokio::time::timeout(Duration::from_millis(20), backend.observe(&handle));
        assert!(blocked.await.is_err(), "the call is blocked");
    }
    let fine = JobHandle::new("fine");
    let other = tokio::time::timeout(Duration::from_secs(10), backend.observe(&fine)).await;
    assert!(other.unwrap().is_ok());
    let started = Instant::now();
    drop(backend);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn abandoned_call_is_dropped() {
    let faulty = Faulty::default();
    let dropped = Arc::clone(&faulty.dropped);
    let connecting = async { Ok(Arc::new(faulty) as _) };
    let backend = Isolation::new("faulty", None).unwrap().connect(connecting).await.unwrap();
    let handle = JobHandle::new("hangs");
    assert!(tokio::time::timeout(Duration::from_millis(200), backend.observe(&handle)).await.is_err());
    let wait_dropped = async {
        while !dropped.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait_dropped).await.unwrap();
}

#[tokio::test]
async fn hints_continue_after_a_panic() {
    let backend = isolated(None).await;
    let hint =
        tokio::time::timeout(Duration::from_secs(20), backend.abilities().wakeups.unwrap().next()).await;
    assert_eq!(hint.unwrap(), JobHandle::new("hinted"));
}
