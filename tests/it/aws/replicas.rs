//! A test with two servers on one PostgreSQL database, where only one can read the queue of questions.

use serde_json::json;

use super::standin::Standin;
use crate::step_functions::{test_dir, wait_for_status};
use crate::support::{ModernClient, postgres};

/// Enough calls that each server acts on some answers first.
const CALLS: usize = 4;

fn config(standin: &Standin, schema: &str, queue: &str) -> String {
    let target = "arn:aws:states:us-east-1:000000000000:stateMachine:queue";
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nmax_polls_per_second = 100000\n[auth]\nsingle_user = true\n[reconciler]\n\
         lease = \"6s\"\n[store]\nkind = \"postgres\"\nurl = \"{store}\"\nschema = \"{schema}\"\n\
         backends_dir = \"state\"\n[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\nprofile = \"tester\"\n\
         config_file = \"aws\"\nendpoint = \"{url}\"\ncall_timeout = \"2s\"\nheartbeat = \"1s\"\nqueue = \"{queue}\"\n\
         [tools.queue]\ndescription = \"Ships.\"\nbackend = \"aws\"\nparameters = {{}}\n\
         target = {{ state_machine = \"{target}\" }}\n",
        store = postgres::shared().url(),
        url = standin.url,
    )
}

/// The answer arrives at the server that has no task token, and the execution receives it exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn answer_without_local_token_applies_once() {
    let standin = tokio::task::block_in_place(|| Standin::start("localstack"));
    let queue = standin.call("CreateQueue", json!({"QueueName": "ask"})).await["QueueUrl"].clone();
    let form = json!({"type": "object", "properties": {"ship": {"type": "boolean"}}, "required": ["ship"]});
    let message_body = json!({
        "token.$": "$$.Task.Token", "execution.$": "$$.Execution.Id", "message": "Ship it?", "schema": form,
    });
    let machine = standin
        .question_machine(
            "queue",
            json!({
                "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                "Parameters": {"QueueUrl": queue, "MessageBody": message_body},
            }),
        )
        .await;
    let schema = postgres::schema();
    // The second server cannot reach the queue, so it never has a task token. It still knows the question.
    let reader_dir = test_dir(&config(&standin, &schema, &format!("{}/000000000000/ask", standin.url)));
    let other_dir = test_dir(&config(&standin, &schema, "http://127.0.0.1:9/000000000000/ask"));
    let (reader, other) = (reader_dir.serve(), other_dir.serve());
    let (token_client, client) =
        (ModernClient::with_tasks(reader.url()), ModernClient::with_tasks(other.url()));
    let mut task_ids = Vec::new();
    for _ in 0..CALLS {
        let created = client.call("queue", &json!({}), json!({})).await.unwrap();
        task_ids.push(created["taskId"].as_str().unwrap().to_owned());
    }
    for id in &task_ids {
        let requests = wait_for_status(&client, id, "input_required").await["inputRequests"].clone();
        let (key, _) = requests.as_object().unwrap().iter().next().unwrap();
        // The first answer goes to the server without the token, then a different one to the server with it.
        for (client, ship) in [(&client, true), (&token_client, false)] {
            let answer = json!({"action": "accept", "content": {"ship": ship}});
            let params = json!({"taskId": id, "inputResponses": {key: answer}});
            client.request("tasks/update", params).await.unwrap();
        }
    }
    for id in &task_ids {
        for client in [&client, &token_client] {
            let task = wait_for_status(client, id, "completed").await;
            assert_eq!(task["result"]["structuredContent"], json!({"ship": true}), "{task}");
        }
    }
    let executions = standin.executions(&machine).await;
    assert_eq!(executions.len(), CALLS, "{executions:?}");
    for execution in executions {
        let arn = execution["executionArn"].clone();
        let history = standin.call("GetExecutionHistory", json!({"executionArn": arn})).await;
        let count_of = |kind: &&str| {
            history["events"].as_array().unwrap().iter().filter(|event| event["type"] == **kind).count()
        };
        let counts = ["TaskSucceeded", "TaskFailed", "ExecutionSucceeded"].map(|kind| count_of(&kind));
        assert_eq!(counts, [1, 0, 1], "{history}");
    }
}
