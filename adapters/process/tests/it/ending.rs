//! What is left of a program after its end: nothing.

use std::fs;
use std::time::Duration;

use serde_json::json;
use taskbridge_process::Process;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Adapter as _, ErrorKind, JobSpec};
use tokio::time::{Instant, sleep};

use crate::world::World;

/// Returns the processes whose environment has this mark.
fn marked(mark: &str) -> Vec<String> {
    let folders = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let has_mark = |entry: &fs::DirEntry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
    };
    let pids = folders.filter(has_mark).map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|name| name.bytes().all(|b| b.is_ascii_digit())).collect()
}

async fn until_none_is_left(mark: &str) {
    let began = Instant::now();
    while !marked(mark).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "left: {:?}", marked(mark));
        sleep(Duration::from_millis(50)).await;
    }
}

/// The config of a program that is found by a mark in its environment.
fn marked_config(world: &World, mark: &str, more: serde_json::Value) -> serde_json::Value {
    let mut config = world.config(more);
    let command = config["command"].as_array().unwrap().clone();
    let mut with_mark = vec![json!("env"), json!(mark)];
    with_mark.extend(command);
    config["command"] = json!(with_mark);
    config
}

/// A dropped backend ends its program, also one that has forked, and even in a session of its own.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_backend_leaves_no_process() {
    let world = World::new();
    let mark = format!("TASKBRIDGE_TEST_MARK={}-drop", std::process::id());
    let backend =
        world.try_connect(marked_config(&world, &mark, json!({})), Duration::from_secs(60)).await.unwrap();
    assert!(!marked(&mark).is_empty());
    drop(backend);
    until_none_is_left(&mark).await;
}

/// What a program forks ends with it, and the program runs again.
#[tokio::test(flavor = "multi_thread")]
async fn forks_end_with_their_program() {
    let world = World::new();
    let mark = format!("TASKBRIDGE_TEST_MARK={}-fork", std::process::id());
    let config = marked_config(&world, &mark, json!({"mode": "start:fork", "mode_once": "mode.done"}));
    let backend = world.try_connect(config, Duration::from_secs(60)).await.unwrap();
    let spec = job(json!({}), json!({}));
    assert_eq!(backend.start(&spec).await.unwrap_err().kind(), ErrorKind::Uncertain);
    let again = JobSpec { may_exist: true, ..spec.clone() };
    let began = Instant::now();
    while backend.start(&again).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "the program does not come back");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(world.starts(&spec.key), 1);
    drop(backend);
    until_none_is_left(&mark).await;
}

/// The environment has nothing but the allowed names, and arguments have no secret.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_in_no_process_table() {
    let world = World::new();
    let mark = format!("TASKBRIDGE_TEST_MARK={}-secret", std::process::id());
    let mut config = marked_config(&world, &mark, json!({}));
    config["secrets"] = json!({"password": "s3cret-of-the-test"});
    let backend = world.try_connect(config, Duration::from_secs(60)).await.unwrap();
    let pids = marked(&mark);
    assert!(!pids.is_empty());
    for pid in pids {
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let text = [read("environ"), read("cmdline")].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains("s3cret-of-the-test") && !text.contains("CARGO"), "{text}");
        let status = String::from_utf8_lossy(&read("status")).into_owned();
        assert!(status.is_empty() || status.contains("NoNewPrivs:\t1"), "{status}");
    }
    drop(backend);
    until_none_is_left(&mark).await;
}

/// Returns whether these tests run as root, which the next one needs.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A program runs as another user, without the groups of the server, and still ends with everything it
/// started.
#[tokio::test(flavor = "multi_thread")]
async fn program_runs_as_its_user() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let mark = format!("TASKBRIDGE_TEST_MARK={}-user", std::process::id());
    // A shell, because the user may not read where these tests are.
    let script = r#"sleep 3600 & read line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocol":1,"once":"none","abilities":[]}}'; read line"#;
    let config = json!({"command": ["env", mark.as_str(), "sh", "-c", script], "user": "65534:65534"});
    let backend = world.try_connect(config, Duration::from_secs(60)).await.unwrap();
    let pids = marked(&mark);
    assert!(pids.len() >= 2, "{pids:?}");
    for pid in &pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        assert_eq!(line("Uid:"), Some("65534\t65534\t65534\t65534"), "{status}");
        assert_eq!(line("Gid:"), Some("65534\t65534\t65534\t65534"), "{status}");
        assert_eq!(line("Groups:"), Some(""), "{status}");
        assert_eq!(line("CapEff:"), Some("0000000000000000"), "{status}");
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        assert!(String::from_utf8_lossy(&environment).contains("HOME=/\0"));
    }
    drop(backend);
    until_none_is_left(&mark).await;
}

/// A user that does not exist is an error of the config.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_user_is_named() {
    let world = World::new();
    let mut config = world.config(json!({}));
    config["user"] = json!("no-such-user");
    // `taskbridge check` says it, too.
    let problem = Process::check_config(&serde_json::from_value(config.clone()).unwrap()).unwrap_err();
    assert_eq!(problem.field, "user");
    assert!(problem.message.starts_with("no such user: \"no-such-user\""), "{}", problem.message);
    let error = world.try_connect(config, Duration::from_secs(60)).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().starts_with("user:"), "{error}");
}
