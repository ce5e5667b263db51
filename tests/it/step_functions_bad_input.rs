//! Tests of faults around AWS Step Functions: at startup, in a call and in `doctor`. Each is reported once,
//! with a message that names the fix, and the server keeps running.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::aws::standin::Standin;
use crate::step_functions::{backend, test_dir};
use crate::support::{BASICS, Client, Fault, TestDir, text};

const MACHINE: &str = "arn:aws:states:us-east-1:000000000000:stateMachine";

/// Returns the config of a tool that starts this state machine.
fn tool(name: &str, machine: &str) -> String {
    format!(
        "[tools.{name}]\ndescription = \"Ships.\"\nbackend = \"aws\"\nparameters.what = {{ type = \"string\" }}\n\
         target = {{ state_machine = \"{machine}\" }}\n"
    )
}

/// Starts a server that answers each request with this AWS error and counts the requests. It runs until the
/// process ends.
fn start_error_server(
    status: &'static str,
    code: &'static str,
    message: &'static str,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::<AtomicUsize>::default();
    let counted = count.clone();
    std::thread::Builder::new()
        .spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                // One read is enough: the rest of a longer request does not matter.
                let _ = client.read(&mut [0; 65536]);
                counted.fetch_add(1, Ordering::Relaxed);
                let body = json!({"__type": code, "message": message}).to_string();
                let _ = write!(
                    client,
                    "HTTP/1.1 {status}\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        })
        .unwrap();
    (url, count)
}

async fn call_error(client: &Client, tool: &str, what: &str) -> String {
    match client.call(tool, json!({"what": what})).await {
        // A refusal by AWS is a failure of the tool. A fault of the setup is an error of the server.
        Ok(result) => {
            assert_eq!(result["isError"], true, "{result}");
            text(&result)
        }
        Err(Fault::Refused { message, .. }) => message,
        Err(fault) => panic!("{fault:?}"),
    }
}

/// `serve` fails with the reason, and `doctor` reports it as a fault.
#[tokio::test]
async fn invalid_aws_setup_prevents_start() {
    let aws = |more: &str| format!("{BASICS}[backends.aws]\nkind = \"step-functions\"\n{more}");
    for (config, parts) in [
        (aws(""), &["backends.aws", "no AWS region is set: set `region`"][..]),
        (aws("region = \"us-east-1\"\n"), &["backends.aws", "no AWS credentials were found: set `profile`"]),
        (
            aws("region = \"us-east-1\"\nprofile = \"nobody\"\nconfig_file = \"aws\"\n"),
            &["backends.aws", "credentials"],
        ),
        (
            format!("{}{}", aws("region = \"eu-west-1\"\n"), tool("ship", &format!("{MACHINE}:m"))),
            &["tools.ship.target.state_machine", "is in `us-east-1`, and the backend works in `eu-west-1`"],
        ),
        (
            aws("region = \"us-east-1\"\nhook_secret = { env = \"NOT_SET\" }\n"),
            &["hook_secret", "NOT_SET is not set"],
        ),
    ] {
        let dir = TestDir::new(&config);
        fs::write(dir.path("aws"), "[profile other]\nregion = us-east-1\n").unwrap();
        let command = |verb: &str| {
            let mut command = dir.command(verb);
            // Keeps the SDK from querying the metadata service of the machine that runs the tests.
            command.env("AWS_EC2_METADATA_DISABLED", "true");
            if config.contains("hook_secret") {
                command.env("AWS_ACCESS_KEY_ID", "AKIATEST").env("AWS_SECRET_ACCESS_KEY", "s3cr3t");
            }
            command
        };
        let served = dir.run(command("serve")).await;
        assert_eq!((served.code, served.stdout.as_str()), (Some(1), ""), "{served:?}");
        let doctor = dir.run(command("doctor")).await;
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        assert!(doctor.stdout.contains("fault    "), "{doctor:?}");
        for part in parts {
            assert!(served.stderr.contains(part), "no `{part}` in {served:?}");
        }
        assert!(doctor.stdout.contains(parts[1]), "no `{}` in {doctor:?}", parts[1]);
    }
}

/// The call fails with advice and without the credentials, and the server keeps running.
#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_fail_without_retry() {
    for (status, code, message, part) in [
        (
            "400 Bad Request",
            "ExpiredTokenException",
            "The token T0KEN is expired",
            "check that they have not expired",
        ),
        (
            "400 Bad Request",
            "AccessDeniedException",
            "not authorized to perform: states:DescribeStateMachine",
            "not authorized",
        ),
    ] {
        let (url, request_count) = start_error_server(status, code, message);
        let config = format!(
            "{BASICS}[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\nprofile = \"tester\"\nconfig_file = \"aws\"\n\
             endpoint = \"{url}\"\n{}",
            tool("ship", &format!("{MACHINE}:m"))
        );
        let dir = test_dir(&config);
        let server = dir.serve();
        let client = Client::open(server.url()).await.unwrap();
        let error = call_error(&client, "ship", "it").await;
        assert!(error.contains(code) && error.contains(part) && !error.contains("T0KEN"), "{error}");
        assert_eq!(request_count.load(Ordering::Relaxed), 1, "it is asked once");
        assert!(call_error(&client, "ship", "more").await.contains(code), "the server goes on");
        let doctor = dir.run(dir.command("doctor")).await;
        assert!(doctor.code == Some(1) && doctor.stdout.contains(code), "{doctor:?}");
        assert!(!doctor.stdout.contains("T0KEN") && !doctor.stdout.contains("s3cr3t"), "{doctor:?}");
        let log = fs::read_to_string(dir.path("server.log")).unwrap();
        assert!(!log.contains("s3cr3t"), "{log}");
    }
}

