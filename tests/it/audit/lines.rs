//! Tests for the lines that the log has after actions of callers, operators and the server.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{
    KEYS, dir_with_audit, dir_with_audit_file, filter_by_event, parse_lines, read_log, run_audit,
    stop_and_verify, wait_for_line,
};
use crate::support::{Client, Fault, ModernClient, PROGRAM};

/// Returns the lines of requests, in order: event, caller, outcome, method.
fn request_lines(lines: &[Value]) -> Vec<[&str; 4]> {
    let text =
        |value: &'_ Value| -> &'static str { Box::leak(value.as_str().unwrap_or("").to_owned().into()) };
    lines
        .iter()
        .filter(|line| line.get("from").is_some())
        .map(|line| {
            [&line["event"], &line["who"]["name"], &line["outcome"], &line["request"]["method"]].map(text)
        })
        .collect()
}

/// Returns the events of a task, of all callers.
fn task_events<'a>(lines: &'a [Value], task: &str) -> Vec<&'a str> {
    let is_of_task = |line: &&Value| line["task"]["id"].as_str().is_some_and(|id| task.starts_with(id));
    lines.iter().filter(is_of_task).map(|line| line["event"].as_str().unwrap()).collect()
}

/// Each action of two callers has its line. No line has arguments, answers, keys, output or whole ids.
#[tokio::test]
async fn two_caller_session_is_logged() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let (ann, bob) = (KEYS[0].1, KEYS[1].1);
    let ann = Client::open_with_key(server.url(), ann).await.unwrap();
    let bob = Client::open_with_key(server.url(), bob).await.unwrap();

    let job = ann.start("job", json!({"text": "s3cret-argument"})).await.unwrap();
    ann.result(&job).await.unwrap();
    for part in ["log", "artifacts/a.txt"] {
        let uri = format!("taskbridge://tasks/{job}/{part}");
        ann.request("resources/read", json!({"uri": uri})).await.unwrap();
    }
    let asks = ann.start("asks", json!({})).await.unwrap();
    let answer = json!({"action": "accept", "content": {"colour": "s3cret-answer"}});
    ann.request_with_reply("tasks/result", json!({"taskId": asks}), &answer).await.unwrap();
    let long = ann.start("long", json!({})).await.unwrap();
    wait_for_line(&dir, "task.started", &long).await;
    ann.cancel(&long).await.unwrap();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        bob.request(method, json!({"taskId": job})).await.unwrap_err();
    }
    let uri = format!("taskbridge://tasks/{job}/log");
    bob.request("resources/read", json!({"uri": uri})).await.unwrap_err();
    let Fault::Status(status, _) = Client::open_with_key(server.url(), "s3cret-key").await.err().unwrap()
    else {
        panic!("it is let in")
    };
    assert_eq!(status, 401);
    ann.start("anns", json!({})).await.unwrap();
    bob.start("anns", json!({})).await.unwrap_err();
    bob.start("no-such-tool", json!({})).await.unwrap_err();
    bob.start("full", json!({})).await.unwrap();
    bob.start("full", json!({})).await.unwrap_err();
    stop_and_verify(&dir, server).await;

    let lines = read_log(&dir);
    assert_eq!(
        request_lines(&lines),
        [
            ["task.created", "ann", "ok", "tools/call"],
            ["result.read", "ann", "ok", "tasks/result"],
            ["log.read", "ann", "ok", "resources/read"],
            ["artifact.read", "ann", "ok", "resources/read"],
            ["task.created", "ann", "ok", "tools/call"],
            ["question.answered", "ann", "ok", "response"],
            ["result.read", "ann", "ok", "tasks/result"],
            ["task.created", "ann", "ok", "tools/call"],
            ["task.cancelled", "ann", "ok", "tasks/cancel"],
            ["task.ended", "ann", "cancelled", "tasks/cancel"],
            ["lookup.failed", "bob", "not_found", "tasks/get"],
            ["lookup.failed", "bob", "not_found", "tasks/result"],
            ["lookup.failed", "bob", "not_found", "tasks/cancel"],
            ["lookup.failed", "bob", "not_found", "resources/read"],
            ["auth.failed", "", "denied", ""],
            ["task.created", "ann", "ok", "tools/call"],
            ["call.denied", "bob", "denied", "tools/call"],
            ["task.created", "bob", "ok", "tools/call"],
            ["limit.exceeded", "bob", "refused", "tools/call"],
        ]
    );
    assert_eq!(
        task_events(&lines, &job),
        [
            "task.created",
            "task.started",
            "task.ended",
            "result.read",
            "log.read",
            "artifact.read",
            "lookup.failed",
            "lookup.failed",
            "lookup.failed",
            "lookup.failed",
        ]
    );
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events[..2], ["log.began", "server.started"]);
    assert_eq!(events[events.len() - 1], "server.stopped");

    let created = filter_by_event(&lines, "task.created")[0];
    assert_eq!(created["from"], json!({"by": "http", "address": "127.0.0.1"}));
    assert_eq!(created["who"], json!({"name": "ann", "owner": "ann", "identified": true}));
    assert_eq!((&created["tool"], &created["engine"]), (&json!("job"), &json!({"backend": "engine"})));
    assert_eq!(created["arguments"].as_str().unwrap().len(), 64);
    let ended = filter_by_event(&lines, "task.ended")[0];
    assert!(ended["engine"]["handle"].is_string() && ended["who"].is_null(), "{ended}");
    // A task has one digest for all callers. A session has one digest, which is not the session's id.
    let digests = |event: &str| filter_by_event(&lines, event)[0]["task"]["digest"].clone();
    assert_eq!(digests("task.created"), digests("lookup.failed"));
    assert_ne!(
        created["request"]["session"],
        filter_by_event(&lines, "lookup.failed")[0]["request"]["session"]
    );
    let text = std::fs::read_to_string(dir.path("audit.jsonl")).unwrap();
    for secret in ["s3cret", &*job, &*long, KEYS[0].1, "printed"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

/// Requests of 2026-07-28 have lines too, with the trace of the call.
#[tokio::test]
async fn stateless_requests_are_logged() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let ann = ModernClient::with_tasks(server.url()).with_key(KEYS[0].1);
    let bob = ModernClient::with_tasks(server.url()).with_key(KEYS[1].1);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let meta = json!({"_meta": {"traceparent": trace}});
    let created = ann.call("long", &json!({}), meta).await.unwrap();
    let long = created["taskId"].as_str().unwrap().to_owned();
    wait_for_line(&dir, "task.started", &long).await;
    ann.request("tasks/cancel", json!({"taskId": long})).await.unwrap();
    bob.request("tasks/cancel", json!({"taskId": long})).await.unwrap_err();
    bob.request("tasks/get", json!({"taskId": "made-up"})).await.unwrap_err();
    bob.subscribe(json!({"taskIds": [long]})).await.unwrap();
    assert!(Client::open_with_key(server.url(), "wrong").await.is_err());
    wait_for_line(&dir, "task.ended", &long).await;
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    assert_eq!(
        request_lines(&lines),
        [
            ["task.created", "ann", "ok", "tools/call"],
            ["task.cancelled", "ann", "ok", "tasks/cancel"],
            ["lookup.failed", "bob", "not_found", "tasks/cancel"],
            ["lookup.failed", "bob", "not_found", "tasks/get"],
            ["lookup.failed", "bob", "not_found", "subscriptions/listen"],
            ["auth.failed", "", "denied", ""],
        ]
    );
    assert_eq!(task_events(&lines, &long)[..3], ["task.created", "task.started", "task.cancelled"]);
    for event in ["task.created", "task.started", "task.ended"] {
        assert_eq!(filter_by_event(&lines, event)[0]["request"]["trace"], trace[3..35], "{event}");
    }
}

