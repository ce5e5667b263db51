//! Tests the real server with a stand-in for AWS Step Functions (LocalStack). A state machine asks a
//! question, the server is killed, and the user's answer still arrives. State machines appear and disappear
//! as tools. `tests/run --only standins` installs the stand-in.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::aws::standin::Standin;
use crate::support::{BASICS, Client, ModernClient, TestDir, text};

/// Timeout of a step, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

fn config(standin: &Standin, queue: &str) -> String {
    let more = format!(
        "heartbeat = \"1s\"\nactivities = [\"arn:aws:states:us-east-1:000000000000:activity:ask\"]\nqueue = \"{queue}\"\n"
    );
    let target = "arn:aws:states:us-east-1:000000000000:stateMachine";
    let tools: String = ["activity", "queue"]
        .map(|tool| {
            format!(
                "[tools.{tool}]\ndescription = \"Ships.\"\nbackend = \"aws\"\nparameters = {{}}\n\
                 target = {{ state_machine = \"{target}:{tool}\" }}\n"
            )
        })
        .concat();
    format!("{}{tools}", backend(standin, &more))
}

pub(crate) fn backend(standin: &Standin, more: &str) -> String {
    format!(
        "{BASICS}[reconciler]\nlease = \"6s\"\n[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\nprofile = \"tester\"\n\
         config_file = \"aws\"\nendpoint = \"{url}\"\ncall_timeout = \"2s\"\n{more}",
        url = standin.url,
    )
}

/// Creates a server's folder with this config, and with credentials that the stand-in accepts.
pub(crate) fn test_dir(config: &str) -> TestDir {
    let dir = TestDir::new(config);
    let credentials = "[profile tester]\naws_access_key_id = AKIATEST\naws_secret_access_key = s3cr3t\n";
    fs::write(dir.path("aws"), credentials).unwrap();
    dir
}

/// Returns the task once it has this status.
pub(crate) async fn wait_for_status(client: &ModernClient, id: &str, status: &str) -> Value {
    let started = Instant::now();
    loop {
        let task = client.request("tasks/get", json!({"taskId": id})).await.unwrap();
        if task["status"] == status {
            return task;
        }
        assert!(started.elapsed() < TIMEOUT, "never {status}: {task}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Reports whether any file that a server left contains this text.
fn is_stored(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_stored(&path, text);
        }
        fs::read(path).unwrap_or_default().windows(text.len()).any(|part| part == text.as_bytes())
    })
}

/// The question stays the same, the machine gets only the first answer, and no task token is stored.
#[tokio::test(flavor = "multi_thread")]
async fn machine_question_survives_kill() {
    let standin = Standin::shared();
    let activity = standin.call("CreateActivity", json!({"name": "ask"})).await["activityArn"].clone();
    let queue = standin.call("CreateQueue", json!({"QueueName": "ask"})).await["QueueUrl"].clone();
    let question = json!({
        "execution.$": "$$.Execution.Id", "message": "Ship it?",
        "schema": {"type": "object", "properties": {"ship": {"type": "boolean"}}, "required": ["ship"]},
    });
    let by_activity = json!({"Type": "Task", "Resource": activity, "Parameters": question});
    let mut body = question;
    body["token.$"] = json!("$$.Task.Token");
    let by_queue = json!({
        "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": queue, "MessageBody": body},
    });
    let machines = [
        standin.question_machine("activity", by_activity).await,
        standin.question_machine("queue", by_queue).await,
    ];
    let dir = test_dir(&config(standin, &format!("{}/000000000000/ask", standin.url)));

    let mut server = dir.serve();
    let client = ModernClient::with_tasks(server.url());
    let mut questions = Vec::new();
    for tool in ["activity", "queue"] {
        let created = client.call(tool, &json!({}), json!({})).await.unwrap();
        let id = created["taskId"].as_str().unwrap().to_owned();
        let requests = wait_for_status(&client, &id, "input_required").await["inputRequests"].clone();
        let (key, request) = requests.as_object().unwrap().iter().next().unwrap();
        assert_eq!(request["params"]["message"], "Ship it?");
        questions.push((id, key.clone()));
    }
    server.kill();
    let server = dir.serve();
    let client = client.at(server.url());
    for (id, key) in &questions {
        let task = wait_for_status(&client, id, "input_required").await;
        let keys: Vec<_> = task["inputRequests"].as_object().unwrap().keys().collect();
        assert_eq!(keys, [key], "the same question");
        for ship in [true, false] {
            let answer = json!({"action": "accept", "content": {"ship": ship}});
            let params = json!({"taskId": id, "inputResponses": {key: answer}});
            client.request("tasks/update", params).await.unwrap();
        }
    }
    for ((id, _), machine) in questions.iter().zip(&machines) {
        let task = wait_for_status(&client, id, "completed").await;
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
            assert!(token.len() > 8 && !is_stored(dir.path("").as_path(), token), "a token is kept");
        } else {
            assert!(machine.ends_with("activity"), "{history}");
        }
    }
    drop(server);
}

