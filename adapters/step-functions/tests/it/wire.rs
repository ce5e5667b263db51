//! Tests of the requests on the wire: who signs them, that each is sent once, and how responses are handled
//! that no emulator gives.

use std::collections::HashMap;
use std::error::Error as _;
use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::{ErrorKind, JobSpec, Trace};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::harness::proxy::{Fault, RecordedRequest};
use crate::harness::standin::Kind;
use crate::harness::world::{KEY, REGION, SECRET, World, connect, output, poll_until_ended, start};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// HMAC with SHA-256 (RFC 2104), for keys of at most one block.
fn hmac(key: &[u8], message: &str) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().to_vec()
}

/// Returns the required signature of a request, according to AWS's description of Signature Version 4.
fn signature(request: &RecordedRequest, signed_headers: &str, secret: &str) -> String {
    let date = &request.headers["x-amz-date"];
    let day = &date[..8];
    let headers: String =
        signed_headers.split(';').map(|name| format!("{name}:{}\n", request.headers[name])).collect();
    let canonical =
        format!("POST\n/\n\n{headers}\n{signed_headers}\n{}", hex(&Sha256::digest(&request.body)));
    let scope = format!("{day}/{REGION}/states/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut key = hmac(format!("AWS4{secret}").as_bytes(), day);
    for part in [REGION, "states", "aws4_request"] {
        key = hmac(&key, part);
    }
    hex(&hmac(&key, &text))
}

/// Returns an address without a listener.
async fn unused_address() -> String {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    format!("http://{address}")
}

/// Every request has a valid signature of the credentials of the configured profile.
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_signed_with_configured_profile() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    world.backend.start(&start(&machine, json!({"ä": "ö"}))).await.unwrap();
    let requests = world.proxy.take_requests();
    assert!(requests.len() >= 2);
    for request in requests {
        let authorization = &request.headers["authorization"];
        let rest = authorization.strip_prefix("AWS4-HMAC-SHA256 ").unwrap();
        let parts: HashMap<&str, &str> = rest.split(", ").map(|part| part.split_once('=').unwrap()).collect();
        assert!(parts["Credential"].starts_with(&format!("{KEY}/")), "{authorization}");
        for needed in ["host", "x-amz-date", "x-amz-target"] {
            assert!(parts["SignedHeaders"].split(';').any(|name| name == needed), "{authorization}");
        }
        assert_eq!(
            parts["Signature"],
            signature(&request, parts["SignedHeaders"], SECRET),
            "{}",
            request.operation
        );
    }
}

/// Calls are signed with the credentials of the assumed role. Without the role, nothing is started.
#[tokio::test(flavor = "multi_thread")]
async fn assumed_role_credentials_sign_calls() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    let dir = tempfile::tempdir().unwrap();
    let endpoint = format!("http://127.0.0.1:{}", world.proxy.port);
    let file = format!(
        "[profile role]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\nservices = here\n\n\
         [services here]\nsts =\n  endpoint_url = {endpoint}\n"
    );
    fs::write(dir.path().join("role"), file).unwrap();
    let mut config = json!({
        "region": REGION, "profile": "role", "config_file": "role", "endpoint": endpoint,
        "assume_role": {"role_arn": "arn:aws:iam::000000000000:role/bridge", "external_id": "x-7"},
    });
    let backend = connect(&dir, config.clone()).await.unwrap();
    backend.start(&start(&machine, json!({}))).await.unwrap();
    let requests = world.proxy.take_requests();
    // While the role cannot be requested, nothing can be started. The backend still connects.
    let unreachable_config =
        fs::read_to_string(dir.path().join("role")).unwrap().replace(&endpoint, &unused_address().await);
    fs::write(dir.path().join("away"), unreachable_config).unwrap();
    config["config_file"] = json!("away");
    let backend = connect(&dir, config).await.unwrap();
    let error = backend.start(&start(&machine, json!({}))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    let body = String::from_utf8_lossy(&requests[0].body).into_owned();
    for part in ["Action=AssumeRole", "role%2Fbridge", "RoleSessionName=taskbridge", "ExternalId=x-7"] {
        assert!(body.contains(part), "{body}");
    }
    let start_request = requests.iter().find(|request| request.operation == "StartExecution").unwrap();
    assert!(start_request.headers.contains_key("x-amz-security-token"), "{:?}", start_request.headers);
    assert!(!start_request.headers["authorization"].contains(KEY), "signed as the role");
}