/// A job that has already ended when its start is answered is logged as created, started and ended.
#[tokio::test]
async fn instant_job_logs_its_start() {
    let dir = dir_with_audit_file(
        r#"
        [tools.at_once]
        backend = "engine"
        target = { delay_ms = 0 }

        [tools.fails_at_once]
        backend = "engine"
        target = { delay_ms = 0, outcome = "fail" }

        [backends.here]
        kind = "local"

        [tools.local_job]
        backend = "here"
        target.command = ["true"]
        "#,
    );
    let server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let mut tasks = Vec::new();
    for tool in ["at_once", "fails_at_once", "local_job", "local_job", "local_job"] {
        let task = ann.start(tool, json!({})).await.unwrap();
        wait_for_line(&dir, "task.ended", &task).await;
        tasks.push(task);
    }
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    for task in tasks {
        assert_eq!(task_events(&lines, &task), ["task.created", "task.started", "task.ended"]);
    }
    assert!(filter_by_event(&lines, "task.started").iter().all(|line| line["engine"]["handle"].is_string()));
}

#[tokio::test]
async fn operator_commands_share_one_chain() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let long = ann.start("long", json!({})).await.unwrap();
    wait_for_line(&dir, "task.started", &long).await;
    let mut command = Command::new(PROGRAM);
    command.args(["tasks", "cancel", &long, "--config"]).arg(dir.config());
    dir.prepare(&mut command);
    assert_eq!(dir.run(command).await.code, Some(0));
    ann.start("job", json!({})).await.unwrap();
    let verified = stop_and_verify(&dir, server).await;
    assert_eq!(verified.stdout.matches("head   chain ").count(), 1, "{verified:?}");
    let lines = read_log(&dir);
    let operator_line = filter_by_event(&lines, "operator.acted")[0];
    assert_eq!(
        (&operator_line["detail"], &operator_line["from"]),
        (&json!({"command": "cancel"}), &json!({"by": "terminal"}))
    );
    assert!(operator_line["who"]["name"].as_str().unwrap().starts_with("uid "), "{operator_line}");
    assert_eq!(task_events(&lines, &long)[2..], ["operator.acted", "task.ended"]);
    let output = run_audit(&dir, &["show", "--event", "operator.acted"]).await;
    assert_eq!(parse_lines(&output.stdout), std::slice::from_ref(operator_line));
    assert_eq!(parse_lines(&run_audit(&dir, &["show", "--task", &long]).await.stdout).len(), 4);
}

