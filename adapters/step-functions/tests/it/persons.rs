//! Tests of sessions of callers: AWS sees the person in changes and the bridge in reads, and never one person
//! in place of another. The emulator reports the session of a request by the access key that signed it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, AnswerOutcome, Backend, ErrorKind, JobHandle, JobSpec, OnBehalfOf, Result};

use crate::harness::proxy::{Fault, RecordedRequest};
use crate::harness::standin::{Kind, Standin};
use crate::harness::world::{
    KEY, REGION, SECRET, World, connect, output, poll_until, poll_until_ended, start,
};

const ROLE: &str = "arn:aws:iam::000000000000:role/people";

/// Backend that acts on behalf of people, and its folder.
struct PerCallerSetup {
    world: World,
    dir: tempfile::TempDir,
    backend: Arc<dyn Backend>,
}

impl PerCallerSetup {
    async fn new(extra: Value) -> Self {
        let world = World::new(Kind::MiniStack).await;
        let dir = tempfile::tempdir().unwrap();
        let backend = backend(&world, &dir, extra).await.unwrap();
        world.proxy.take_requests();
        Self { world, dir, backend }
    }

    async fn waiting_machine(&self) -> String {
        self.world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await
    }
}

async fn backend(world: &World, dir: &tempfile::TempDir, extra: Value) -> Result<Arc<dyn Backend>> {
    backend_with_activities(world, dir, extra, &[]).await
}

/// Connects a backend with activities that ask.
async fn backend_with_activities(
    world: &World,
    dir: &tempfile::TempDir,
    extra: Value,
    activities: &[&str],
) -> Result<Arc<dyn Backend>> {
    let endpoint = format!("http://127.0.0.1:{}", world.proxy.port);
    let file = format!(
        "[profile bridge]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\nservices = here\n\n\
         [services here]\nsts =\n  endpoint_url = {endpoint}\n"
    );
    fs::write(dir.path().join("bridge"), file).unwrap();
    let mut per_caller = json!({"role_arn": ROLE});
    per_caller.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let config = json!({
        "region": REGION, "profile": "bridge", "config_file": "bridge", "endpoint": endpoint, "call_timeout": "60s",
        "per_caller": per_caller, "activities": activities, "heartbeat": "1s",
    });
    connect(dir, config).await
}

fn federated_person(name: &str, subject: &str) -> OnBehalfOf {
    let (issuer, subject) = (Some("https://id.example".to_owned()), Some(subject.to_owned()));
    OnBehalfOf { issuer, subject, ..OnBehalfOf::named(name) }
}

fn job_for(person: &OnBehalfOf, machine: &str) -> JobSpec {
    JobSpec { on_behalf_of: Some(person.clone()), ..start(machine, json!({})) }
}

fn access_key(request: &RecordedRequest) -> &str {
    let authorization = &request.headers["authorization"];
    authorization.split_once("Credential=").unwrap().1.split('/').next().unwrap()
}

/// Returns the signer of a request according to the emulator: the name of the session, or `None` for the
/// bridge itself.
async fn signer(recorded: &RecordedRequest) -> Option<String> {
    let port = tokio::task::block_in_place(|| Standin::shared(Kind::MiniStack)).port;
    let key = access_key(recorded);
    if key == KEY {
        return None;
    }
    let body = "Action=GetCallerIdentity&Version=2011-06-15";
    let request = format!(
        "POST / HTTP/1.0\r\nhost: sts\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential={key}/20260101/{REGION}/sts/aws4_request, SignedHeaders=host, Signature=0\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut response = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut response).await.unwrap();
    let arn = response
        .split_once("<Arn>")
        .unwrap_or_else(|| panic!("{response}"))
        .1
        .split("</Arn>")
        .next()
        .unwrap();
    let session = arn.strip_prefix("arn:aws:sts::000000000000:assumed-role/people/");
    Some(session.unwrap_or_else(|| panic!("{arn}")).to_owned())
}

/// Returns the decoded form of a request for a role.
fn form(request: &RecordedRequest) -> Vec<(String, String)> {
    let body = String::from_utf8(request.body.clone()).unwrap();
    body.split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), percent_decode(value)))
        .collect()
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

