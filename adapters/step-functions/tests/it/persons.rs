//! Tests of sessions of callers: AWS sees the person in changes and the bridge in reads, and never one person
//! in place of another. The emulator reports the session of a request by the access key that signed it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Backend, ErrorKind, JobHandle, JobSpec, OnBehalfOf, Result, Taken};

use crate::proxy::{Asked, Fault};
use crate::standin::{Kind, Standin};
use crate::world::{KEY, REGION, SECRET, World, connect, ended, output, start, until};

const ROLE: &str = "arn:aws:iam::000000000000:role/people";

/// Backend that acts on behalf of people, and its folder.
struct Personal {
    world: World,
    dir: tempfile::TempDir,
    backend: Arc<dyn Backend>,
}

impl Personal {
    async fn new(more: Value) -> Self {
        let world = World::new(Kind::MiniStack).await;
        let dir = tempfile::tempdir().unwrap();
        let backend = backend(&world, &dir, more).await.unwrap();
        world.proxy.asked();
        Self { world, dir, backend }
    }

    async fn waits(&self) -> String {
        self.world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await
    }
}

async fn backend(world: &World, dir: &tempfile::TempDir, more: Value) -> Result<Arc<dyn Backend>> {
    asking(world, dir, more, &[]).await
}

/// Connects a backend with activities that ask.
async fn asking(
    world: &World,
    dir: &tempfile::TempDir,
    more: Value,
    activities: &[&str],
) -> Result<Arc<dyn Backend>> {
    let endpoint = format!("http://127.0.0.1:{}", world.proxy.port);
    let file = format!(
        "[profile bridge]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\nservices = here\n\n\
         [services here]\nsts =\n  endpoint_url = {endpoint}\n"
    );
    fs::write(dir.path().join("bridge"), file).unwrap();
    let mut per_caller = json!({"role_arn": ROLE});
    per_caller.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = json!({
        "region": REGION, "profile": "bridge", "config_file": "bridge", "endpoint": endpoint, "call_timeout": "60s",
        "per_caller": per_caller, "activities": activities, "heartbeat": "1s",
    });
    connect(dir, config).await
}

fn told(name: &str, subject: &str) -> OnBehalfOf {
    let (issuer, subject) = (Some("https://id.example".to_owned()), Some(subject.to_owned()));
    OnBehalfOf { issuer, subject, ..OnBehalfOf::named(name) }
}

fn of(whom: &OnBehalfOf, machine: &str) -> JobSpec {
    JobSpec { on_behalf_of: Some(whom.clone()), ..start(machine, json!({})) }
}

fn key(asked: &Asked) -> &str {
    let authorization = &asked.headers["authorization"];
    authorization.split_once("Credential=").unwrap().1.split('/').next().unwrap()
}

/// Returns the signer of a request according to the emulator: the name of the session, or `None` for the
/// bridge itself.
async fn signer(asked: &Asked) -> Option<String> {
    let port = tokio::task::block_in_place(|| Standin::shared(Kind::MiniStack)).port;
    let key = key(asked);
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
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    let arn =
        answer.split_once("<Arn>").unwrap_or_else(|| panic!("{answer}")).1.split("</Arn>").next().unwrap();
    let session = arn.strip_prefix("arn:aws:sts::000000000000:assumed-role/people/");
    Some(session.unwrap_or_else(|| panic!("{arn}")).to_owned())
}

