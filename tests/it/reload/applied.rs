//! Tests for the effects of a new config, and for calls and tasks that began before: nothing is dropped.

use rustix::process::Signal;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{
    ONE, next_message, release_jobs, replace_config, start, tools, wait_for_end, wait_for_log, waiting_tool,
};
use crate::support::{BASICS, Client, Fault, ModernClient, TestDir, text};

fn status(fault: Fault) -> u16 {
    match fault {
        Fault::Status(status, _) => status.as_u16(),
        other => panic!("it is no refusal by HTTP: {other:?}"),
    }
}

/// Open calls and tasks of a removed tool continue to their results. New calls are refused.
#[tokio::test]
async fn removed_tool_finishes_its_calls() {
    let app = start(&waiting_tool("slow", "here"));
    let session = app.client().await;
    let task = session.start("slow", json!({})).await.unwrap();
    let in_progress = {
        let session = session.clone();
        async move { session.call("slow", json!({})).await.unwrap() }
    };
    let reload = async {
        // Its row is committed, so the call was accepted before the config changes.
        while session.list().await.unwrap().len() < 2 {}
        replace_config(&app.dir, ONE);
        wait_for_log(&app.dir, "tools removed: slow").await;
        assert_eq!(tools(&session).await, ["hello"]);
        assert_eq!(text(&session.call("hello", json!({})).await.unwrap()), "hello\n");
        let Err(Fault::Refused { code: -32602, message }) = session.start("slow", json!({})).await else {
            panic!("a tool that is gone is called");
        };
        assert!(message.contains("slow"), "{message}");
        assert_eq!(session.get(&task).await.unwrap()["status"], "working");
        release_jobs(&app.dir);
    };
    let (result, ()) = tokio::join!(in_progress, reload);
    assert_eq!(text(&result), "over\n");
    assert_eq!(text(&session.result(&task).await.unwrap()), "over\n");
    assert_eq!(session.get(&task).await.unwrap()["status"], "completed");
}

#[tokio::test]
async fn frequent_reloads_drop_no_request() {
    const TIMES: usize = 12;
    let app = start("");
    let finished = CancellationToken::new();
    let caller = async |n: usize| {
        let (session, modern) = (app.client().await, ModernClient::without_tasks(app.server.url()));
        let mut calls = 0;
        while !finished.is_cancelled() || calls == 0 {
            let result = match n % 2 {
                0 => session.call("hello", json!({})).await.unwrap(),
                _ => modern.call("hello", &json!({}), json!({})).await.unwrap(),
            };
            assert_eq!(text(&result), "hello\n");
            calls += 1;
        }
    };
    let replacer = async {
        for n in 1..=TIMES {
            let env = format!("kind = \"local\"\nenv = {{ TURN = \"{n}\" }}");
            let extra = format!("[tools.turn_{n}]\nbackend = \"here\"\ntarget.command = [\"true\"]\n");
            replace_config(&app.dir, &format!("{}{extra}", ONE.replace("kind = \"local\"", &env)));
            app.server.signal(Signal::HUP);
            wait_for_log(&app.dir, &format!("tools added: turn_{n}")).await;
        }
        finished.cancel();
    };
    tokio::join!(caller(0), caller(1), caller(2), caller(3), replacer);
}

/// Queued tasks of a removed tool still run one at a time.
#[tokio::test]
async fn removed_tool_keeps_its_limit() {
    let script =
        "mkdir held || touch overlapped; sleep 0.1; rmdir held; while [ ! -e go ]; do sleep 0.02; done";
    let narrow = format!(
        "[tools.narrow]\nbackend = \"here\"\nmax_running = 1\n\
         target = {{ command = [\"sh\", \"-c\", \"{script}\"], working_dir = \".\" }}\n"
    );
    let app = start(&narrow);
    let session = app.client().await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(session.start("narrow", json!({})).await.unwrap());
    }
    replace_config(&app.dir, ONE);
    wait_for_log(&app.dir, "tools removed: narrow").await;
    release_jobs(&app.dir);
    for task in tasks {
        session.result(&task).await.unwrap();
        assert_eq!(session.get(&task).await.unwrap()["status"], "completed");
    }
    assert!(!app.dir.path("overlapped").exists());
}