/// Start and stop use the caller's session. Polls use the credentials of the backend.
#[tokio::test(flavor = "multi_thread")]
async fn actions_are_signed_as_caller() {
    let tags = json!({"session_tags": {"user": "{{ name }}", "team": "{{ groups }}", "org": "{{ tenant }}"}});
    let setup = PerCallerSetup::new(tags).await;
    let machine = setup.waiting_machine().await;
    let mut ann = OnBehalfOf::named("ann");
    ann.groups = ["data".to_owned(), "ml:ops".to_owned()].into();
    let bob = federated_person("Bob B&RoleSessionName=ann", "7");
    for person in [&ann, &bob] {
        let handle = setup.backend.start(&job_for(person, &machine)).await.unwrap().handle;
        setup.backend.observe(&handle).await.unwrap();
        setup.backend.cancel_for(&handle, Some(person)).await.unwrap();
    }
    let requests = setup.world.proxy.take_requests();
    let roles: Vec<_> = requests.iter().filter(|request| request.operation.is_empty()).map(form).collect();
    assert_eq!(roles.len(), 2, "each session is requested once");
    let role_parameter = |at: usize, name: &str| {
        roles[at].iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(
        (
            role_parameter(0, "RoleSessionName"),
            role_parameter(0, "SourceIdentity"),
            role_parameter(0, "DurationSeconds"),
            role_parameter(0, "RoleArn")
        ),
        (Some("ann"), Some("ann"), Some("3600"), Some(ROLE))
    );
    assert_eq!(
        (role_parameter(0, "Tags.member.1.Key"), role_parameter(0, "Tags.member.2.Key")),
        (Some("team"), Some("user"))
    );
    assert!(role_parameter(0, "Tags.member.1.Value").unwrap().starts_with(":data:ml-ops-"), "{:?}", roles[0]);
    assert_eq!(
        (role_parameter(0, "Tags.member.2.Value"), role_parameter(0, "Tags.member.3.Key")),
        (Some("ann"), None)
    );
    let session = role_parameter(1, "RoleSessionName").unwrap();
    assert!(session.starts_with("Bob-B-RoleSessionName=ann-") && session.len() == 42, "{session}");
    assert_eq!(roles[1].iter().filter(|(name, _)| name == "RoleSessionName").count(), 1);

    let mut signed_calls = Vec::new();
    for request in requests.iter().filter(|request| !request.operation.is_empty()) {
        signed_calls.push((request.operation.as_str(), signer(request).await));
    }
    let callers_of = |operation: &str| -> Vec<Option<&str>> {
        signed_calls
            .iter()
            .filter(|(name, _)| *name == operation)
            .map(|(_, caller)| caller.as_deref())
            .collect()
    };
    for operation in ["StartExecution", "StopExecution"] {
        assert_eq!(callers_of(operation), [Some("ann"), Some(session)], "{operation}");
    }
    let actions = ["StartExecution", "StopExecution"];
    assert!(
        signed_calls.iter().all(|(name, caller)| actions.contains(name) || caller.is_none()),
        "{signed_calls:?}"
    );
    assert!(signed_calls.iter().any(|(name, _)| *name == "DescribeExecution"), "{signed_calls:?}");
}

/// Without a caller or a role, nothing is done, and the backend's own credentials are not used.
#[tokio::test(flavor = "multi_thread")]
async fn action_without_caller_role_is_refused() {
    let setup = PerCallerSetup::new(json!({"session_tags": {"team": "{{ groups }}"}})).await;
    let machine = setup.waiting_machine().await;
    let job = start(&machine, json!({}));
    let error = setup.backend.start(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("`per_caller`"), "{error}");
    let handle = JobHandle::new(machine.replace(":stateMachine:", ":execution:") + ":somebodys");
    for on_behalf_of in [
        None,
        Some(&OnBehalfOf {
            groups: (0..40).map(|n| format!("group-{n:04}")).collect(),
            ..OnBehalfOf::named("cid")
        }),
    ] {
        let error = setup.backend.cancel_for(&handle, on_behalf_of).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Rejected), "{error}");
    }
    assert_eq!(setup.backend.cancel(&handle).await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(
        setup.world.proxy.take_requests().iter().all(|request| request.operation.starts_with("Describe"))
    );

    // If the role is refused, the bridge's own credentials are not used instead.
    let ann = OnBehalfOf::named("ann");
    for (fault, kind) in [
        (
            Fault::ErrorResponse(403, "AccessDenied", "not authorized to perform: sts:AssumeRole"),
            ErrorKind::Denied,
        ),
        (Fault::ErrorResponse(400, "PackedPolicyTooLarge", "too large"), ErrorKind::Rejected),
        (Fault::ErrorResponse(503, "ServiceUnavailable", ""), ErrorKind::Unavailable),
        (Fault::ReplyLost, ErrorKind::Unavailable),
    ] {
        setup.world.proxy.inject("", fault);
        let error = setup.backend.start(&job_for(&ann, &machine)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().starts_with("AssumeRole: "), "{error}");
        let starts = setup
            .world
            .proxy
            .take_requests()
            .into_iter()
            .filter(|request| request.operation == "StartExecution");
        assert_eq!(starts.count(), 0, "{error}");
    }
    // An execution from an earlier attempt is still found.
    let job = job_for(&ann, &machine);
    let handle = setup.backend.start(&job).await.unwrap().handle;
    let other = backend(&setup.world, &setup.dir, json!({})).await.unwrap();
    let retry = JobSpec { may_exist: true, on_behalf_of: None, ..job };
    assert_eq!(other.start(&retry).await.unwrap().handle, handle);
    let never_started = JobSpec { may_exist: true, ..start(&machine, json!({})) };
    assert_eq!(other.start(&never_started).await.unwrap_err().kind(), ErrorKind::Uncertain);
    setup.backend.cancel_for(&handle, Some(&ann)).await.unwrap();
}

