//! Restate: the behaviour suite of the sdk, and what only this preset has. The services are those of
//! `tests/http/restate/services.mjs`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, InjectedFault, RefusedJob, RepeatedStart, fresh_key,
};
use taskbridge_sdk::{
    Backend, Content, ErrorKind, JobHandle, JobKey, JobSpec, JobState, Observation, ToolTarget, async_trait,
};

use crate::harness::engine::Shared;
use crate::harness::proxy::Fault;
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("restate");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "/send HTTP", Fault::ReplyLost),
    (InjectedFault::StartLimited, "/send HTTP", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "POST /admin/query", Fault::Status(503)),
    (InjectedFault::DiscoveryUnavailable, "GET /admin/services", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /ingress/restate/health", Fault::Status(503)),
];

struct Restate {
    world: World,
}

impl Restate {
    async fn new() -> Self {
        Self { world: World::connect(&ENGINE, "restate", json!({})).await }
    }

    /// Runs a job to its end.
    async fn run(&self, job: &JobSpec) -> Observation {
        let handle = self.world.backend.start(job).await.unwrap().handle;
        poll_until_ended(&*self.world.backend, &handle).await
    }
}

fn target(handler: &str) -> Value {
    json!({ "service": "Greetings", "handler": handler })
}

/// Creates a job that says when it starts.
fn recorded(target: Value, arguments: Value) -> JobSpec {
    let mut job = start(target, arguments);
    job.arguments["key"] = job.key.as_str().into();
    job
}

