//! The real server and a stand-in for AWS Step Functions (LocalStack): a machine asks, the server is killed, and the
//! user's answer arrives all the same. The stand-in is installed by `tests/run --only standins`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{BASICS, Modern, Place};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A stand-in that runs. Its keeper stops it when its input ends, with this process at the latest.
struct Standin {
    http: reqwest::Client,
    url: String,
    _keeper: Child,
}

impl Standin {
    fn start() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let python = target.join("standins/localstack/bin/python");
        assert!(python.exists(), "LocalStack is not installed: run tests/run --only standins");
        let folder = tempfile::Builder::new().prefix("taskbridge-standin-").tempdir().unwrap().keep();
        let mut command = Command::new(python);
        command.arg("-B").arg(root.join("adapters/step-functions/tests/standins/serve.py"));
        command.arg("localstack").arg(&folder);
        // Out of the way of a signal that is meant for the tests.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut keeper = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let port = said.trim().strip_prefix("ready ").unwrap_or_else(|| panic!("it did not start: {log}"));
        Self { http: reqwest::Client::new(), url: format!("http://127.0.0.1:{port}"), _keeper: keeper }
    }

    /// A call of AWS. The stand-in looks at no signature.
    async fn call(&self, operation: &str, body: Value) -> Value {
        let (service, scope) = match operation {
            "CreateQueue" => ("AmazonSQS", "sqs"),
            _ => ("AWSStepFunctions", "states"),
        };
        let post = self.http.post(&self.url).header("x-amz-target", format!("{service}.{operation}"));
        let post = post.header("content-type", "application/x-amz-json-1.0");
        let credential = format!(
            "AWS4-HMAC-SHA256 Credential=AKIATEST/20260101/us-east-1/{scope}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let answer = post.header("authorization", credential).body(body.to_string()).send().await.unwrap();
        let text = answer.text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{operation}: {text}"))
    }

    /// A machine that asks by this state.
    async fn machine(&self, name: &str, mut state: Value) -> String {
        let again = json!(["States.HeartbeatTimeout", "States.Timeout"]);
        state["HeartbeatSeconds"] = json!(5);
        state["TimeoutSeconds"] = json!(600);
        state["Retry"] =
            json!([{"ErrorEquals": again, "IntervalSeconds": 1, "MaxAttempts": 99, "BackoffRate": 1}]);
        state["End"] = json!(true);
        let definition = json!({"StartAt": "Ask", "States": {"Ask": state}}).to_string();
        let role = "arn:aws:iam::000000000000:role/tests";
        let made = json!({"name": name, "definition": definition, "roleArn": role});
        self.call("CreateStateMachine", made).await["stateMachineArn"].as_str().unwrap().to_owned()
    }
}

fn config(standin: &Standin, queue: &str) -> String {
    let target = "arn:aws:states:us-east-1:000000000000:stateMachine";
    let tools: String = ["activity", "queue"]
        .map(|tool| {
            format!(
                "[tools.{tool}]\ndescription = \"Ships.\"\nbackend = \"aws\"\nparameters = {{}}\n\
                 target = {{ state_machine = \"{target}:{tool}\" }}\n"
            )
        })
        .concat();
    format!(
        "{BASICS}[reconciler]\nlease = \"6s\"\n[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\nprofile = \"tester\"\n\
         config_file = \"aws\"\nendpoint = \"{url}\"\ncall_timeout = \"2s\"\nheartbeat = \"1s\"\n\
         activities = [\"arn:aws:states:us-east-1:000000000000:activity:ask\"]\nqueue = \"{queue}\"\n{tools}",
        url = standin.url,
    )
}

/// The task, once it has this status.
async fn until(client: &Modern, id: &str, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let task = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
        if task["status"] == status {
            return task;
        }
        assert!(begun.elapsed() < PATIENCE, "never {status}: {task}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// True if this text is in any file that a server left.
fn is_kept(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_kept(&path, text);
        }
        fs::read(path).unwrap_or_default().windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_asks_is_answered_once_over_a_kill_and_no_token_is_kept() {
    let standin = tokio::task::block_in_place(Standin::start);
    let activity = standin.call("CreateActivity", json!({"name": "ask"})).await["activityArn"].clone();
    let queue = standin.call("CreateQueue", json!({"QueueName": "ask"})).await["QueueUrl"].clone();
    let said = json!({
        "execution.$": "$$.Execution.Id", "message": "Ship it?",
        "schema": {"type": "object", "properties": {"ship": {"type": "boolean"}}, "required": ["ship"]},
    });
    let by_activity = json!({"Type": "Task", "Resource": activity, "Parameters": said});
    let mut body = said;
    body["token.$"] = json!("$$.Task.Token");
    let by_queue = json!({
        "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": queue, "MessageBody": body},
    });
    let machines = [standin.machine("activity", by_activity).await, standin.machine("queue", by_queue).await];
    let place = Place::new(&config(&standin, &format!("{}/000000000000/ask", standin.url)));
    fs::write(
        place.path("aws"),
        "[profile tester]\naws_access_key_id = AKIATEST\naws_secret_access_key = s3cr3t\n",
    )
    .unwrap();

    let mut server = place.serve();
    let client = Modern::with_tasks(server.url());
    let mut asked = Vec::new();
    for tool in ["activity", "queue"] {
        let made = client.call(tool, &json!({}), json!({})).await.unwrap();
        let id = made["taskId"].as_str().unwrap().to_owned();
        let requests = until(&client, &id, "input_required").await["inputRequests"].clone();
        let (key, request) = requests.as_object().unwrap().iter().next().unwrap();
        assert_eq!(request["params"]["message"], "Ship it?");
        asked.push((id, key.clone()));
    }
    server.kill();
    let server = place.serve();
    let client = client.at(server.url());
    for (id, key) in &asked {
        let task = until(&client, id, "input_required").await;
        let keys: Vec<_> = task["inputRequests"].as_object().unwrap().keys().collect();
        assert_eq!(keys, [key], "the same question");
        for ship in [true, false] {
            let answer = json!({"action": "accept", "content": {"ship": ship}});
            let params = json!({"taskId": id, "inputResponses": {key: answer}});
            client.request("tasks/update", params).await.unwrap();
        }
    }
    for ((id, _), machine) in asked.iter().zip(&machines) {
        let task = until(&client, id, "completed").await;
        assert_eq!(
            task["result"]["structuredContent"],
            json!({"ship": true}),
            "the first answer stands: {task}"
        );
        let executions =
            standin.call("ListExecutions", json!({"stateMachineArn": machine})).await["executions"].clone();
        assert_eq!(executions.as_array().unwrap().len(), 1, "{executions}");
        let arn = executions[0]["executionArn"].clone();
        let history = standin.call("GetExecutionHistory", json!({"executionArn": arn})).await.to_string();
        if let Some((_, rest)) = history.split_once(r#"\"token\": \""#) {
            let token = rest.split('\\').next().unwrap();
            assert!(token.len() > 8 && !is_kept(place.path("").as_path(), token), "a token is kept");
        } else {
            assert!(machine.ends_with("activity"), "{history}");
        }
    }
    drop(server);
}
