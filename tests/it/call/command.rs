//! Tests for the command line: arguments by the tool's schema, the list of tools, and errors that are found
//! before anything is sent.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::CallFixture;
use crate::support::BASICS;

#[tokio::test]
async fn arguments_follow_tool_schema() {
    let fixture = CallFixture::start();
    let called = fixture.call(&["greet", "name=3", "times=2", "loud=true", "also=a,b"]).await;
    assert_eq!(
        (called.code, called.stdout.as_str()),
        (Some(0), "hello 3 2 true [\"a\",\"b\"]\n"),
        "{called:?}"
    );
    let called = fixture.call(&["greet", "--args", r#"{"name": "ann", "times": 4}"#, "times:=5"]).await;
    assert_eq!(called.stdout, "hello ann 5 false []\n", "{called:?}");

    fs::write(fixture.dir.path("name.txt"), "bob").unwrap();
    let called = fixture.call(&["greet", "name=@name.txt"]).await;
    assert_eq!(called.stdout, "hello bob 1 false []\n", "{called:?}");
    fs::write(fixture.dir.path("all.json"), r#"{"name": "eve"}"#).unwrap();
    let mut command = fixture.command(&["greet", "--args", "-"]);
    command.stdin(fs::File::open(fixture.dir.path("all.json")).unwrap());
    // Started directly, so that its stdin stays this file.
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello eve 1 false []\n");
}

#[tokio::test]
async fn file_parameter_accepts_file() {
    let fixture = CallFixture::start();
    fs::write(fixture.dir.path("plan.bin"), [0, 159, 146, 150]).unwrap();
    let called = fixture.call(&["count", "text=@plan.bin"]).await;
    assert!(called.stdout.starts_with("4 ") && called.stdout.trim().ends_with("/plan.bin"), "{called:?}");
    let called = fixture.call(&["count", "text=plan.bin"]).await;
    assert_eq!(called.code, Some(2));
    assert_eq!(called.stderr, "taskbridge: text=plan.bin: expected a file; write text=@plan.bin\n");
    let called = fixture.call(&["count", "text=@nowhere"]).await;
    assert_eq!(called.code, Some(2));
    assert!(called.stderr.starts_with("taskbridge: text=@nowhere: cannot be read: "), "{called:?}");
}

/// Each invalid argument has its message, and no task is created.
#[tokio::test]
async fn invalid_arguments_fail_before_start() {
    let fixture = CallFixture::start();
    let called = fixture.call(&["greet", "times=9", "loud=perhaps", "nmae=ann", "stray"]).await;
    assert_eq!((called.code, called.stdout.as_str()), (Some(2), ""));
    let lines: Vec<&str> = called.stderr.lines().collect();
    let expected = [
        "taskbridge: times=9: expected whole number from 1 to 5",
        "taskbridge: loud=perhaps: expected true or false",
        "taskbridge: nmae: unknown argument; greet takes `also`, `loud`, `name`, `times`; did you mean `name`?",
        "taskbridge: stray: expected NAME=VALUE",
        "taskbridge: name: missing; expected text. Who.",
    ];
    assert_eq!(lines, expected);
    let called = fixture.call(&["graet"]).await;
    assert_eq!(called.code, Some(2));
    assert_eq!(called.stderr, "taskbridge: there is no tool \"graet\" on this server; did you mean greet?\n");
    let listed = fixture.call(&["task_list"]).await;
    assert_eq!(listed.stdout, "There are no tasks.\n", "{listed:?}");
}

#[tokio::test]
async fn tool_list_shows_parameters() {
    let fixture = CallFixture::start();
    for arguments in [&[][..], &["--list"]] {
        let listed = fixture.call(arguments).await;
        assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""));
        let greet =
            "greet - Greet somebody\n    Says hello.\n    name     text. Who.\n    [also]   list of text\n";
        assert!(listed.stdout.contains(greet), "{}", listed.stdout);
        assert!(
            listed.stdout.contains("    [times]  whole number from 1 to 5 (default 1)\n"),
            "{}",
            listed.stdout
        );
        assert!(listed.stdout.starts_with("ask\n"), "the server's own tools are left out: {}", listed.stdout);
        assert!(!listed.stdout.contains("\ntask_"), "{}", listed.stdout);
    }
    let one = fixture.call(&["count", "--list"]).await;
    assert_eq!(one.stdout, "count\n    text  file\n");
    let json = fixture.call(&["--list", "--json"]).await;
    let tools: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "greet" && tool["inputSchema"].is_object()));
}

