//! Tasks in the other direction: a client that makes a task of its own of what it is asked. The client of these tests
//! plays the receiver by hand; what it says is held against the schema like what the server says.

mod receiver;

use serde_json::{Value, json};
use taskbridge_sdk::{Answer, Ask, JobState, Observation};

use super::TOOLS;
use super::bench::Server;
use crate::support::{self, Events, TestApp, schema};
use receiver::{
    RELATED, Receiver, SELDOM, able, accept, accepted, form, is_about, made, polled, sampling, task,
};

#[tokio::test]
async fn a_question_becomes_a_task_of_the_clients_and_its_answer_is_fetched_there() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    let question = user.hold("theirs").await;
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(question["params"]["_meta"], json!({RELATED: {"taskId": id}}));
    let days = question["params"]["task"]["ttl"].as_f64().unwrap() / 86_400_000.0;
    assert!((6.9..=7.0).contains(&days), "for as long as the job may run: {days}");
    user.say("tasks/get", "theirs", task("theirs", "working")).await;
    assert_eq!(user.client.task(&id).await["status"], "input_required", "nobody has answered yet");
    user.say("tasks/get", "theirs", task("theirs", "completed")).await;
    user.say("tasks/result", "theirs", accept("ana")).await;
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
    assert_eq!(user.client.task(&id).await["status"], "working");
    job.succeed("hello ana");
    user.asks_nothing_before_the_end_of(&id).await;
    assert_eq!(job.answers().len(), 1);
}

#[tokio::test]
async fn a_client_is_not_asked_to_keep_a_task_longer_than_its_timers_can_count() {
    let long = "[tools.long]\nbackend = \"stage\"\ntarget = {}\nmax_runtime = \"60d\"\ninput_schema = { type = \"object\" }\n";
    let server = Server::with(long).await;
    let mut user = Receiver::of(&server).await;
    user.client.start("long", json!({})).await;
    server.stage.job(1).await.ask("who", "Who?", form());
    assert_eq!(user.request().await["params"]["task"], json!({"ttl": i32::MAX}));
}

#[tokio::test]
async fn a_client_may_answer_at_once_all_the_same() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    let question = user.request().await;
    assert!(question["params"]["task"].is_object());
    user.reply(&question, accept("ana")).await;
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
    job.succeed("hello ana");
    user.asks_nothing_before_the_end_of(&id).await;
}

#[tokio::test]
async fn a_no_and_a_task_that_was_cancelled_are_what_they_are_to_any_question() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    for (n, status) in [(1, "completed"), (2, "cancelled")] {
        let id = user.client.start("work", json!({})).await;
        let job = server.stage.job(n).await;
        job.ask("who", "Who?", form());
        user.hold("theirs").await;
        user.say("tasks/get", "theirs", task("theirs", status)).await;
        if status == "completed" {
            user.say("tasks/result", "theirs", json!({"action": "decline"})).await;
            assert_eq!(job.answered().await, Answer::Decline);
        } else {
            assert_eq!(job.answered().await, Answer::Cancel, "closed without a choice");
        }
        job.succeed("bye");
        user.asks_nothing_before_the_end_of(&id).await;
    }
}

#[tokio::test]
async fn what_is_asked_before_the_start_becomes_a_task_too() {
    let server = Server::with(TOOLS).await;
    let mut user = Receiver::of(&server).await;
    let created = user.client.get("tools/call", json!({"name": "careful", "task": {}})).await;
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    user.hold("theirs").await;
    user.say("tasks/get", "theirs", task("theirs", "completed")).await;
    assert_eq!(server.stage.starts(), 0);
    user.say("tasks/result", "theirs", json!({"action": "accept", "content": {}})).await;
    server.stage.job(1).await.succeed("started");
    user.asks_nothing_before_the_end_of(&id).await;
}