/// Returns the decoded form of a request for a role.
fn form(asked: &Asked) -> Vec<(String, String)> {
    let body = String::from_utf8(asked.body.clone()).unwrap();
    body.split('&')
        .map(|pair| pair.split_once('=').unwrap())
        .map(|(name, value)| (name.to_owned(), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
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
    let personal = Personal::new(tags).await;
    let machine = personal.waits().await;
    let mut ann = OnBehalfOf::named("ann");
    ann.groups = ["data".to_owned(), "ml:ops".to_owned()].into();
    let bob = told("Bob B&RoleSessionName=ann", "7");
    for whom in [&ann, &bob] {
        let handle = personal.backend.start(&of(whom, &machine)).await.unwrap().handle;
        personal.backend.observe(&handle).await.unwrap();
        personal.backend.cancel_for(&handle, Some(whom)).await.unwrap();
    }
    let asked = personal.world.proxy.asked();
    let roles: Vec<_> = asked.iter().filter(|one| one.operation.is_empty()).map(form).collect();
    assert_eq!(roles.len(), 2, "each session is asked for once");
    let said = |at: usize, name: &str| {
        roles[at].iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(
        (
            said(0, "RoleSessionName"),
            said(0, "SourceIdentity"),
            said(0, "DurationSeconds"),
            said(0, "RoleArn")
        ),
        (Some("ann"), Some("ann"), Some("3600"), Some(ROLE))
    );
    assert_eq!((said(0, "Tags.member.1.Key"), said(0, "Tags.member.2.Key")), (Some("team"), Some("user")));
    assert!(said(0, "Tags.member.1.Value").unwrap().starts_with(":data:ml-ops-"), "{:?}", roles[0]);
    assert_eq!((said(0, "Tags.member.2.Value"), said(0, "Tags.member.3.Key")), (Some("ann"), None));
    let session = said(1, "RoleSessionName").unwrap();
    assert!(session.starts_with("Bob-B-RoleSessionName=ann-") && session.len() == 42, "{session}");
    assert_eq!(roles[1].iter().filter(|(name, _)| name == "RoleSessionName").count(), 1);

    let mut seen = Vec::new();
    for one in asked.iter().filter(|one| !one.operation.is_empty()) {
        seen.push((one.operation.as_str(), signer(one).await));
    }
    let who = |operation: &str| -> Vec<Option<&str>> {
        seen.iter().filter(|(name, _)| *name == operation).map(|(_, who)| who.as_deref()).collect()
    };
    for operation in ["StartExecution", "StopExecution"] {
        assert_eq!(who(operation), [Some("ann"), Some(session)], "{operation}");
    }
    let acts = ["StartExecution", "StopExecution"];
    assert!(seen.iter().all(|(name, who)| acts.contains(name) || who.is_none()), "{seen:?}");
    assert!(seen.iter().any(|(name, _)| *name == "DescribeExecution"), "{seen:?}");
}

/// Without a caller or a role, nothing is done, and the backend's own credentials are not used.
#[tokio::test(flavor = "multi_thread")]
async fn action_without_caller_role_is_refused() {
    let personal = Personal::new(json!({"session_tags": {"team": "{{ groups }}"}})).await;
    let machine = personal.waits().await;
    let job = start(&machine, json!({}));
    let error = personal.backend.start(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains("`per_caller`"), "{error}");
    let handle = JobHandle::new(machine.replace(":stateMachine:", ":execution:") + ":somebodys");
    for whom in [
        None,
        Some(&OnBehalfOf {
            groups: (0..40).map(|n| format!("group-{n:04}")).collect(),
            ..OnBehalfOf::named("cid")
        }),
    ] {
        let error = personal.backend.cancel_for(&handle, whom).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Rejected), "{error}");
    }
    assert_eq!(personal.backend.cancel(&handle).await.unwrap_err().kind(), ErrorKind::Denied);
    assert!(personal.world.proxy.asked().iter().all(|one| one.operation.starts_with("Describe")));

    // If the role is refused, the bridge's own credentials are not used instead.
    let ann = OnBehalfOf::named("ann");
    for (fault, kind) in [
        (
            Fault::Answered(403, "AccessDenied", "not authorized to perform: sts:AssumeRole"),
            ErrorKind::Denied,
        ),
        (Fault::Answered(400, "PackedPolicyTooLarge", "too large"), ErrorKind::Rejected),
        (Fault::Answered(503, "ServiceUnavailable", ""), ErrorKind::Unavailable),
        (Fault::ReplyLost, ErrorKind::Unavailable),
    ] {
        personal.world.proxy.make("", fault);
        let error = personal.backend.start(&of(&ann, &machine)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().starts_with("AssumeRole: "), "{error}");
        let acts = personal.world.proxy.asked().into_iter().filter(|one| one.operation == "StartExecution");
        assert_eq!(acts.count(), 0, "{error}");
    }
    // An execution from an earlier attempt is still found.
    let job = of(&ann, &machine);
    let handle = personal.backend.start(&job).await.unwrap().handle;
    let other = backend(&personal.world, &personal.dir, json!({})).await.unwrap();
    let again = JobSpec { may_exist: true, on_behalf_of: None, ..job };
    assert_eq!(other.start(&again).await.unwrap().handle, handle);
    let never = JobSpec { may_exist: true, ..start(&machine, json!({})) };
    assert_eq!(other.start(&never).await.unwrap_err().kind(), ErrorKind::Uncertain);
    personal.backend.cancel_for(&handle, Some(&ann)).await.unwrap();
}

/// Each caller keeps one session. A session that AWS rejects is replaced for the next attempt.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_session_is_not_reused() {
    let personal = Personal::new(json!({"session_duration": "15m", "source_identity": false})).await;
    let machine = personal.waits().await;
    let people = [OnBehalfOf::named("ann"), told("ann", "1"), told("ann", "2")];
    let mut keys = BTreeSet::new();
    for _ in 0..2 {
        for whom in &people {
            let handle = personal.backend.start(&of(whom, &machine)).await.unwrap().handle;
            personal.backend.cancel_for(&handle, Some(whom)).await.unwrap();
        }
        let asked = personal.world.proxy.asked();
        keys.extend(
            asked.iter().filter(|one| one.operation == "StartExecution").map(|one| key(one).to_owned()),
        );
    }
    assert_eq!(keys.len(), people.len(), "three people of one name have three sessions, and keep them");

    let fault = Fault::Answered(400, "ExpiredTokenException", "The security token S3CRET is expired");
    personal.world.proxy.make("StartExecution", fault);
    let error = personal.backend.start(&of(&people[0], &machine)).await.unwrap_err();
    assert_eq!(
        error.kind(),
        ErrorKind::Unavailable,
        "nothing was started, and the next attempt has a session: {error}"
    );
    assert!(!error.to_string().contains("S3CRET"), "{error}");
    personal.world.proxy.asked();
    let handle = personal.backend.start(&of(&people[0], &machine)).await.unwrap().handle;
    let asked = personal.world.proxy.asked();
    let role = form(asked.iter().find(|one| one.operation.is_empty()).expect("a new session"));
    assert!(role.iter().any(|(name, value)| name == "DurationSeconds" && value == "900"), "{role:?}");
    assert!(role.iter().all(|(name, _)| name != "SourceIdentity"), "{role:?}");
    personal.backend.cancel_for(&handle, Some(&people[0])).await.unwrap();
}