/// A backend whose profile is unknown or has no credentials cannot connect.
#[tokio::test(flavor = "multi_thread")]
async fn missing_credentials_refuse_backend_at_startup() {
    let dir = tempfile::tempdir().unwrap();
    for profile in ["nobody", "empty"] {
        fs::write(dir.path().join("other"), "[profile empty]\nregion = us-east-1\n").unwrap();
        let config = json!({"region": REGION, "profile": profile, "config_file": "other"});
        let Err(error) = connect(&dir, config).await else { panic!("{profile} has no credentials") };
        assert!(matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unavailable), "{error}");
        assert!(error.to_string().contains("credentials"), "{error}");
    }
}

/// Starts a metadata service on 127.0.0.1. It issues a token if `gives_tokens` is set, and refuses everything
/// else with a long response.
#[expect(clippy::disallowed_methods, reason = "it serves while the test sends requests")]
async fn metadata_service(gives_tokens: bool) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut buffer = vec![0; 4096];
            let read = client.read(&mut buffer).await.unwrap_or(0);
            let is_token = gives_tokens && buffer[..read].starts_with(b"PUT ");
            let head = if is_token {
                "200 OK\r\nx-aws-ec2-metadata-token-ttl-seconds: 600"
            } else {
                "403 Forbidden"
            };
            let body = if is_token { "t".to_owned() } else { "<p>Forbidden</p>".repeat(40) };
            let response = format!(
                "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = client.write_all(response.as_bytes()).await;
        }
    });
    (address, server)
}

/// The error contains all that an operator sees: the message, and its cause in the log.
#[tokio::test(flavor = "multi_thread")]
async fn refusing_metadata_service_is_named() {
    for (gives_tokens, expected) in [(true, "answered HTTP 403"), (false, "gives no session token")] {
        let (address, server) = metadata_service(gives_tokens).await;
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("imds"), format!("[default]\nec2_metadata_service_endpoint = {address}\n"))
            .unwrap();
        let config = json!({"region": REGION, "config_file": "imds"});
        let Err(error) = connect(&dir, config).await else { panic!("there are no credentials") };
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let (message, source) = (error.to_string(), error.source().map(ToString::to_string));
        assert!(message.contains(expected) && message.contains("attach a role to this machine"), "{message}");
        let all = format!("{message}{}", source.unwrap_or_default());
        assert!(all.len() < 400 && !all.contains("Forbidden") && !all.contains("server's log"), "{all}");
        server.abort();
    }
}

/// A start that fails is sent once, and its error kind says whether it may have started.
#[tokio::test(flavor = "multi_thread")]
async fn failed_start_is_not_retried() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
    let job = start(&machine, json!({}));
    for (fault, kind) in [
        (Fault::ErrorResponse(503, "ServiceUnavailable", ""), ErrorKind::Unavailable),
        (
            Fault::ErrorResponse(400, "ThrottlingException", "Rate exceeded"),
            ErrorKind::Limited { after: None },
        ),
        (Fault::ErrorResponse(500, "InternalFailure", ""), ErrorKind::Uncertain),
        (
            Fault::ErrorResponse(403, "ExpiredTokenException", "The token S3CRET is expired"),
            ErrorKind::Denied,
        ),
        (Fault::ErrorResponse(400, "AccessDeniedException", "not authorized to perform"), ErrorKind::Denied),
        (Fault::ErrorResponse(400, "ExecutionLimitExceeded", "too many"), ErrorKind::Limited { after: None }),
        (Fault::ErrorResponse(400, "InvalidExecutionInput", "bad input"), ErrorKind::Rejected),
        (Fault::ReplyLost, ErrorKind::Uncertain),
    ] {
        world.proxy.inject("StartExecution", fault);
        let error = world.backend.start(&start(&machine, json!({}))).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!error.to_string().contains("S3CRET"), "{error}");
        assert_eq!(world.proxy.take_counts().get("StartExecution"), Some(&1), "{error}");
    }
    // If the first start is uncertain, an unanswered second start does not change that.
    world.proxy.inject("StartExecution", Fault::ReplyLost);
    let retry = JobSpec { may_exist: true, ..job };
    assert_eq!(world.backend.start(&retry).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let handle = world.backend.start(&retry).await.unwrap().handle;
    world.backend.cancel(&handle).await.unwrap();
}