/// Lets a client's task come to nothing twice: by failing, or because the client knows nothing of it.
async fn comes_to_nothing(fails: bool) {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    let mut asked = Vec::new();
    for theirs in ["one", "two"] {
        asked.push(user.hold(theirs).await["id"].clone());
        let request = if fails {
            user.say("tasks/get", theirs, task(theirs, "failed")).await;
            user.asked("tasks/result", theirs).await
        } else {
            let request = user.asked("tasks/get", theirs).await;
            assert_eq!(user.client.reply_with_error(&request, -32603).await, 202, "no word on the task");
            user.asked("tasks/get", theirs).await
        };
        assert_eq!(user.client.reply_with_error(&request, -32602).await, 202);
    }
    assert_ne!(asked[0], asked[1]);
    // This stream asks no third time. The question stays open, and another stream asks.
    let other = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    user.asks_nothing_before_the_end_of(&other).await;
    assert_eq!(user.client.task(&id).await["status"], "input_required");
    user.stream = user.client.listen().await;
    let question = user.request().await;
    assert!(!asked.contains(&question["id"]));
    user.reply(&question, accept("ana")).await;
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
}

#[tokio::test]
async fn a_task_that_failed_says_nothing_and_the_question_is_asked_once_more() {
    comes_to_nothing(true).await;
}

#[tokio::test]
async fn what_a_client_made_a_task_of_and_knows_nothing_of_any_more_is_asked_once_more() {
    comes_to_nothing(false).await;
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again_as_another_task() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    for theirs in ["one", "two"] {
        user.hold(theirs).await;
        user.say("tasks/get", theirs, task(theirs, "completed")).await;
        let request = user.asked("tasks/result", theirs).await;
        assert_eq!(user.client.reply(&request, accept("x")).await, 400);
    }
    let question = user.hold("three").await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("Who?\n\nThe last answer was not taken: `name`"), "{message}");
    user.say("tasks/get", "three", task("three", "completed")).await;
    user.say("tasks/result", "three", accept("ana")).await;
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
}

#[tokio::test]
async fn a_model_is_asked_by_a_task_and_its_user_may_refuse() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let result = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "Because."}});
    schema::check_said("CreateMessageResult", &result);
    for n in [1, 2] {
        user.client.start("work", json!({})).await;
        let job = server.stage.job(n).await;
        job.ask_for("why", "Why?", sampling());
        let question = user.hold("theirs").await;
        assert_eq!(question["method"], "sampling/createMessage");
        if n == 1 {
            user.say("tasks/get", "theirs", task("theirs", "completed")).await;
            let mut related = result.clone();
            related["_meta"] = json!({RELATED: {"taskId": "theirs"}});
            user.say("tasks/result", "theirs", related).await;
            assert_eq!(job.answered().await, accepted(&result));
        } else {
            user.say("tasks/get", "theirs", task("theirs", "failed")).await;
            let request = user.asked("tasks/result", "theirs").await;
            assert_eq!(user.client.reply_with_error(&request, -1).await, 202);
            assert_eq!(job.answered().await, Answer::Decline);
        }
        job.succeed("done");
    }
}

#[tokio::test]
async fn a_task_that_needs_us_is_fetched_at_once_and_answered_when_it_has_ended() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    user.hold("theirs").await;
    user.say("tasks/get", "theirs", task("theirs", "input_required")).await;
    let blocked = user.asked("tasks/result", "theirs").await;
    user.say("tasks/get", "theirs", task("theirs", "input_required")).await;
    user.reply(&blocked, accept("ana")).await;
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
    job.succeed("hello ana");
    user.asks_nothing_before_the_end_of(&id).await;
}

#[tokio::test]
async fn what_a_client_tells_of_its_task_saves_the_wait() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    user.hold_as(polled("theirs", "working", SELDOM)).await;
    // What it tells of others changes nothing.
    user.client.notify("notifications/tasks/status", polled("another", "completed", SELDOM)).await;
    user.client.notify("notifications/tasks/status", json!({"taskId": 5})).await;
    user.client.notify("notifications/tasks/status", polled("theirs", "completed", SELDOM)).await;
    user.say("tasks/result", "theirs", accept("ana")).await;
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
    job.succeed("hello ana");
    user.asks_nothing_before_the_end_of(&id).await;
}

