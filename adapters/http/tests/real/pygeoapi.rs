//! pygeoapi, a server of OGC API Processes: what the behaviour suite of the sdk has for an engine without a
//! key, and what only this preset has. The processes are those of `tests/http/pygeoapi/processes.py`.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::suite::{Claims, DiscoverableTool, Fixture, InjectedFault, RefusedJob, RepeatedStart};
use taskbridge_sdk::{Backend, Content, JobHandle, JobKey, JobSpec, JobState, Output, Progress, async_trait};

use crate::harness::engine::Shared;
use crate::harness::keyless::{check_limited_start, check_lost_reply};
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("pygeoapi");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "/execution HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "/execution HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "GET /jobs/", Fault::Status(503)),
    (InjectedFault::DiscoveryUnavailable, "GET /processes?", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /conformance", Fault::Status(503)),
];

struct Pygeoapi {
    world: World,
}

impl Pygeoapi {
    async fn new() -> Self {
        Self { world: World::connect(&ENGINE, "ogc-processes", json!({})).await }
    }

    /// Runs a job to its end, and returns its output.
    async fn run(&self, job: &JobSpec) -> (JobHandle, Output) {
        let handle = self.world.backend.start(job).await.unwrap().handle;
        let ended = poll_until_ended(&*self.world.backend, &handle).await;
        let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
        (handle, output)
    }
}

fn target(process: &str) -> Value {
    json!({ "process": process })
}

/// Creates a job that says when it starts.
fn process(name: &str, arguments: Value) -> JobSpec {
    let mut job = start(target(name), arguments);
    job.arguments["key"] = job.key.as_str().into();
    job
}