#[tokio::test]
async fn protocol_limits_apply_at_once() {
    let app = start("[tools.bye]\nbackend = \"here\"\ntarget.command = [\"true\"]\n");
    let session = app.client().await;
    assert_eq!(tools(&session).await, ["bye", "hello"]);
    let smaller = BASICS.replace("[server]", "[server]\npage_size = 1\nmax_body_bytes = 600");
    let config = format!("{smaller}{ONE}[tools.bye]\nbackend = \"here\"\ntarget.command = [\"true\"]\n");
    std::fs::write(app.dir.config(), config).unwrap();
    let line = wait_for_log(&app.dir, "config applied").await;
    assert!(line.ends_with("[server] max_body_bytes; [server] page_size"), "{line}");
    let page = session.request("tools/list", json!({})).await.unwrap();
    assert_eq!(page["tools"].as_array().unwrap().len(), 1);
    let long = session.call("hello", json!({"pad": "x".repeat(600)})).await.unwrap_err();
    assert_eq!(status(long), 413);
}

#[tokio::test]
async fn origins_and_hosts_apply_at_once() {
    let app = start("");
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let preflight_status = async |origin: &str, host: &str| {
        let request = http.request(reqwest::Method::OPTIONS, app.server.url());
        request.header("origin", origin).header("host", host).send().await.unwrap().status().as_u16()
    };
    let (page, name) = ("https://app.example", "bridge.example");
    assert_eq!(
        (preflight_status(page, "localhost").await, preflight_status("http://localhost", name).await),
        (403, 403)
    );
    let open = format!("[server]\nallowed_origins = [\"{page}\"]\nallowed_hosts = [\"{name}\"]");
    std::fs::write(app.dir.config(), format!("{}{ONE}", BASICS.replace("[server]", &open))).unwrap();
    wait_for_log(&app.dir, "config applied").await;
    assert_eq!(
        (preflight_status(page, "localhost").await, preflight_status("http://localhost", name).await),
        (204, 204)
    );
}

/// Its requests get 401, and other keys are not affected. The log contains no key.
#[tokio::test]
async fn revoked_key_ends_its_streams() {
    let key = |principal: &str, key: &str| {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(key));
        format!("[[auth.keys]]\nprincipal = \"{principal}\"\nsha256 = \"{digest}\"\n")
    };
    let config = |keys: &str| {
        let basics = BASICS.replace("single_user = true", "mode = \"api_keys\"");
        format!("{basics}{ONE}{keys}")
    };
    let (ann, bob) = (key("ann", "first-key"), key("bob", "second-key"));
    let dir = TestDir::new(&config(&format!("{ann}{bob}")));
    let server = dir.serve();
    let (first, second) = (
        Client::open_with_key(server.url(), "first-key").await.unwrap(),
        Client::open_with_key(server.url(), "second-key").await.unwrap(),
    );
    let modern = ModernClient::without_tasks(server.url()).with_key("first-key");
    let mut first_stream = first.listen().await.unwrap();
    let (mut subscription, _) = modern.subscribe(json!({"toolsListChanged": true})).await.unwrap();
    let mut second_stream = second.listen().await.unwrap();

    let changed = config(&bob).replace("Says hello.", "Greets.");
    std::fs::write(dir.config(), changed).unwrap();
    wait_for_end(&mut first_stream).await;
    wait_for_end(&mut subscription).await;
    assert_eq!(next_message(&mut second_stream).await["method"], "notifications/tools/list_changed");
    let line = wait_for_log(&dir, "config applied").await;
    assert!(line.ends_with("tools changed: hello; [auth] keys"), "{line}");
    assert_eq!(status(first.call("hello", json!({})).await.unwrap_err()), 401);
    assert_eq!(status(first.listen().await.err().unwrap()), 401);
    assert!(modern.request("tools/list", json!({})).await.is_err());
    assert_eq!(text(&second.call("hello", json!({})).await.unwrap()), "hello\n");
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(!log.contains("-key") && !log.contains(&bob[bob.find("sha256").unwrap() + 10..][..64]));
}