/// An answer is sent with the caller's session and is refused without a caller.
#[tokio::test(flavor = "multi_thread")]
async fn answer_is_sent_as_caller_only() {
    let personal = Personal::new(json!({})).await;
    let name = taskbridge_sdk::suite::fresh_key().to_string();
    let made = personal.world.aws.create_activity().name(&name).send().await.unwrap();
    let said = json!({
        "execution.$": "$$.Execution.Id", "message": "Ship it?",
        "schema": {"type": "object", "properties": {"ship": {"type": "boolean"}}},
    });
    let asks = json!({
        "Type": "Task", "Resource": made.activity_arn, "Parameters": said, "HeartbeatSeconds": 60, "TimeoutSeconds": 600,
        "End": true,
    });
    let machine = personal.world.machine(json!({"First": asks})).await;
    let backend = asking(&personal.world, &personal.dir, json!({}), &[&made.activity_arn]).await.unwrap();
    let mut listening = tokio::task::JoinSet::new();
    listening.spawn({
        let backend = backend.clone();
        async move {
            while let Some(wakeups) = backend.wakeups() {
                wakeups.next().await;
            }
        }
    });
    let ann = OnBehalfOf::named("ann");
    let handle = backend.start(&of(&ann, &machine)).await.unwrap().handle;
    let question = until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
    let answer = Answer::Accept(json!({"ship": true}).as_object().unwrap().clone());
    let questions = backend.questions().unwrap();
    let refused = questions.answer(&handle, &question.id, &answer).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    let taken = questions.answer_for(&handle, &question.id, &answer, Some(&ann)).await.unwrap();
    assert_eq!(taken, Taken::Accepted);
    let seen = ended(&*backend, &handle).await;
    assert_eq!(output(&seen).structured, Some(json!({"ship": true})));
    for asked in personal.world.proxy.asked() {
        let wanted =
            ["StartExecution", "SendTaskSuccess"].contains(&asked.operation.as_str()).then_some("ann");
        assert_eq!(signer(&asked).await.as_deref(), wanted, "{}", asked.operation);
    }
}

/// The checkup assumes the role. If that is denied, it shows the trust policy that the role needs.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_role_and_trust_policy() {
    let personal = Personal::new(json!({"external_id": "x-7", "session_tags": {"user": "{{ name }}"}})).await;
    let checkup = personal.backend.checkup().unwrap();
    let fine = checkup.check_up(&[]).await;
    let found = fine.iter().find(|finding| finding.what == "per_caller").unwrap();
    assert!(found.fix.is_none() && found.says.contains("with the tags `user`"), "{fine:?}");
    let refused = Fault::Answered(403, "AccessDenied", "not authorized to perform: sts:TagSession");
    personal.world.proxy.make("", refused);
    let another =
        backend(&personal.world, &personal.dir, json!({"session_tags": {"user": "{{ name }}"}})).await;
    let faulty = another.unwrap().checkup().unwrap().check_up(&[]).await;
    let found = faulty.iter().find(|finding| finding.what == "per_caller").unwrap();
    assert!(found.fix.is_some() && found.says.contains("sts:TagSession"), "{faulty:?}");
    let trust = faulty.iter().find(|finding| finding.what == "trust policy").unwrap().fix.clone().unwrap();
    let trust: Value = serde_json::from_str(&trust).unwrap();
    assert_eq!(
        trust["Statement"][0]["Action"],
        json!(["sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"])
    );
    assert!(trust["Statement"][0]["Principal"]["AWS"].as_str().unwrap().starts_with("arn:aws:"), "{trust}");
}