#[tokio::test]
async fn a_question_that_was_answered_elsewhere_has_its_task_cancelled() {
    let server = Server::with(TOOLS).await;
    let mut user = Receiver::of(&server).await;
    let other = server.client().await;
    let id = user.client.start("modelled", json!({})).await;
    let job = server.stage.job(1).await;

    // By a model.
    job.ask("who", "Who?", form());
    user.hold_as(polled("one", "working", SELDOM)).await;
    let arguments = json!({"task_id": id, "question": "q1", "content": {"name": "bob"}});
    other.get("tools/call", json!({"name": "task_answer", "arguments": arguments})).await;
    assert_eq!(job.answered().await, accepted(&json!({"name": "bob"})));
    user.say("tasks/cancel", "one", task("one", "cancelled")).await;

    // By nobody: the job has gone on.
    job.ask("again", "Who else?", form());
    user.hold_as(polled("two", "working", SELDOM)).await;
    job.show(Observation::new(JobState::Running).with_message("never mind"));
    user.say("tasks/cancel", "two", task("two", "cancelled")).await;

    // By another client of the owner, which is asked when it waits for the task.
    job.ask("last", "And who else?", form());
    user.hold_as(polled("three", "working", SELDOM)).await;
    let mut waiting = other.open("tasks/result", json!({ "taskId": id })).await;
    let question = waiting.message().await;
    assert!(question["params"].get("task").is_none(), "it makes no tasks");
    assert_eq!(other.reply(&question, accept("eve")).await, 202);
    let request = user.asked("tasks/cancel", "three").await;
    assert_eq!(user.client.reply_with_error(&request, -32602).await, 202, "it is done with all the same");

    user.stream = user.client.listen().await;
    job.succeed("done");
    user.asks_nothing_before_the_end_of(&id).await;
    assert_eq!(waiting.end().await.unwrap()["content"][0]["text"], "done");
    assert_eq!(job.answers().len(), 2);
}

#[tokio::test]
async fn a_task_in_vain_is_cancelled_also_on_a_stream_that_opens_when_all_is_over() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    server.stage.job(1).await.ask("who", "Who?", form());
    user.hold_as(polled("theirs", "working", SELDOM)).await;
    let Receiver { client, stream, .. } = user;
    drop(stream);
    let server = server.restart().await;
    let client = client.at(&server);
    client.get("tasks/cancel", json!({ "taskId": id })).await;
    for attempt in 1..=2 {
        let mut stream = client.listen().await;
        let request = stream.next("tasks/cancel").await;
        is_about(&request, "tasks/cancel", "theirs");
        // The first time nobody hears of what the client says.
        if attempt == 2 {
            assert_eq!(client.reply(&request, task("theirs", "cancelled")).await, 202);
        }
    }
    let mut user = Receiver::listening(client).await;
    let last = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    user.asks_nothing_before_the_end_of(&last).await;
}

#[tokio::test]
async fn a_question_that_is_withdrawn_before_its_task_is_known_is_cancelled_then() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    let id = user.client.start("work", json!({})).await;
    server.stage.job(1).await.ask("who", "Who?", form());
    let question = user.request().await;
    user.client.get("tasks/cancel", json!({ "taskId": id })).await;
    user.asks_nothing_before_the_end_of(&id).await;
    let other = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    // Not by notifications/cancelled, which is not for tasks.
    user.asks_nothing_before_the_end_of(&other).await;
    user.reply(&question, made(task("theirs", "working"))).await;
    user.say("tasks/cancel", "theirs", task("theirs", "cancelled")).await;
}

#[tokio::test]
async fn a_client_whose_tasks_cannot_be_cancelled_is_not_told_to() {
    let server = Server::start().await;
    let mut without = able();
    without["tasks"].as_object_mut().unwrap().remove("cancel");
    let mut user = Receiver::with(&server, without).await;
    let id = user.client.start("work", json!({})).await;
    server.stage.job(1).await.ask("who", "Who?", form());
    user.hold_as(polled("theirs", "working", SELDOM)).await;
    user.client.get("tasks/cancel", json!({ "taskId": id })).await;
    user.asks_nothing_before_the_end_of(&id).await;
    let last = user.client.start("work", json!({"end": {"succeeded": {}}})).await;
    user.asks_nothing_before_the_end_of(&last).await;
}