/// After `call_timeout`, a start is uncertain, and other calls are unavailable.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_call_times_out() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
    let handle = world.backend.start(&start(&machine, json!({}))).await.unwrap().handle;
    let short_timeout_backend = world.connect_another(json!({"call_timeout": "2s"})).await;
    let description = json!({
        "stateMachineArn": machine, "name": "m", "type": "STANDARD", "definition": "{}", "roleArn": "r", "creationDate": 1.5e9,
    });
    world.proxy.inject("DescribeStateMachine", Fault::Response(description));
    for operation in ["StartExecution", "DescribeExecution", "StopExecution"] {
        world.proxy.inject(operation, Fault::NoResponse);
    }
    let job = start(&machine, json!({}));
    let (started, observed, stopped) = tokio::join!(
        short_timeout_backend.start(&job),
        short_timeout_backend.observe(&handle),
        short_timeout_backend.cancel(&handle)
    );
    assert_eq!(started.unwrap_err().kind(), ErrorKind::Uncertain);
    assert_eq!(observed.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Unavailable);
    world.backend.cancel(&handle).await.unwrap();
}

/// A start whose connection is refused is unavailable, not uncertain.
#[tokio::test(flavor = "multi_thread")]
async fn refused_connection_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = unused_address().await;
    let config = json!({"region": REGION, "profile": "tester", "config_file": "aws", "endpoint": endpoint});
    let backend = connect(&dir, config).await.unwrap();
    let error =
        backend.start(&start("arn:aws:states:us-east-1:000000000000:stateMachine:m", json!({}))).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

/// An existing execution with the name of the job is the job only if its input is equal.
#[tokio::test(flavor = "multi_thread")]
async fn taken_name_must_have_equal_input() {
    for kind in [Kind::LocalStack, Kind::MiniStack] {
        let world = World::new(kind).await;
        let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
        let job = start(&machine, json!({"a": 1, "b": 2}));
        let other = world.aws.start_execution().state_machine_arn(&machine).name(job.key.as_str());
        other.input(r#"{"a": 7}"#).send().await.unwrap();
        let error = world.backend.start(&job).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Uncertain, "{kind:?}: {error}");
        assert!(error.to_string().contains("another input"), "{error}");

        let job = start(&machine, json!({"a": 1, "b": 2}));
        let same = world.aws.start_execution().state_machine_arn(&machine).name(job.key.as_str());
        same.input(r#"{ "b": 2, "a": 1 }"#).send().await.unwrap();
        let retry = JobSpec { may_exist: true, ..job };
        let handle = world.backend.start(&retry).await.unwrap().handle;
        assert_eq!(
            output(&poll_until_ended(&*world.backend, &handle).await).structured,
            Some(json!({"a": 1, "b": 2}))
        );
    }
}

/// A stop that AWS refuses succeeds only if the execution has ended.
#[tokio::test(flavor = "multi_thread")]
async fn stop_of_ended_execution_succeeds() {
    let world = World::new(Kind::MiniStack).await;
    let refused = || Fault::ErrorResponse(400, "ValidationException", "The execution has ended");
    let passing_machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    let handle = world.backend.start(&start(&passing_machine, json!({}))).await.unwrap().handle;
    poll_until_ended(&*world.backend, &handle).await;
    world.proxy.inject("StopExecution", refused());
    world.backend.cancel(&handle).await.unwrap();

    let waiting_machine =
        world.machine(json!({"First": {"Type": "Wait", "Seconds": 600, "End": true}})).await;
    let handle = world.backend.start(&start(&waiting_machine, json!({}))).await.unwrap().handle;
    world.proxy.inject("StopExecution", refused());
    let error = world.backend.cancel(&handle).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "it still runs: {error}");
    world.backend.cancel(&handle).await.unwrap();
}

