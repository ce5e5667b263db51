//! Buildbot: the behaviour suite of the sdk, and what only this preset has. The builders are those of
//! `tests/http/buildbot/master.py`.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use taskbridge_sdk::suite::polling::{poll_until, poll_until_ended};
use taskbridge_sdk::suite::{
    Claims, DiscoverableTool, Fixture, InjectedFault, LogJob, RefusedJob, RepeatedStart, fresh_key,
};
use taskbridge_sdk::{
    Backend, Content, Delivery, ErrorKind, JobHandle, JobKey, JobSpec, JobState, LogRequest, Observation,
    Subject, ToolTarget, async_trait,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::as_server::AsServer;
use crate::harness::engine::Shared;
use crate::harness::proxy::{Fault, read_message};
use crate::harness::world::{Faults, SOON, World, start};

static ENGINE: Shared = Shared::new("buildbot");
const FAULTS: Faults = &[
    (InjectedFault::StartReplyLost, "POST /api/v2/forceschedulers", Fault::ReplyLost),
    (InjectedFault::StartLimited, "POST /api/v2/forceschedulers", Fault::Status(429)),
    (InjectedFault::PollUnavailable, "GET /api/v2/buildrequests", Fault::Status(503)),
    (InjectedFault::DiscoveryUnavailable, "GET /api/v2/builders", Fault::Status(503)),
    (InjectedFault::CheckupUnavailable, "GET /api/v2/builders", Fault::Status(503)),
];

/// Text of both outputs, in which lines begin with the letters that Buildbot puts before them.
const LOG: &str = "=== record
=== warn
early words
=== open
one
open words
=== show
first line
second line
third line
";

struct Buildbot {
    world: World,
}

impl Buildbot {
    async fn new() -> Self {
        Self { world: World::connect(&ENGINE, "buildbot", json!({})).await }
    }

    /// Makes the master read its config again.
    fn reconfigure(&self) {
        let pid = fs::read_to_string(self.world.engine.folder.join("pid")).unwrap();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    /// Runs a job to its end.
    async fn run(&self, job: &JobSpec) -> (JobHandle, Observation) {
        let handle = self.world.backend.start(job).await.unwrap().handle;
        let ended = poll_until_ended(&*self.world.backend, &handle).await;
        (handle, ended)
    }

    /// Sends a request to the master, without the proxy and its faults, and returns the reply.
    async fn call(&self, request: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.world.engine.port)).await.unwrap();
        let head = format!("{request} HTTP/1.0\r\ncontent-type: application/json\r\n");
        let message = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(message.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        reply
    }
}

fn target(builder: &str) -> Value {
    json!({ "scheduler": "force", "builder": builder })
}

#[async_trait]
impl Fixture for Buildbot {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SearchOnly,
        questions: false,
        notes: false,
        logs: true,
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
        Arc::new(AsServer(self.world.backend.clone()))
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (start(target("greet"), json!({ "who": "ann" })), "hello ann".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        start(target("fail"), json!({}))
    }

    fn long_job(&self) -> JobSpec {
        start(target("wait"), json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(json!({ "buildset": 999_999, "result": "result" }).to_string())
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["first line", "second line", "third line"].map(str::to_owned).to_vec();
        Some(LogJob { job: start(target("show"), json!({})), lines })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "times: invalid literal for int() with base 10: 'many'".to_owned();
        Some(RefusedJob { job: start(target("greet"), json!({ "times": "many" })), message })
    }

    fn missing_target(&self) -> Option<Value> {
        Some(json!({ "scheduler": "no-such-scheduler", "builder": "greet" }))
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let name = format!("offer-{}", &fresh_key().as_str()[3..15]);
        fs::write(self.world.engine.folder.join("offers").join(&name), "").unwrap();
        self.reconfigure();
        let arguments = json!({ "who": "bob", "times": 2 });
        Some(DiscoverableTool { tool: name, arguments, text: "hello bob".to_owned() })
    }

    async fn remove_tool(&self, tool: &str) {
        fs::remove_file(self.world.engine.folder.join("offers").join(tool)).unwrap();
        self.reconfigure();
    }

    /// Counts the buildsets with the key: some requests have no build.
    async fn count_starts(&self, key: &JobKey) -> usize {
        let reply = self.call(&format!("GET /api/v2/buildsets?reason__contains={key}"), "").await;
        self.world.engine.count_starts(key).max(reply.matches("\"bsid\"").count())
    }

    fn timeout(&self) -> Duration {
        SOON
    }

    async fn inject(&self, fault: InjectedFault) {
        self.world.inject(FAULTS, fault);
    }
}

taskbridge_sdk::behaviour_suite!(Buildbot::new().await);

/// Buildbot builds a request again, under another number. The job goes on.
#[tokio::test(flavor = "multi_thread")]
async fn second_build_of_request_is_followed() {
    let buildbot = Buildbot::new().await;
    let job = start(target("again"), json!({}));
    let (_, ended) = buildbot.run(&job).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!("built twice")));
    assert_eq!(buildbot.world.engine.count_starts(&job.key), 2);
}