/// Each caller keeps one session. A session that AWS rejects is replaced for the next attempt.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_session_is_not_reused() {
    let setup = PerCallerSetup::new(json!({"session_duration": "15m", "source_identity": false})).await;
    let machine = setup.waiting_machine().await;
    let people = [OnBehalfOf::named("ann"), federated_person("ann", "1"), federated_person("ann", "2")];
    let mut keys = BTreeSet::new();
    for _ in 0..2 {
        for person in &people {
            let handle = setup.backend.start(&job_for(person, &machine)).await.unwrap().handle;
            setup.backend.cancel_for(&handle, Some(person)).await.unwrap();
        }
        let requests = setup.world.proxy.take_requests();
        keys.extend(
            requests
                .iter()
                .filter(|request| request.operation == "StartExecution")
                .map(|request| access_key(request).to_owned()),
        );
    }
    assert_eq!(keys.len(), people.len(), "people with the same name have separate sessions");

    let fault = Fault::ErrorResponse(400, "ExpiredTokenException", "The security token S3CRET is expired");
    setup.world.proxy.inject("StartExecution", fault);
    let error = setup.backend.start(&job_for(&people[0], &machine)).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Unavailable,
        "nothing was started, and the next attempt uses a new session: {error}"
    );
    assert!(!error.to_string().contains("S3CRET"), "{error}");
    setup.world.proxy.take_requests();
    let handle = setup.backend.start(&job_for(&people[0], &machine)).await.unwrap().handle;
    let requests = setup.world.proxy.take_requests();
    let role = form(requests.iter().find(|request| request.operation.is_empty()).expect("a new session"));
    assert!(role.iter().any(|(name, value)| name == "DurationSeconds" && value == "900"), "{role:?}");
    assert!(role.iter().all(|(name, _)| name != "SourceIdentity"), "{role:?}");
    setup.backend.cancel_for(&handle, Some(&people[0])).await.unwrap();
}