#[tokio::test]
async fn without_a_listening_stream_the_waiting_one_goes_on_with_it() {
    let server = Server::start().await;
    let client = server.client_with("2025-11-25", able(), None).await;
    let id = client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let params = json!({ "taskId": id });
    let mut waiting = client.open("tasks/result", params.clone()).await;
    job.ask("who", "Who?", form());
    let question = waiting.message().await;
    assert_eq!(client.reply(&question, made(task("theirs", "working"))).await, 202);
    let request = waiting.message().await;
    is_about(&request, "tasks/get", "theirs");
    assert_eq!(client.reply(&request, task("theirs", "working")).await, 202);
    drop(waiting);

    let mut waiting = client.open("tasks/result", params).await;
    let request = waiting.message().await;
    is_about(&request, "tasks/get", "theirs");
    assert_eq!(client.reply(&request, task("theirs", "completed")).await, 202);
    let request = waiting.message().await;
    is_about(&request, "tasks/result", "theirs");
    assert_eq!(client.reply(&request, accept("ana")).await, 202);
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));

    job.ask("again", "Who else?", form());
    let question = waiting.message().await;
    assert_eq!(client.reply(&question, made(polled("more", "working", SELDOM))).await, 202);
    client.get("tasks/cancel", json!({ "taskId": id })).await;
    let (messages, result) = waiting.all().await;
    is_about(messages.last().unwrap(), "tasks/cancel", "more");
    assert_eq!(result.unwrap()["isError"], true);
}

#[tokio::test]
async fn what_a_waiting_stream_has_asked_the_listening_one_goes_on_with_whoever_started_the_job() {
    let server = Server::start().await;
    let id = server.deaf_client().await.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    let mut user = Receiver::of(&server).await;
    let mut waiting = user.client.open("tasks/result", json!({ "taskId": id })).await;
    for n in ["one", "two"] {
        job.ask(n, "Who?", form());
        let question = waiting.message().await;
        assert_eq!(question["method"], "elicitation/create");
        user.reply(&question, made(task(n, "working"))).await;
        user.say("tasks/get", n, task(n, "working")).await;
        if n == "one" {
            user.say("tasks/get", n, task(n, "completed")).await;
            user.say("tasks/result", n, accept("ana")).await;
            assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
        } else {
            job.succeed("hello ana");
            user.say("tasks/cancel", n, task(n, "cancelled")).await;
        }
    }
    let (messages, result) = waiting.all().await;
    assert_eq!(messages, Vec::<Value>::new());
    assert_eq!(result.unwrap()["content"][0]["text"], "hello ana");
}

#[tokio::test]
async fn a_page_is_visited_by_a_task_and_the_client_hears_when_that_is_over() {
    let server = Server::start().await;
    let mut user = Receiver::of(&server).await;
    user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask_for("pay", "Pay the bill", Ask::Url("https://bank.example/pay".to_owned()));
    let question = user.hold("theirs").await;
    user.say("tasks/get", "theirs", task("theirs", "completed")).await;
    user.say("tasks/result", "theirs", json!({"action": "accept"})).await;
    assert_eq!(job.answered().await, Answer::Accept(Default::default()));
    job.show(Observation::new(JobState::Running).with_message("paid"));
    let over = user.stream.next("notifications/elicitation/complete").await;
    assert_eq!(over["params"]["elicitationId"], question["params"]["elicitationId"]);
}