/// The same is true for an input that is too large. The doctor reports a missing state machine.
#[tokio::test(flavor = "multi_thread")]
async fn missing_machine_fails_only_its_calls() {
    let standin = Standin::shared();
    let deleted = standin.one_state("deleted", "", json!({"Type": "Pass"})).await;
    let tools: String = [
        tool("ships", &deleted),
        tool("unknown", &format!("{MACHINE}:nobody-made-it")),
        tool("unnamed", "nobody-made-it-either"),
    ]
    .concat();
    let config = backend(standin, "").replace("\"6s\"", "\"60s\"").replace("\"2s\"", "\"20s\"");
    let dir = test_dir(&format!("{config}{tools}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let large = "x".repeat(262_144);
    assert!(call_error(&client, "ships", &large).await.contains("Step Functions accepts at most 262144"));
    let result = client.call("ships", json!({"what": "it"})).await.unwrap();
    assert_eq!(result["structuredContent"], json!({"what": "it"}), "{result}");
    standin.call("DeleteStateMachine", json!({"stateMachineArn": deleted})).await;
    let error = call_error(&client, "ships", "it").await;
    assert!(error.contains("StateMachineDoesNotExist"), "{error}");
    let error = call_error(&client, "unknown", "it").await;
    assert!(error.contains("StateMachineDoesNotExist") && error.contains("nobody-made-it"), "{error}");
    let error = call_error(&client, "unnamed", "it").await;
    assert!(
        error.contains("there is no state machine `nobody-made-it-either` in the region `us-east-1`"),
        "{error}"
    );

    let mut command = dir.command("doctor");
    command.arg("--json");
    let doctor = tokio::time::timeout(Duration::from_secs(120), dir.run(command)).await.unwrap();
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    let findings: Vec<Value> = serde_json::from_str(&doctor.stdout).unwrap();
    for name in ["ships", "unknown", "unnamed"] {
        let what = format!("tool `{name}`");
        let finding =
            findings.iter().find(|entry| entry["of"] == "backend aws" && entry["what"] == what).unwrap();
        assert_eq!(finding["verdict"], "fault", "{finding}");
        assert!(finding["fix"].as_str().unwrap().contains("create the state machine"), "{finding}");
    }
}