/// An answer is sent with the caller's session and is refused without a caller.
#[tokio::test(flavor = "multi_thread")]
async fn answer_is_sent_as_caller_only() {
    let setup = PerCallerSetup::new(json!({})).await;
    let name = taskbridge_sdk::suite::fresh_key().to_string();
    let activity = setup.world.aws.create_activity().name(&name).send().await.unwrap();
    let parameters = json!({
        "execution.$": "$$.Execution.Id", "message": "Ship it?",
        "schema": {"type": "object", "properties": {"ship": {"type": "boolean"}}},
    });
    let state = json!({
        "Type": "Task", "Resource": activity.activity_arn, "Parameters": parameters, "HeartbeatSeconds": 60, "TimeoutSeconds": 600,
        "End": true,
    });
    let machine = setup.world.machine(json!({"First": state})).await;
    let backend = backend_with_activities(&setup.world, &setup.dir, json!({}), &[&activity.activity_arn])
        .await
        .unwrap();
    let mut listener = tokio::task::JoinSet::new();
    listener.spawn({
        let backend = backend.clone();
        async move {
            while let Some(wakeups) = backend.abilities().wakeups {
                wakeups.next().await;
            }
        }
    });
    let ann = OnBehalfOf::named("ann");
    let handle = backend.start(&job_for(&ann, &machine)).await.unwrap().handle;
    let question =
        poll_until(&*backend, &handle, "a question", |observation| observation.questions.first().cloned())
            .await;
    let answer = Answer::Accept(json!({"ship": true}).as_object().unwrap().clone());
    let questions = backend.abilities().questions.unwrap();
    let error = questions.answer(&handle, &question.id, &answer).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let result = questions.answer_for(&handle, &question.id, &answer, Some(&ann)).await.unwrap();
    assert_eq!(result, AnswerOutcome::Accepted);
    let observation = poll_until_ended(&*backend, &handle).await;
    assert_eq!(output(&observation).structured, Some(json!({"ship": true})));
    for request in setup.world.proxy.take_requests() {
        let expected =
            ["StartExecution", "SendTaskSuccess"].contains(&request.operation.as_str()).then_some("ann");
        assert_eq!(signer(&request).await.as_deref(), expected, "{}", request.operation);
    }
}

/// The checkup assumes the role. If that is denied, it shows the trust policy that the role needs.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_role_and_trust_policy() {
    let setup =
        PerCallerSetup::new(json!({"external_id": "x-7", "session_tags": {"user": "{{ name }}"}})).await;
    let checkup = setup.backend.abilities().checkup.unwrap();
    let findings = checkup.check_up(&[]).await;
    let finding = findings.iter().find(|finding| finding.what == "per_caller").unwrap();
    assert!(finding.fix.is_none() && finding.says.contains("with the tags `user`"), "{findings:?}");
    let fault = Fault::ErrorResponse(403, "AccessDenied", "not authorized to perform: sts:TagSession");
    setup.world.proxy.inject("", fault);
    let denied_backend =
        backend(&setup.world, &setup.dir, json!({"session_tags": {"user": "{{ name }}"}})).await;
    let findings = denied_backend.unwrap().abilities().checkup.unwrap().check_up(&[]).await;
    let finding = findings.iter().find(|finding| finding.what == "per_caller").unwrap();
    assert!(finding.fix.is_some() && finding.says.contains("sts:TagSession"), "{findings:?}");
    let trust = findings.iter().find(|finding| finding.what == "trust policy").unwrap().fix.clone().unwrap();
    let trust: Value = serde_json::from_str(&trust).unwrap();
    assert_eq!(
        trust["Statement"][0]["Action"],
        json!(["sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"])
    );
    assert!(trust["Statement"][0]["Principal"]["AWS"].as_str().unwrap().starts_with("arn:aws:"), "{trust}");
}