#[async_trait]
impl Fixture for Pygeoapi {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SearchOnly,
        questions: false,
        notes: false,
        logs: false,
        artifacts: false,
        wakeups: false,
        discovery: true,
        checkup: true,
        hooks: false,
        refuses: true,
        counts_starts: true,
        faults: &[
            InjectedFault::PollUnavailable,
            InjectedFault::DiscoveryUnavailable,
            InjectedFault::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (process("greet", json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        process("refuse", json!({}))
    }

    fn long_job(&self) -> JobSpec {
        process("wait", json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(json!({ "job": "no-such-job" }).to_string())
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = process("no-such-process", json!({}));
        Some(RefusedJob { job, message: "identifier not found".to_owned() })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(target("no-such-process"))
    }

    /// A process that is always there: pygeoapi reads its processes when it starts.
    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let arguments = json!({ "who": "bob", "tags": ["one", "two"] });
        Some(DiscoverableTool {
            tool: "greet".to_owned(),
            arguments,
            text: "hello bob, one and two".to_owned(),
        })
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        self.world.engine.count_starts(key)
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

// Without a key and a search. A dismissed job is gone, not cancelled: see below.
taskbridge_sdk::behaviour_suite! { Pygeoapi::new().await;
    abilities_are_as_claimed
    start_does_not_wait_for_the_end
    starts_at_the_same_time_make_one_job
    start_that_may_exist_never_guesses
    start_that_was_dropped_makes_one_job_at_most
    start_that_is_refused_says_the_engines_words
    success_hands_back_the_output
    failure_says_why_in_one_line
    ended_job_is_seen_the_same_every_time
    unknown_job_is_gone
    fault_of_a_look_is_an_error
    looks_at_many_answer_in_order
    cancel_of_an_ended_job_changes_nothing
    cancel_of_an_unknown_job_is_success
    discovered_tool_is_called_as_it_says
    fault_of_a_discovery_is_an_error
    checkup_tells_what_is_right
    checkup_changes_nothing
    checkup_names_the_tool_whose_target_is_missing
    checkup_of_an_engine_that_is_away_is_a_fault
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_reply_is_final() {
    let pygeoapi = Pygeoapi::new().await;
    check_lost_reply(&pygeoapi.world, FAULTS, &pygeoapi.long_job()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limited_start_starts_nothing() {
    let pygeoapi = Pygeoapi::new().await;
    check_limited_start(&pygeoapi.world, FAULTS, &pygeoapi.succeeding_job().0).await;
}

/// A server waits for the end of a process that cannot be executed in the background, and has a job of it.
#[tokio::test(flavor = "multi_thread")]
async fn sync_process_has_result() {
    let (_, output) = Pygeoapi::new().await.run(&process("sync", json!({}))).await;
    assert_eq!(output.structured, Some(json!({ "id": "said", "value": "in time" })));
}

/// A result that is not JSON is text.
#[tokio::test(flavor = "multi_thread")]
async fn plain_result_is_text() {
    let (_, output) = Pygeoapi::new().await.run(&process("plain", json!({}))).await;
    assert_eq!((output.content, output.structured), (vec![Content::text("plain words")], None));
}

/// A server without `output_dir` keeps no result. The job has succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn missing_result_ends_job() {
    let pygeoapi = Pygeoapi::new().await;
    let (handle, _) = pygeoapi.run(&pygeoapi.succeeding_job().0).await;
    let id = handle.as_str().split('"').nth(3).unwrap();
    fs::remove_file(pygeoapi.world.engine.folder.join("results").join(format!("greet-{id}"))).unwrap();
    let seen = pygeoapi.world.backend.observe(&handle).await.unwrap();
    let JobState::Succeeded(output) = seen.state else { panic!("{seen:?}") };
    assert_eq!(output.structured, None);
}

/// pygeoapi checks no input: the process fails, and its words are the message.
#[tokio::test(flavor = "multi_thread")]
async fn bad_input_fails_in_engine_words() {
    let pygeoapi = Pygeoapi::new().await;
    let backend = &*pygeoapi.world.backend;
    let handle = backend.start(&process("greet", json!({ "times": 2 }))).await.unwrap().handle;
    let ended = poll_until_ended(backend, &handle).await;
    assert!(matches!(ended.state, JobState::Failed(_)), "{ended:?}");
    assert_eq!(ended.message.unwrap(), "InvalidParameterValue: Error executing process: 'who'");
}

/// pygeoapi forgets a dismissed job. Its process goes on, as its page says.
#[tokio::test(flavor = "multi_thread")]
async fn dismissed_job_is_gone() {
    let pygeoapi = Pygeoapi::new().await;
    let (backend, job) = (&*pygeoapi.world.backend, pygeoapi.long_job());
    let handle = backend.start(&job).await.unwrap().handle;
    let progress = poll_until(backend, &handle, "progress", |seen| seen.progress).await;
    assert_eq!(progress, Progress { done: 5.0, total: Some(100.0) });
    for _ in 0..2 {
        backend.cancel(&handle).await.unwrap();
        assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Gone);
    }
    let starts = pygeoapi.world.engine.folder.join("starts");
    fs::write(starts.join(format!("{}.go", job.key)), "").unwrap();
    let ended = starts.join(format!("{}.end", job.key));
    let wait = async {
        while !ended.exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.expect("the process goes on");
}

/// All processes are tools, though the server lists two at a time, with the schemas of their inputs.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_inputs_are_typed() {
    let pygeoapi = Pygeoapi::new().await;
    let tools = pygeoapi.world.backend.abilities().discovery.unwrap().discover().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["greet", "later", "plain", "refuse", "repeat", "sync", "wait"]);
    let schema = &tools[0].input_schema;
    assert_eq!(schema["required"], json!(["who"]));
    let properties = &schema["properties"];
    assert_eq!(
        properties["who"],
        json!({ "type": "string", "maxLength": 40, "description": "Whom to greet." })
    );
    assert_eq!(properties["times"]["minimum"], 1);
    assert_eq!(
        (&properties["tags"]["type"], &properties["tags"]["items"]["type"]),
        (&json!("array"), &json!("string"))
    );
}