#[tokio::test]
async fn abandon_is_audited() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let ann = Client::open_with_key(server.url(), KEYS[0].1).await.unwrap();
    let long = ann.start("long", json!({})).await.unwrap();
    wait_for_line(&dir, "task.started", &long).await;
    let mut command = Command::new(PROGRAM);
    command.args(["tasks", "abandon", &long, "--config"]).arg(dir.config());
    dir.prepare(&mut command);
    assert_eq!(dir.run(command).await.code, Some(0));
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    assert_eq!(filter_by_event(&lines, "operator.acted")[0]["detail"], json!({"command": "abandon"}));
    assert_eq!(task_events(&lines, &long)[2..], ["operator.acted", "task.ended"]);
}

/// Both an applied config and a refused config have a line.
#[tokio::test]
async fn reload_outcome_is_logged() {
    let dir = dir_with_audit_file("");
    let server = dir.serve();
    let config = std::fs::read_to_string(dir.config()).unwrap();
    let reloads = || {
        let text = std::fs::read_to_string(dir.path("audit.jsonl")).unwrap_or_default();
        text.matches("config.reloaded").count()
    };
    for (n, text) in
        [config.replace("[tools.long]", "[tools.longer]"), "nonsense".to_owned()].iter().enumerate()
    {
        std::fs::write(dir.config(), text).unwrap();
        while reloads() <= n {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
    std::fs::write(dir.config(), config).unwrap();
    stop_and_verify(&dir, server).await;
    let lines = read_log(&dir);
    let reloaded = filter_by_event(&lines, "config.reloaded");
    assert_eq!((&reloaded[0]["outcome"], &reloaded[1]["outcome"]), (&json!("ok"), &json!("refused")));
    assert_eq!(reloaded[0]["detail"]["changed"], "tools added: longer; tools removed: long");
}

/// Standard output has a complete log of its own. With `--stdio` it belongs to the client, so it is refused.
#[tokio::test]
async fn stdout_log_is_refused_over_stdio() {
    let dir = dir_with_audit("to = [\"stdout\"]");
    let mut child = dir.command("serve").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("server.started") {
        out.read_line(&mut text).unwrap();
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    out.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let events: Vec<Value> = parse_lines(&text).iter().map(|line| line["event"].clone()).collect();
    assert_eq!(events, ["log.began", "server.started", "server.stopped"]);
    std::fs::write(dir.path("out.jsonl"), &text).unwrap();
    assert_eq!(run_audit(&dir, &["verify", "out.jsonl"]).await.code, Some(0));
    let mut command = dir.command("serve");
    command.arg("--stdio");
    let refused = dir.run(command).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("audit.to"), "{refused:?}");
}

/// Without a trusted proxy, the forwarded address is ignored.
#[tokio::test]
async fn trusted_proxy_supplies_client_address() {
    for (proxies, expected) in [("trusted_proxies = [\"127.0.0.0/8\"]\n", "203.0.113.9"), ("", "127.0.0.1")] {
        let dir = dir_with_audit_file("");
        let text = std::fs::read_to_string(dir.config()).unwrap();
        std::fs::write(dir.config(), text.replace("[server]\n", &format!("[server]\n{proxies}"))).unwrap();
        let server = dir.serve();
        let forwarded_client = |key| {
            let modern = ModernClient::with_tasks(server.url()).with_key(key);
            modern.with_header("x-forwarded-for", "198.51.100.7, 203.0.113.9")
        };
        forwarded_client(KEYS[0].1).call("job", &json!({}), json!({})).await.unwrap();
        forwarded_client("no key").request("tools/list", json!({})).await.unwrap_err();
        stop_and_verify(&dir, server).await;
        let lines = read_log(&dir);
        for event in ["task.created", "auth.failed"] {
            let source = &filter_by_event(&lines, event)[0]["from"];
            assert_eq!(*source, json!({"by": "http", "address": expected}), "{event} {proxies}");
        }
    }
}