#[tokio::test]
async fn help_explains_exit_codes() {
    let help = CallFixture::start().call(&["--help"]).await;
    for expected in
        ["TASKBRIDGE_KEY", "TASKBRIDGE_URL", "  124  ", "  130  ", "NAME:=JSON", "--idempotency-key"]
    {
        assert!(help.stdout.contains(expected), "{expected}: {}", help.stdout);
    }
}

/// The exit code is 2. Covers no listener, a wrong path, a wrong scheme and wrong options.
#[tokio::test]
async fn unreachable_server_is_reported() {
    let fixture = CallFixture::start();
    let no_listener = fixture.call(&["--url", "http://127.0.0.1:1", "greet", "name=ann"]).await;
    assert_eq!(no_listener.code, Some(2));
    let expected = "taskbridge: cannot connect to http://127.0.0.1:1/mcp: Connection refused";
    assert!(
        no_listener.stderr.starts_with(expected) && no_listener.stderr.contains("taskbridge serve"),
        "{}",
        no_listener.stderr
    );
    let wrong_path = format!("{}/no", fixture.server.url());
    let wrong_path = fixture.call(&["--url", &wrong_path]).await;
    assert_eq!(wrong_path.code, Some(2));
    assert!(wrong_path.stderr.contains("no MCP endpoint at this address"), "{}", wrong_path.stderr);
    let secure = fixture.server.url().replace("http:", "https:");
    let secure = fixture.call(&["--url", &secure]).await;
    assert_eq!(secure.code, Some(2));
    assert!(secure.stderr.ends_with("the server does not speak TLS: use http\n"), "{}", secure.stderr);
    let no_scheme = fixture.call(&["--url", "127.0.0.1:8808"]).await;
    assert_eq!(no_scheme.code, Some(2));
    assert!(no_scheme.stderr.contains("must be a URL"), "{}", no_scheme.stderr);
    for arguments in
        [&["--cancel"][..], &["--task", "x", "greet"], &["--detach"], &["greet", "--ttl", "long"]]
    {
        assert_eq!(fixture.call(arguments).await.code, Some(2), "{arguments:?}");
    }
}

const KEYS: &str = r#"
[server]
listen = "127.0.0.1:0"

[store]
path = "state/taskbridge.db"

[auth]
mode = "api_keys"

[[auth.keys]]
principal = "ann"
sha256 = "21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c"
"#;

/// No message contains the key.
#[tokio::test]
async fn api_key_comes_from_environment() {
    let fixture = CallFixture::with(KEYS);
    let no_key = fixture.call(&["greet", "name=ann"]).await;
    assert_eq!(no_key.code, Some(2));
    assert!(
        no_key.stderr.contains("the server requires an API key; put it into $TASKBRIDGE_KEY"),
        "{}",
        no_key.stderr
    );
    let call_with_key = async |key: &str| {
        let mut command = fixture.command(&["greet", "name=ann"]);
        command.env("TASKBRIDGE_KEY", key);
        fixture.dir.run(command).await
    };
    let wrong = call_with_key("somebody-else's").await;
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("the server rejects the API key in $TASKBRIDGE_KEY"), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("somebody-else"), "{}", wrong.stderr);
    let right = call_with_key("ann-key").await;
    assert_eq!((right.code, right.stdout.as_str()), (Some(0), "hello ann 1 false []\n"), "{right:?}");
    assert!(!right.stderr.contains("ann-key"), "{}", right.stderr);
    let broken = call_with_key("two\nlines").await;
    assert_eq!(broken.code, Some(2));
    assert!(
        broken.stderr.contains("characters that are invalid in a key") && !broken.stderr.contains("two"),
        "{broken:?}"
    );
    assert!(BASICS.contains("single_user"), "the other tests need no key");
}