/// A build with warnings has succeeded, and one without the property has no result.
#[tokio::test(flavor = "multi_thread")]
async fn warnings_are_success() {
    let (_, ended) = Buildbot::new().await.run(&start(target("warn"), json!({}))).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!((output.structured, &output.content[0]), (None, &Content::text("The job succeeded.")));
    assert!(ended.message.as_deref().is_some_and(|text| text.contains("warnings")), "{:?}", ended.message);
}

/// The tool names the property that is the result. The arguments have arrived with their types.
#[tokio::test(flavor = "multi_thread")]
async fn other_property_is_result() {
    let target = json!({ "scheduler": "force", "builder": "greet", "result": "data" });
    let job = start(target, json!({ "times": 2, "box_note": "fragile", "loud": true, "parts": ["a", "b"] }));
    let (_, ended) = Buildbot::new().await.run(&job).await;
    let JobState::Succeeded(output) = ended.state else { panic!("{ended:?}") };
    assert_eq!(output.structured, Some(json!("2 True ['a', 'b'] {'note': 'fragile'}")));
}

/// The message of a failure names the step, and the one of a running job, too.
#[tokio::test(flavor = "multi_thread")]
async fn steps_are_message_and_progress() {
    let buildbot = Buildbot::new().await;
    let (_, ended) = buildbot.run(&buildbot.failing_job()).await;
    assert_eq!(ended.message.as_deref(), Some("break: failed 'sh -c ...' (failure)"));
    let backend = &*buildbot.world.backend;
    let handle = backend.start(&buildbot.long_job()).await.unwrap().handle;
    let step = poll_until(backend, &handle, "a step", |seen| {
        seen.message.as_ref().filter(|text| *text == "wait").and(seen.progress)
    });
    // The preparation of the worker, and the step that records the start.
    let progress = step.await;
    assert_eq!((progress.done, progress.total), (2.0, None));
    buildbot.backend().cancel(&handle).await.unwrap();
    let ended = poll_until_ended(backend, &handle).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
    let message = ended.message.unwrap();
    assert!(message.contains("cancelled by taskbridge"), "{message}");
}

/// A request that waits for a worker says so, and can be cancelled. Buildbot drops it for a later one of the
/// same builder, as the preset reports.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_request_is_explained() {
    let buildbot = Buildbot::new().await;
    let backend = &*buildbot.world.backend;
    let first = backend.start(&start(target("idle"), json!({ "who": "ann" }))).await.unwrap().handle;
    let subject = Subject { handle: first.clone(), watched: true, age: Duration::ZERO };
    let seen = backend.observe_all(&backend.group(&first), &[subject]).await.remove(0).unwrap();
    assert_eq!(seen.state, JobState::Queued);
    assert!(seen.message.as_deref().is_some_and(|text| text.contains("no worker")), "{seen:?}");
    let second = backend.start(&start(target("idle"), json!({ "who": "bob" }))).await.unwrap().handle;
    let dropped = poll_until_ended(backend, &first).await;
    assert!(matches!(dropped.state, JobState::Failed(_)), "{dropped:?}");
    assert!(dropped.message.unwrap().contains("collapseRequests = False"));
    buildbot.backend().cancel(&second).await.unwrap();
    let ended = poll_until_ended(backend, &second).await;
    assert!(matches!(ended.state, JobState::Cancelled(_)), "{ended:?}");
}

/// An argument cannot take the place of the key or of the builder.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_do_not_replace_key() {
    let buildbot = Buildbot::new().await;
    let backend = &*buildbot.world.backend;
    let other = json!({ "reason": "mine", "builderNames": ["fail"], "builderid": 1, "owner": "root" });
    let job = start(target("wait"), other);
    let handle = backend.start(&job).await.unwrap().handle;
    assert_eq!(backend.find(&job).await.unwrap().unwrap().handle, handle);
    poll_until(backend, &handle, "the step", |seen| seen.message.clone().filter(|text| text == "wait")).await;
    buildbot.backend().cancel(&handle).await.unwrap();
}

/// A target that Buildbot does not have starts nothing. An error of its own may come after the start.
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_start_are_told_apart() {
    let buildbot = Buildbot::new().await;
    let strict = json!({ "scheduler": "strict", "builder": "wait" });
    for (target, arguments, kind) in [
        (json!({ "scheduler": "none", "builder": "greet" }), json!({}), ErrorKind::Rejected),
        (strict, json!({ "who": "ann" }), ErrorKind::Rejected),
        (target("greet"), json!({ "who": "Ann!" }), ErrorKind::Rejected),
        (target("greet"), json!({ "who": 5 }), ErrorKind::Uncertain),
    ] {
        let job = start(target, arguments);
        let error = buildbot.world.backend.start(&job).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(buildbot.count_starts(&job.key).await, 0);
    }
}