/// A new state machine becomes a tool. After its deletion the tool is gone, and a running task still ends.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_machine_keeps_its_tasks() {
    let standin = Standin::shared();
    let discover =
        "[backends.aws.discover]\nevery = \"300ms\"\nstarting_with = \"comes-\"\nprefix = \"aws-\"\n";
    let config = backend(standin, discover).replace("\"6s\"", "\"60s\"").replace("\"2s\"", "\"20s\"");
    let dir = test_dir(&config);
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let mut stream = client.listen().await.unwrap();
    let wait_for_change = async |stream: &mut crate::support::Events| {
        let list_changed = async {
            while stream.next().await.unwrap().unwrap()["method"] != "notifications/tools/list_changed" {}
        };
        tokio::time::timeout(TIMEOUT, list_changed).await.expect("the list changed");
    };
    let schema = json!({"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]});
    let comment = format!("Builds the report of a day. ```{schema}```");
    let waits = json!({"Type": "Wait", "SecondsPath": "$.seconds"});
    let machine = standin.one_state("comes-and-goes", &comment, json!({"Type": "Wait", "Seconds": 4})).await;
    standin.one_state("stays", "Another.", waits).await;
    wait_for_change(&mut stream).await;
    let discovered_tools = async || {
        let mut tools = client.request("tools/list", json!({})).await.unwrap()["tools"].clone();
        tools.as_array_mut().unwrap().retain(|tool| tool["name"].as_str().unwrap().starts_with("aws-"));
        tools
    };
    let tools = discovered_tools().await;
    assert_eq!(tools.as_array().unwrap().len(), 1, "{tools}");
    assert_eq!(tools[0]["name"], "aws-comes-and-goes");
    assert_eq!(tools[0]["description"], "Builds the report of a day.");
    assert_eq!(tools[0]["inputSchema"]["required"], json!(["day"]));
    let task = client.start("aws-comes-and-goes", json!({"day": "today"})).await.unwrap();
    let execution_started = async {
        while standin.call("ListExecutions", json!({"stateMachineArn": machine})).await["executions"]
            == json!([])
        {}
    };
    tokio::time::timeout(TIMEOUT, execution_started).await.expect("the execution begins");
    standin.call("DeleteStateMachine", json!({"stateMachineArn": machine})).await;
    wait_for_change(&mut stream).await;
    assert_eq!(discovered_tools().await, json!([]));
    assert!(client.start("aws-comes-and-goes", json!({"day": "today"})).await.is_err());
    let result =
        tokio::time::timeout(TIMEOUT, client.result(&task)).await.expect("its task goes on").unwrap();
    assert!(text(&result).contains("today"), "{result}");
}

/// An event with a wrong secret is refused, and an unusable event is logged and has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn posted_event_triggers_early_poll() {
    let standin = Standin::shared();
    let machine = standin.one_state("posted", "", json!({"Type": "Wait", "Seconds": 6})).await;
    // The poll interval is so long that only an event explains why an execution's end was seen.
    let config = backend(standin, "hook_secret = { file = \"secret\" }\n")
        .replace("lease = \"6s\"", "lease = \"6s\"\nquickest_look = \"1h\"\nslowest_look = \"1h\"");
    let tool = format!(
        "[tools.waits]\ndescription = \"Waits.\"\nbackend = \"aws\"\nparameters = {{}}\ntarget = {{ state_machine = \"{machine}\" }}\n"
    );
    let dir = test_dir(&format!("{config}{tool}"));
    fs::write(dir.path("secret"), "only EventBridge knows\n").unwrap();
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("waits", json!({})).await.unwrap();
    let started = Instant::now();
    let arn = loop {
        let listed = standin.call("ListExecutions", json!({"stateMachineArn": machine})).await;
        if listed["executions"][0]["status"] == "SUCCEEDED" {
            break listed["executions"][0]["executionArn"].clone();
        }
        assert!(started.elapsed() < TIMEOUT, "never ended: {listed}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let post = async |secret: &str, body: String| {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = server.url().replace("/mcp", "/hooks/aws");
        let response = http.post(url).header("x-taskbridge-secret", secret).body(body).send().await.unwrap();
        response.status().as_u16()
    };
    let event = json!({
        "id": "315c1398-40ff-a850-213b-158f73e60175", "detail-type": "Step Functions Execution Status Change",
        "source": "aws.states", "detail": {"executionArn": arn, "status": "SUCCEEDED"},
    });
    assert_eq!(post("somebody else", event.to_string()).await, 401);
    assert_eq!(post("only EventBridge knows", "{\"detail\": 3}".to_owned()).await, 202);
    assert_eq!(client.get(&task).await.unwrap()["status"], "working");
    assert_eq!(post("only EventBridge knows", event.to_string()).await, 202);
    let result = tokio::time::timeout(TIMEOUT, client.result(&task)).await.expect("it is looked at");
    assert_ne!(result.unwrap()["isError"], true);
    let log = fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(log.contains("is not a `Step Functions Execution Status Change`"), "{log}");
    assert!(!log.contains("only EventBridge knows"), "{log}");
}
