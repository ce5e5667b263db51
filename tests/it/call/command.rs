//! Tests for the command line: arguments by the tool's schema, the list of tools, and errors that are found
//! before anything is sent.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::House;
use crate::support::BASICS;

#[tokio::test]
async fn arguments_follow_tool_schema() {
    let house = House::start();
    let called = house.call(&["greet", "name=3", "times=2", "loud=true", "also=a,b"]).await;
    assert_eq!(
        (called.code, called.stdout.as_str()),
        (Some(0), "hello 3 2 true [\"a\",\"b\"]\n"),
        "{called:?}"
    );
    let called = house.call(&["greet", "--args", r#"{"name": "ann", "times": 4}"#, "times:=5"]).await;
    assert_eq!(called.stdout, "hello ann 5 false []\n", "{called:?}");

    fs::write(house.place.path("name.txt"), "bob").unwrap();
    let called = house.call(&["greet", "name=@name.txt"]).await;
    assert_eq!(called.stdout, "hello bob 1 false []\n", "{called:?}");
    fs::write(house.place.path("all.json"), r#"{"name": "eve"}"#).unwrap();
    let mut command = house.command(&["greet", "--args", "-"]);
    command.stdin(fs::File::open(house.place.path("all.json")).unwrap());
    // Started directly, so that its stdin stays this file.
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello eve 1 false []\n");
}

#[tokio::test]
async fn file_parameter_accepts_file() {
    let house = House::start();
    fs::write(house.place.path("plan.bin"), [0, 159, 146, 150]).unwrap();
    let called = house.call(&["count", "text=@plan.bin"]).await;
    assert!(called.stdout.starts_with("4 ") && called.stdout.trim().ends_with("/plan.bin"), "{called:?}");
    let called = house.call(&["count", "text=plan.bin"]).await;
    assert_eq!(called.code, Some(2));
    assert_eq!(called.stderr, "taskbridge: text=plan.bin: it takes a file: write text=@plan.bin\n");
    let called = house.call(&["count", "text=@nowhere"]).await;
    assert_eq!(called.code, Some(2));
    assert!(called.stderr.starts_with("taskbridge: text=@nowhere: it cannot be read: "), "{called:?}");
}

/// Each invalid argument has its message, and no task is created.
#[tokio::test]
async fn invalid_arguments_fail_before_start() {
    let house = House::start();
    let called = house.call(&["greet", "times=9", "loud=perhaps", "nmae=ann", "stray"]).await;
    assert_eq!((called.code, called.stdout.as_str()), (Some(2), ""));
    let lines: Vec<&str> = called.stderr.lines().collect();
    let expected = [
        "taskbridge: times=9: expected whole number from 1 to 5",
        "taskbridge: loud=perhaps: expected true or false",
        "taskbridge: nmae: unknown argument; greet takes `also`, `loud`, `name`, `times`; did you mean `name`?",
        "taskbridge: stray: arguments are written NAME=VALUE",
        "taskbridge: name: missing; expected text. Who.",
    ];
    assert_eq!(lines, expected);
    let called = house.call(&["graet"]).await;
    assert_eq!(called.code, Some(2));
    assert_eq!(called.stderr, "taskbridge: there is no tool \"graet\" on this server; did you mean greet?\n");
    let listed = house.call(&["task_list"]).await;
    assert_eq!(listed.stdout, "There are no tasks.\n", "{listed:?}");
}

#[tokio::test]
async fn tool_list_shows_parameters() {
    let house = House::start();
    for arguments in [&[][..], &["--list"]] {
        let listed = house.call(arguments).await;
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
    let one = house.call(&["count", "--list"]).await;
    assert_eq!(one.stdout, "count\n    text  file\n");
    let json = house.call(&["--list", "--json"]).await;
    let tools: Vec<Value> = serde_json::from_str(&json.stdout).unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "greet" && tool["inputSchema"].is_object()));
}

#[tokio::test]
async fn help_explains_exit_codes() {
    let help = House::start().call(&["--help"]).await;
    for words in ["TASKBRIDGE_KEY", "TASKBRIDGE_URL", "  124  ", "  130  ", "NAME:=JSON", "--idempotency-key"]
    {
        assert!(help.stdout.contains(words), "{words}: {}", help.stdout);
    }
}

/// The exit code is 2. Covers no listener, a wrong path, a wrong scheme and wrong options.
#[tokio::test]
async fn unreachable_server_is_reported() {
    let house = House::start();
    let nobody = house.call(&["--url", "http://127.0.0.1:1", "greet", "name=ann"]).await;
    assert_eq!(nobody.code, Some(2));
    let begin = "taskbridge: cannot connect to http://127.0.0.1:1/mcp: Connection refused";
    assert!(
        nobody.stderr.starts_with(begin) && nobody.stderr.contains("taskbridge serve"),
        "{}",
        nobody.stderr
    );
    let elsewhere = format!("{}/no", house.server.url());
    let elsewhere = house.call(&["--url", &elsewhere]).await;
    assert_eq!(elsewhere.code, Some(2));
    assert!(elsewhere.stderr.contains("there is no MCP endpoint at this address"), "{}", elsewhere.stderr);
    let secure = house.server.url().replace("http:", "https:");
    let secure = house.call(&["--url", &secure]).await;
    assert_eq!(secure.code, Some(2));
    assert!(secure.stderr.ends_with("the server does not speak TLS: use http\n"), "{}", secure.stderr);
    let wrong = house.call(&["--url", "127.0.0.1:8808"]).await;
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("it must be a URL"), "{}", wrong.stderr);
    for arguments in
        [&["--cancel"][..], &["--task", "x", "greet"], &["--detach"], &["greet", "--ttl", "long"]]
    {
        assert_eq!(house.call(arguments).await.code, Some(2), "{arguments:?}");
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
    let house = House::with(KEYS);
    let without = house.call(&["greet", "name=ann"]).await;
    assert_eq!(without.code, Some(2));
    assert!(
        without.stderr.contains("it wants an API key: put yours into $TASKBRIDGE_KEY"),
        "{}",
        without.stderr
    );
    let with = async |key: &str| {
        let mut command = house.command(&["greet", "name=ann"]);
        command.env("TASKBRIDGE_KEY", key);
        house.place.run(command).await
    };
    let wrong = with("somebody-else's").await;
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("it does not know the API key in $TASKBRIDGE_KEY"), "{}", wrong.stderr);
    assert!(!wrong.stderr.contains("somebody-else"), "{}", wrong.stderr);
    let right = with("ann-key").await;
    assert_eq!((right.code, right.stdout.as_str()), (Some(0), "hello ann 1 false []\n"), "{right:?}");
    assert!(!right.stderr.contains("ann-key"), "{}", right.stderr);
    let broken = with("two\nlines").await;
    assert_eq!(broken.code, Some(2));
    assert!(
        broken.stderr.contains("characters that no key has") && !broken.stderr.contains("two"),
        "{broken:?}"
    );
    assert!(BASICS.contains("single_user"), "the other tests need no key");
}