#[async_trait]
impl Fixture for Restate {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
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
            InjectedFault::StartReplyLost,
            InjectedFault::StartLimited,
            InjectedFault::PollUnavailable,
            InjectedFault::DiscoveryUnavailable,
            InjectedFault::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.world.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (recorded(target("greet"), json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        recorded(target("fail"), json!({}))
    }

    fn long_job(&self) -> JobSpec {
        recorded(target("wait"), json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(json!({ "id": "inv_17OQI7pIgZVA6KSKtegek50oGMyP5J93iZ" }).to_string())
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "the handler 'nothing-else' was not found".to_owned();
        Some(RefusedJob { job: recorded(target("nothing-else"), json!({})), message })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(target("nothing-else"))
    }

    /// A handler that is always there: the services of a deployment do not change.
    async fn add_tool(&self) -> Option<DiscoverableTool> {
        Some(DiscoverableTool {
            tool: "Greetings_greet".to_owned(),
            arguments: json!({ "who": "bob" }),
            text: "hello bob".to_owned(),
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

// Without the tests that add and remove a tool, and those of abilities that the engine does not have.
taskbridge_sdk::behaviour_suite! { Restate::new().await;
    abilities_are_as_claimed
    start_does_not_wait_for_the_end
    start_again_returns_the_same_job
    start_again_after_the_end_returns_the_same_job
    starts_at_the_same_time_make_one_job
    start_that_may_exist_never_guesses
    start_that_was_dropped_makes_one_job_at_most
    start_whose_reply_was_lost_is_uncertain
    start_that_is_limited_starts_nothing
    start_that_is_refused_says_the_engines_words
    find_sees_a_job_in_any_state
    find_of_an_unknown_key_starts_nothing
    success_hands_back_the_output
    failure_says_why_in_one_line
    ended_job_is_seen_the_same_every_time
    unknown_job_is_gone
    new_job_is_never_gone
    fault_of_a_look_is_an_error
    looks_at_many_answer_in_order
    cancel_ends_a_running_job
    cancel_twice_is_harmless
    cancel_of_an_ended_job_changes_nothing
    cancel_of_an_unknown_job_is_success
    discovered_tool_is_called_as_it_says
    fault_of_a_discovery_is_an_error
    checkup_tells_what_is_right
    checkup_changes_nothing
    checkup_names_the_tool_whose_target_is_missing
    checkup_of_an_engine_that_is_away_is_a_fault
}

/// The reason of a failure is that of the error that ended the invocation.
#[tokio::test(flavor = "multi_thread")]
async fn terminal_error_is_reason() {
    let restate = Restate::new().await;
    let ended = restate.run(&restate.failing_job()).await;
    assert!(matches!(ended.state, JobState::Failed(_)), "{ended:?}");
    assert_eq!(ended.message.as_deref(), Some("[503] out of luck and out of paper"));
}

/// A handler that returns nothing has succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn empty_result_is_success() {
    let ended = Restate::new().await.run(&recorded(target("nothing"), json!({}))).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!((output.structured, output.content), (None, vec![Content::text("The job succeeded.")]));
}

/// A handler that fails and is tried again says so. Only a kill ends it: it does not get as far as to notice a
/// cancellation.
#[tokio::test(flavor = "multi_thread")]
async fn retried_handler_is_explained() {
    let restate = Restate::new().await;
    let (backend, job) = (&*restate.world.backend, recorded(target("retry"), json!({})));
    let handle = backend.start(&job).await.unwrap().handle;
    let error = |seen: &Observation| {
        assert!(!seen.state.has_ended(), "{seen:?}");
        seen.message.clone()
    };
    let failure = "backing-off: [500 Internal] not yet";
    assert_eq!(poll_until(backend, &handle, "the error", error).await, failure);
    backend.cancel(&handle).await.unwrap();
    assert_eq!(poll_until(backend, &handle, "the error again", error).await, failure);
    let kill = json!({ "cancel": { "method": "PATCH", "path": "/admin/invocations/{{ handle.id }}/kill" } });
    let killer = World::connect(&ENGINE, "restate", kill).await;
    killer.backend.cancel(&handle).await.unwrap();
    let ended = poll_until_ended(backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
    assert_eq!(restate.world.engine.count_starts(&job.key), 1);
}

/// The key of an object may contain every character. Its invocations run one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn object_runs_one_job_at_a_time() {
    let restate = Restate::new().await;
    let backend = &*restate.world.backend;
    let name = format!("a/b c?{}", fresh_key());
    let object = |handler| json!({ "service": "Account", "handler": handler, "key": "{{ name }}" });
    let first = backend.start(&recorded(object("hold"), json!({ "name": name }))).await.unwrap().handle;
    poll_until(backend, &first, "the lock", |seen| (seen.state == JobState::Running).then_some(())).await;
    let job = recorded(object("deposit"), json!({ "name": name, "amount": 5 }));
    let second = backend.start(&job).await.unwrap().handle;
    assert_eq!(backend.observe(&second).await.unwrap().state, JobState::Queued);
    assert_eq!(restate.world.engine.count_starts(&job.key), 0);
    backend.cancel(&first).await.unwrap();
    let ended = poll_until_ended(backend, &second).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!({ "account": name, "balance": 5 })));
}

/// The key of the job is the key of a workflow: a second start is the same run, and a search finds it.
#[tokio::test(flavor = "multi_thread")]
async fn workflow_runs_once() {
    let restate = Restate::new().await;
    let backend = &*restate.world.backend;
    let target = json!({ "service": "Order", "handler": "run", "workflow": true });
    let job = start(target, json!({ "what": "tea" }));
    let handle = backend.start(&job).await.unwrap().handle;
    let again = JobSpec { may_exist: true, ..job.clone() };
    assert_eq!(backend.start(&again).await.unwrap().handle, handle);
    let ended = poll_until_ended(backend, &handle).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!({ "ordered": "tea", "as": job.key.as_str() })));
    assert_eq!(backend.find(&job).await.unwrap().unwrap().handle, handle);
    assert_eq!(restate.world.engine.count_starts(&job.key), 1);
}

/// A workflow without `workflow = true` is refused: it has no idempotency key.
#[tokio::test(flavor = "multi_thread")]
async fn workflow_with_key_is_refused() {
    let restate = Restate::new().await;
    let target = json!({ "service": "Order", "handler": "run", "key": "monday" });
    let error = restate.world.backend.start(&start(target, json!({}))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("cannot use the idempotency key with workflow handlers"), "{error}");
}

/// Public handlers of services and workflows are tools. An object needs a key that nobody has named.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_handlers_are_typed() {
    let restate = Restate::new().await;
    let tools = restate.world.backend.abilities().discovery.unwrap().discover().await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let greetings = ["fail", "greet", "nothing", "retry", "wait"].map(|name| format!("Greetings_{name}"));
    assert_eq!(names, [&greetings[..], &["Order_run".to_owned()]].concat());
    let greet = &tools[1];
    assert_eq!(greet.description.as_deref(), Some("Greets someone."));
    assert_eq!(greet.input_schema["properties"]["who"], json!({ "type": "string", "maxLength": 40 }));
    assert_eq!(greet.input_schema["required"], json!(["who"]));
    assert_eq!(tools[0].description.as_deref(), Some("Says hello."));
    assert_eq!(tools[5].target, json!({ "service": "Order", "handler": "run", "workflow": true }));
}

/// The doctor reports a handler that the ingress refuses.
#[tokio::test(flavor = "multi_thread")]
async fn private_handler_is_reported() {
    let restate = Restate::new().await;
    let checkup = restate.world.backend.abilities().checkup.unwrap();
    let findings = checkup.check_up(&[ToolTarget::new("hidden", target("hidden"))]).await;
    let findings = serde_json::to_value(findings).unwrap().to_string();
    assert!(findings.contains("the handler hidden of Greetings is private"), "{findings}");
}
