//! Another stream, another process or a restarted server continues a client task.

use serde_json::{Value, json};

use super::super::bench::Server;
use super::receiver::{
    LONG_INTERVAL_MS, Receiver, accept, accepted, all_capabilities, assert_about, form, task, task_created,
    task_with_interval,
};
use crate::support::{self, Events, TestApp};

/// Without a listening stream, the requests about the client's task go out on the waiting stream.
#[tokio::test]
async fn waiting_stream_continues_client_task() {
    let server = Server::start().await;
    let client = server.client_with("2025-11-25", all_capabilities(), None).await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let params = json!({ "taskId": id });
    let mut waiting = client.open("tasks/result", params.clone()).await;
    job.ask("who", "Who?", form());
    let question = waiting.message().await;
    assert_eq!(client.reply(&question, task_created(task("theirs", "working"))).await, 202);
    let request = waiting.message().await;
    assert_about(&request, "tasks/get", "theirs");
    assert_eq!(client.reply(&request, task("theirs", "working")).await, 202);
    drop(waiting);

    let mut waiting = client.open("tasks/result", params).await;
    let request = waiting.message().await;
    assert_about(&request, "tasks/get", "theirs");
    assert_eq!(client.reply(&request, task("theirs", "completed")).await, 202);
    let request = waiting.message().await;
    assert_about(&request, "tasks/result", "theirs");
    assert_eq!(client.reply(&request, accept("ana")).await, 202);
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));

    job.ask("again", "Who else?", form());
    let question = waiting.message().await;
    assert_eq!(
        client.reply(&question, task_created(task_with_interval("more", "working", LONG_INTERVAL_MS))).await,
        202
    );
    client.get("tasks/cancel", json!({ "taskId": id })).await;
    let (messages, result) = waiting.all().await;
    assert_about(messages.last().unwrap(), "tasks/cancel", "more");
    assert_eq!(result.unwrap()["isError"], true);
}

/// The waiting stream asked the question, and another session started the job.
#[tokio::test]
async fn listening_stream_continues_client_task() {
    let server = Server::start().await;
    let id = server.client_without_capabilities().await.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    let mut user = Receiver::of(&server).await;
    let mut waiting = user.client.open("tasks/result", json!({ "taskId": id })).await;
    for n in ["one", "two"] {
        job.ask(n, "Who?", form());
        let question = waiting.message().await;
        assert_eq!(question["method"], "elicitation/create");
        user.reply(&question, task_created(task(n, "working"))).await;
        user.answer_next("tasks/get", n, task(n, "working")).await;
        if n == "one" {
            user.answer_next("tasks/get", n, task(n, "completed")).await;
            user.answer_next("tasks/result", n, accept("ana")).await;
            assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
        } else {
            job.succeed("hello ana");
            user.answer_next("tasks/cancel", n, task(n, "cancelled")).await;
        }
    }
    let (messages, result) = waiting.all().await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(result.unwrap()["content"][0]["text"], "hello ana");
}

/// Each process accepts the client's answers to requests of the other.
#[tokio::test]
async fn client_task_spans_two_processes() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let mut user = Receiver::of(&server).await;
    let other_client = user.client.at(&twin);
    user.client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.ask("who", "Who?", form());
    for (method, result) in [
        ("elicitation/create", task_created(task("theirs", "working"))),
        ("tasks/get", task("theirs", "completed")),
        ("tasks/result", accept("ana")),
    ] {
        let request = user.request().await;
        assert_eq!(request["method"], method);
        assert_eq!(other_client.reply(&request, result).await, 202);
    }
    assert_eq!(job.wait_for_answer().await, accepted(&json!({"name": "ana"})));
}

/// A job that asks and returns the answer.
const ASK_TOOL: &str = r#"
[reconciler]
lease = "2s"

[backends.here]
kind = "local"

[tools.ask]
backend = "here"
target.command = ["sh", "-c", '''
ask="$TASKBRIDGE_QUESTIONS/who"
echo '{"message": "Who?", "schema": {"type": "object", "properties": {"name": {"type": "string"}}}}' > "$ask.new"
mv "$ask.new" "$ask.json"
until [ -e "$ask.answer.json" ]; do sleep 0.05; done
cat "$ask.answer.json"
''']
"#;

/// Returns the next request of the server on a listening stream.
async fn request(stream: &mut Events) -> Value {
    loop {
        let message = stream.next().await.unwrap().expect("the stream ended");
        if message.get("id").is_some() {
            return message;
        }
    }
}

/// The question is not asked again. The audit log has lines about the client's task.
#[tokio::test]
async fn killed_server_continues_client_task() {
    let TestApp { mut server, dir } = TestApp::start(ASK_TOOL);
    let client = support::Client::open_with_capabilities(server.url(), all_capabilities()).await.unwrap();
    let mut stream = client.listen().await.unwrap();
    let id = client.start("ask", json!({})).await.unwrap();
    let answer =
        |request: &Value, result: Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    let question = request(&mut stream).await;
    assert_eq!(question["method"], "elicitation/create");
    client.send_message(&answer(&question, task_created(task("theirs", "working")))).await.unwrap();
    let poll_request = request(&mut stream).await;
    assert_about(&poll_request, "tasks/get", "theirs");
    server.kill();

    let mut server = dir.serve();
    let client = client.at(server.url());
    // The answer to a request of the killed server is accepted.
    client.send_message(&answer(&poll_request, task("theirs", "working"))).await.unwrap();
    let mut stream = client.listen().await.unwrap();
    for (method, result) in [("tasks/get", task("theirs", "completed")), ("tasks/result", accept("ana"))] {
        let mut next_request = request(&mut stream).await;
        // On a slow machine the server polls once more before it has processed the answer.
        while method == "tasks/result" && next_request["method"] == "tasks/get" {
            client.send_message(&answer(&next_request, task("theirs", "completed"))).await.unwrap();
            next_request = request(&mut stream).await;
        }
        assert_about(&next_request, method, "theirs");
        client.send_message(&answer(&next_request, result)).await.unwrap();
    }
    let result = client.result(&id).await.unwrap();
    assert_eq!(support::text(&result).trim_end(), r#"{"action":"accept","content":{"name":"ana"}}"#);
    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    for stage in ["Working", "Ended"] {
        let expected = format!("theirs=theirs.. stage={stage}");
        let line =
            log.lines().find(|line| line.contains(&expected)).unwrap_or_else(|| panic!("{stage}: {log}"));
        assert!(line.contains("audit:") && line.contains(&format!("task={}..", &id[..8])), "{line}");
    }
}