/// The log has no line of Buildbot itself: they contain the environment of the worker.
#[tokio::test(flavor = "multi_thread")]
async fn log_hides_environment() {
    let buildbot = Buildbot::new().await;
    let (handle, _) = buildbot.run(&start(target("show"), json!({}))).await;
    let logs = buildbot.world.backend.abilities().logs.unwrap();
    let request = LogRequest { max_bytes: 10_000, search: None };
    let log = logs.tail(&handle, &request).await.unwrap();
    assert_eq!(log.text, LOG);
    let build = buildbot.call("GET /api/v2/builders/show/builds/1", "").await;
    let id: String =
        build.split("\"buildid\": ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    let raw = buildbot.call(&format!("GET /api/v2/builds/{id}/steps/show/logs/stdio/raw"), "").await;
    assert!(raw.contains("environment:") && raw.contains("PATH="), "{raw}");
}

/// Builders with the tag are tools, each with the fields of its first force scheduler.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_fields_are_typed() {
    let buildbot = Buildbot::new().await;
    let tools = buildbot.world.backend.abilities().discovery.unwrap().discover().await.unwrap();
    assert!(!tools.iter().any(|tool| tool.name == "unmarked"), "it has no tag");
    let greet = tools.iter().find(|tool| tool.name == "greet").unwrap();
    assert_eq!((greet.description.as_deref(), &greet.target), (Some("Runs greet."), &target("greet")));
    let text = |label: &str| json!({ "type": "string", "description": label });
    assert_eq!(
        greet.input_schema["properties"],
        json!({
            "branch": text("Branch:"), "project": text("Project:"), "repository": text("Repository:"),
            "revision": text("Revision:"),
            "who": { "type": "string", "description": "Whom to greet.", "default": "world" },
            "times": { "type": "integer", "description": "times", "default": 1 },
            "loud": { "type": "boolean", "description": "loud", "default": false },
            "tongue": { "type": "string", "enum": ["en", "de"], "description": "The language.", "default": "en" },
            "parts": {
                "type": "array", "items": { "type": "string", "enum": ["a", "b"] }, "description": "parts",
                "default": ["a"],
            },
            "box_note": { "type": "string", "description": "note", "default": "none" },
        })
    );
}

/// Buildbot posts builds, and each post names the key of its job.
#[tokio::test(flavor = "multi_thread")]
async fn post_of_build_names_key() {
    let hook =
        json!({ "token": { "header": "X-Secret", "secret": "word" }, "keys": "[body.properties.reason[0]]" });
    let buildbot = Buildbot { world: World::connect(&ENGINE, "buildbot", json!({ "hook": hook })).await };
    let receiver = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hooks/ci", receiver.local_addr().unwrap());
    fs::write(buildbot.world.engine.folder.join("receiver"), address).unwrap();
    buildbot.reconfigure();
    let hooks = buildbot.world.backend.abilities().hooks.unwrap();
    let keys = Mutex::new(Vec::new());
    let receive = async {
        loop {
            let (mut stream, _) = receiver.accept().await.unwrap();
            let post = String::from_utf8(read_message(&mut stream, false).await.unwrap()).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
                .unwrap();
            let (head, body) = post.split_once("\r\n\r\n").unwrap();
            let head = head.to_lowercase();
            let headers: Vec<_> = head.lines().skip(1).filter_map(|line| line.split_once(": ")).collect();
            let event = hooks.read(&Delivery { headers: &headers, body: body.as_bytes(), path: "" });
            keys.lock().extend(event.expect("the post has the secret").keys);
            let other = Delivery { headers: &[("x-secret", "other")], body: body.as_bytes(), path: "" };
            assert_eq!(hooks.read(&other), None);
        }
    };
    let build = async {
        // Builds that end before the master has read its config are not posted.
        loop {
            let (job, _) = buildbot.succeeding_job();
            buildbot.run(&job).await;
            let is_named = async {
                while !keys.lock().contains(&job.key) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            if tokio::time::timeout(Duration::from_secs(2), is_named).await.is_ok() {
                return;
            }
        }
    };
    let either = async {
        tokio::select! { () = receive => (), () = build => () }
    };
    tokio::time::timeout(SOON, either).await.expect("a build is posted");
    fs::remove_file(buildbot.world.engine.folder.join("receiver")).unwrap();
    buildbot.reconfigure();
}

/// The doctor reports a builder that the scheduler does not have.
#[tokio::test(flavor = "multi_thread")]
async fn builder_of_other_scheduler_is_reported() {
    let buildbot = Buildbot::new().await;
    let checkup = buildbot.world.backend.abilities().checkup.unwrap();
    let tools = [ToolTarget::new("wait", json!({ "scheduler": "strict", "builder": "wait" }))];
    let findings = serde_json::to_value(checkup.check_up(&tools).await).unwrap().to_string();
    assert!(findings.contains("the force scheduler strict cannot start the builder wait"), "{findings}");
}