/// A machine that does not exist or is in another region is a config error.
#[tokio::test(flavor = "multi_thread")]
async fn machine_is_found_by_name() {
    for kind in [Kind::LocalStack, Kind::MiniStack] {
        let world = World::new(kind).await;
        let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
        let name = machine.rsplit(':').next().unwrap();
        let handle = world.backend.start(&start(name, json!({}))).await.unwrap().handle;
        poll_until_ended(&*world.backend, &handle).await;

        let missing = |region: &str| machine.replace(name, "no-such-machine").replace(REGION, region);
        for (machine, part) in [
            ("no-such-machine".to_owned(), "no state machine `no-such-machine`"),
            (missing(REGION), "DescribeStateMachine"),
            (missing("eu-west-1"), "another region"),
        ] {
            let error = world.backend.start(&start(&machine, json!({}))).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{kind:?}: {error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

/// After a start finds no machine, the next start describes the machine again.
#[tokio::test(flavor = "multi_thread")]
async fn replaced_machine_is_described_again() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    world.backend.start(&start(&machine, json!({}))).await.unwrap();
    let fault = Fault::ErrorResponse(400, "StateMachineDoesNotExist", "State Machine Does Not Exist");
    world.proxy.inject("StartExecution", fault);
    let error = world.backend.start(&start(&machine, json!({}))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    world.proxy.take_counts();
    world.backend.start(&start(&machine, json!({}))).await.unwrap();
    assert_eq!(world.proxy.take_counts().get("DescribeStateMachine"), Some(&1));
}

/// A start whose reply was lost is found again after its state machine was deleted.
#[tokio::test(flavor = "multi_thread")]
async fn lost_start_survives_machine_deletion() {
    let world = World::new(Kind::LocalStack).await;
    let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    let job = start(&machine, json!({"a": 1}));
    world.proxy.inject("StartExecution", Fault::ReplyLost);
    assert_eq!(world.backend.start(&job).await.unwrap_err().kind(), ErrorKind::Uncertain);
    world.aws.delete_state_machine().state_machine_arn(&machine).send().await.unwrap();
    let retry = JobSpec { may_exist: true, ..job.clone() };
    // One server knew the state machine, the other never did.
    for backend in [world.backend.clone(), world.connect_another(json!({})).await] {
        let handle = backend.start(&retry).await.unwrap().handle;
        assert_eq!(backend.find(&job).await.unwrap().unwrap().handle, handle);
        assert_eq!(output(&poll_until_ended(&*backend, &handle).await).structured, Some(json!({"a": 1})));
    }
    let never_started = JobSpec { may_exist: true, ..start(&machine, json!({})) };
    let error = world.connect_another(json!({})).await.start(&never_started).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("StateMachineDoesNotExist"), "{error}");
}

/// The execution gets the input that the target maps and the trace of the job.
#[tokio::test(flavor = "multi_thread")]
async fn execution_gets_mapped_input_and_trace() {
    let world = World::new(Kind::MiniStack).await;
    let machine = world.machine(json!({"First": {"Type": "Pass", "End": true}})).await;
    let mut job = start(&machine, json!({"rows": 3}));
    job.target["input"] = json!({"count": "{{ rows }}", "who": "{{ taskbridge.job }}", "left": "{{ out }}"});
    job.trace = Trace::new("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", None);
    let handle = world.backend.start(&job).await.unwrap().handle;
    let observation = poll_until_ended(&*world.backend, &handle).await;
    assert_eq!(output(&observation).structured, Some(json!({"count": 3, "who": job.key.as_str()})));
    let requests = world.proxy.take_requests();
    let start_request = requests.iter().find(|request| request.operation == "StartExecution").unwrap();
    let body: Value = serde_json::from_slice(&start_request.body).unwrap();
    assert_eq!(
        body["traceHeader"],
        "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=00f067aa0ba902b7;Sampled=1"
    );
    assert_eq!(body["name"], job.key.as_str());
}