#[tokio::test]
async fn what_was_not_declared_is_asked_as_ever() {
    let patient = [("call_budget = \"400ms\"", "call_budget = \"30s\"")];
    let server = Server::configured(&patient, "[auth]\nsingle_user = true\n").await;
    let of = |requests: &Value| json!({"elicitation": {}, "sampling": {}, "roots": {}, "tasks": {"cancel": {}, "requests": requests}});
    let both = json!({"elicitation": {"create": {}}, "sampling": {"createMessage": {}}});
    let asks = [Ask::Form(form()), sampling(), Ask::Roots];
    let mut jobs = 0;
    for (revision, requests, as_tasks) in [
        ("2025-11-25", json!({}), [false, false, false]),
        ("2025-11-25", json!({"sampling": {"createMessage": {}}}), [false, true, false]),
        ("2025-11-25", json!({"elicitation": {"create": {}}}), [true, false, false]),
        ("2025-11-25", both.clone(), [true, true, false]),
        ("2025-06-18", both, [false, false, false]),
    ] {
        let client = server.client_with(revision, of(&requests), None).await;
        for (ask, as_task) in asks.iter().zip(as_tasks) {
            jobs += 1;
            let mut call = client.open("tools/call", json!({"name": "work", "arguments": {"n": jobs}})).await;
            let job = server.stage.job(jobs).await;
            job.ask_for("q", "Well?", ask.clone());
            let question = call.message().await;
            assert_eq!(question["params"].get("task").is_some(), as_task, "{question}");
            if !as_task {
                // Nobody asked for a task, so this is no answer.
                assert_eq!(client.reply(&question, made(task("theirs", "working"))).await, 400);
                let again = call.message().await;
                assert_eq!(again["method"], question["method"]);
            }
            job.succeed("done");
        }
    }
}

#[tokio::test]
async fn with_two_processes_each_takes_what_the_other_has_asked() {
    let server = Server::start().await;
    let twin = server.twin().await;
    let mut user = Receiver::of(&server).await;
    let elsewhere = user.client.at(&twin);
    user.client.start("work", json!({})).await;
    let job = server.stage.job(1).await;
    job.ask("who", "Who?", form());
    for (method, result) in [
        ("elicitation/create", made(task("theirs", "working"))),
        ("tasks/get", task("theirs", "completed")),
        ("tasks/result", accept("ana")),
    ] {
        let request = user.request().await;
        assert_eq!(request["method"], method);
        assert_eq!(elsewhere.reply(&request, result).await, 202);
    }
    assert_eq!(job.answered().await, accepted(&json!({"name": "ana"})));
}

/// A job that asks and says what it was told.
const ASKING: &str = r#"
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

/// The next request of the server's on a listening stream.
async fn request(stream: &mut Events) -> Value {
    loop {
        let message = stream.next().await.unwrap().expect("the stream ended");
        if message.get("id").is_some() {
            return message;
        }
    }
}

#[tokio::test]
async fn a_server_that_was_killed_goes_on_with_the_task_and_asks_nobody_twice() {
    let TestApp { mut server, place } = TestApp::start(ASKING);
    let client = support::Client::open_able(server.url(), able()).await.unwrap();
    let mut stream = client.listen().await.unwrap();
    let id = client.start("ask", json!({})).await.unwrap();
    let answer =
        |request: &Value, result: Value| json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    let question = request(&mut stream).await;
    assert_eq!(question["method"], "elicitation/create");
    client.tell(&answer(&question, made(task("theirs", "working")))).await.unwrap();
    let looked = request(&mut stream).await;
    is_about(&looked, "tasks/get", "theirs");
    server.kill();

    let mut server = place.serve();
    let client = client.at(server.url());
    // The answer to what was asked before is as good as any.
    client.tell(&answer(&looked, task("theirs", "working"))).await.unwrap();
    let mut stream = client.listen().await.unwrap();
    for (method, result) in [("tasks/get", task("theirs", "completed")), ("tasks/result", accept("ana"))] {
        let mut asked = request(&mut stream).await;
        // On a slow machine it looks once more before it has heard the answer.
        while method == "tasks/result" && asked["method"] == "tasks/get" {
            client.tell(&answer(&asked, task("theirs", "completed"))).await.unwrap();
            asked = request(&mut stream).await;
        }
        is_about(&asked, method, "theirs");
        client.tell(&answer(&asked, result)).await.unwrap();
    }
    let result = client.result(&id).await.unwrap();
    assert_eq!(support::text(&result).trim_end(), r#"{"action":"accept","content":{"name":"ana"}}"#);
    assert_eq!(server.stop(), Some(0));
    let log = std::fs::read_to_string(place.path("server.log")).unwrap();
    for stage in ["Working", "Ended"] {
        let told = format!("theirs=theirs.. stage={stage}");
        let line = log.lines().find(|line| line.contains(&told)).unwrap_or_else(|| panic!("{stage}: {log}"));
        assert!(line.contains("audit:") && line.contains(&format!("task={}..", &id[..8])), "{line}");
    }
}
