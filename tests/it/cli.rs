//! Tests of the command line: output streams, config lookup and exit codes. Errors that keep a server from
//! starting are tested in `bad_input`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{BASICS, CTRL_C, Client, PROGRAM, ProgramOutput, Pty, TestDir};

const SIM: &str =
    "[backends.sim]\nkind = \"sim\"\n[tools.nap]\nbackend = \"sim\"\ntarget = { delay_ms = 1 }\n";

fn program(dir: &TestDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    dir.prepare(command.args(arguments));
    command
}

async fn run(dir: &TestDir, arguments: &[&str]) -> ProgramOutput {
    dir.run(program(dir, arguments)).await
}

/// The internal `adapter-helper` is not listed.
#[tokio::test]
async fn help_lists_every_public_command() {
    let help = run(&TestDir::new(""), &["--help"]).await;
    for word in [
        "serve",
        "check",
        "call",
        "tasks",
        "store",
        "schema",
        "--config",
        "--listen",
        "--stdio",
        "TASKBRIDGE_CONFIG",
    ] {
        assert!(help.stdout.contains(word), "{}", help.stdout);
    }
    assert!(help.code == Some(0) && !help.stdout.contains("adapter-helper"));
}

#[tokio::test]
async fn check_reports_valid_config() {
    let checked = run(&TestDir::new(SIM), &["check", "--config", "taskbridge.toml"]).await;
    assert_eq!(checked.code, Some(0));
    assert_eq!(checked.stdout, "taskbridge.toml: all right: 1 tool on 1 backend\n");
    assert_eq!(checked.stderr, "");
}

/// Each error has its own line, with its position in the config and a suggestion.
#[tokio::test]
async fn check_reports_every_error() {
    let dir = TestDir::new(
        "[server]\nlisen = \"x\"\n[tools.t]\nbackend = \"hre\"\ntarget = {}\n[backends.here]\nkind = \"locla\"\n",
    );
    let checked = run(&dir, &["check", "--config", "taskbridge.toml"]).await;
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(1), ""));
    let lines: Vec<&str> = checked.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{}", checked.stderr);
    assert!(lines[0].starts_with("taskbridge.toml:2: server.lisen: unknown field `lisen`"), "{}", lines[0]);
    assert!(lines[0].contains("; did you mean `listen`? (known: `"), "{}", lines[0]);
    assert_eq!(
        lines[1],
        "taskbridge.toml:4: tools.t.backend: unknown backend `hre`; did you mean `here`? (known: `here`)"
    );
    let kind = "taskbridge.toml:7: backends.here.kind: unknown kind `locla`; did you mean `local`? (known: `";
    assert!(lines[2].starts_with(kind) && lines[2].ends_with("`)"), "{}", lines[2]);
}

#[tokio::test]
async fn faulty_backend_hides_no_tool_mistake() {
    let tools = "[tools.a]\nbackend = \"gh\"\ntarget.workflw = \"a.yml\"\n\
                 [tools.b]\nbackend = \"gh\"\ntarget = { workflow = \"b.yml\", ref = 3 }\n\
                 [tools.c]\nbackend = \"gh\"\ntarget = { workflow = \"c.yml\", inputs = { x = \"{{ nowhere }}\" } }\n";
    let backend = "[backends.gh]\nkind = \"github-actions\"\nrepository = \"o/r\"\ntoken = { env = \"NO_SUCH_TOKEN\" }\n";
    let fields = ["tools.a.target.workflw", "tools.b.target.ref", "tools.c.target.inputs.x"];
    let dir = TestDir::new(&format!("{backend}{tools}"));
    let checked = run(&dir, &["check", "--config", "taskbridge.toml"]).await;
    let reports = |field: &str| checked.stderr.lines().any(|line| line.contains(&format!(": {field}")));
    assert!(reports("backends.gh.token") && fields.iter().all(|field| reports(field)), "{}", checked.stderr);
    let no_secrets = run(&dir, &["check", "--no-secrets", "--config", "taskbridge.toml"]).await;
    let reports = |field: &str| no_secrets.stderr.lines().any(|line| line.contains(&format!(": {field}")));
    assert!(
        !reports("backends.gh.token") && fields.iter().all(|field| reports(field)),
        "{}",
        no_secrets.stderr
    );
    assert_eq!(
        no_secrets.stderr.lines().count(),
        checked.stderr.lines().count() - 1,
        "{}",
        no_secrets.stderr
    );

    // A mistake in the backend's own settings hides none of the other errors either.
    let wrong =
        format!("{}call_timout = \"1s\"\n{tools}", backend.replace("{ env = \"NO_SUCH_TOKEN\" }", "\"x\""));
    fs::write(dir.config(), wrong).unwrap();
    let checked = run(&dir, &["check", "--config", "taskbridge.toml"]).await;
    let reports = |field: &str| checked.stderr.lines().any(|line| line.contains(&format!(": {field}")));
    assert!(
        reports("backends.gh.call_timout") && fields.iter().all(|field| reports(field)),
        "{}",
        checked.stderr
    );

    let right = "[tools.a]\nbackend = \"gh\"\ntarget.workflow = \"a.yml\"\n";
    fs::write(dir.config(), format!("{backend}{right}")).unwrap();
    let no_secrets = run(&dir, &["check", "--no-secrets", "--config", "taskbridge.toml"]).await;
    assert_eq!(
        no_secrets.stdout, "taskbridge.toml: all right, secrets not checked: 1 tool on 1 backend\n",
        "{no_secrets:?}"
    );
}

/// On a terminal, `serve --stdio` says what it is for and names `taskbridge call`.
#[tokio::test]
async fn stdio_at_terminal_prints_hint() {
    let dir = TestDir::new(&format!("{BASICS}{SIM}"));
    let mut serve = Pty::start(&program(&dir, &["serve", "--stdio", "--config", "taskbridge.toml"]));
    serve.wait_for("--stdio waits for MCP messages of a client on standard input").await;
    serve.wait_for("`taskbridge call`").await;
    serve.type_keys(CTRL_C);
    let (code, _) = serve.wait_for_end().await;
    assert_eq!(code, Some(0));
}

/// `TASKBRIDGE_CONFIG` comes before `config/taskbridge.toml`, which comes before the user's config folder.
#[tokio::test]
async fn config_lookup_follows_documented_order() {
    let dir = TestDir::new("");
    let missing = run(&dir, &["check"]).await;
    assert_eq!(missing.code, Some(1));
    let expected = "taskbridge: no config file: there is no config/taskbridge.toml nor ";
    assert!(missing.stderr.starts_with(expected), "{}", missing.stderr);

    let put = |path: &str| {
        fs::create_dir_all(dir.path(path).parent().unwrap()).unwrap();
        fs::write(dir.path(path), SIM).unwrap();
    };
    put(".config/taskbridge/taskbridge.toml");
    let found = run(&dir, &["check"]).await;
    assert!(found.stdout.contains(".config/taskbridge/taskbridge.toml: all right"), "{found:?}");

    put("config/taskbridge.toml");
    let found = run(&dir, &["check"]).await;
    assert!(found.stdout.starts_with("config/taskbridge.toml: all right"), "{found:?}");

    put("other.toml");
    let mut command = program(&dir, &["check"]);
    command.env("TASKBRIDGE_CONFIG", "other.toml");
    let found = dir.run(command).await;
    assert!(found.stdout.starts_with("other.toml: all right"), "{found:?}");
}

/// `check` without arguments finds it in the root of the repository.
#[tokio::test]
async fn repository_default_config_is_valid() {
    let dir = TestDir::new("");
    let mut command = program(&dir, &["check"]);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let found = dir.run(command).await;
    assert!(found.stdout.starts_with("config/taskbridge.toml: all right: "), "{found:?}");
}

/// It prints a client config and a `curl` command, and creates no files but its state.
#[test]
fn server_prints_client_config_and_stops() {
    // Without a path in `[store]`, state is in the XDG state folder, and no other file is written.
    let dir = TestDir::new(&format!("[server]\nlisten = \"127.0.0.1:0\"\n{SIM}"));
    let mut server = dir.serve();
    let url = server.url().to_owned();
    assert_eq!(server.stop(), Some(0));
    let printed = server.read_stdout();
    let snippet = printed.lines().find(|line| line.contains("mcpServers")).unwrap();
    let snippet: Value = serde_json::from_str(snippet).unwrap();
    assert_eq!(snippet["mcpServers"]["taskbridge"], serde_json::json!({"type": "http", "url": url.as_str()}));
    assert!(printed.contains(&format!("curl -i {url} ")), "{printed}");
    assert!(fs::read_to_string(dir.path("server.log")).unwrap().contains("stopping"));
    assert!(dir.path(".local/state/taskbridge/taskbridge.db").is_file());
    let mut names: Vec<_> =
        fs::read_dir(dir.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".local", "server.log", "taskbridge.toml"]);
}

/// `--listen` follows the same rules as `server.listen` of the config.
#[tokio::test]
async fn public_listen_option_is_refused() {
    let dir = TestDir::new(&format!("{BASICS}{SIM}"));
    let refused = run(&dir, &["--config", "taskbridge.toml", "--listen", "0.0.0.0:0"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.starts_with("taskbridge: --listen 0.0.0.0:0: other machines can reach "));
}

#[tokio::test]
async fn backend_connection_error_names_config_line() {
    let backend = "[backends.there]\nkind = \"sim\"\naddress = \"192.0.2.1:80\"\n";
    let text = format!("{BASICS}{backend}{SIM}");
    let line = 1 + text.lines().position(|line| line == "[backends.there]").unwrap();
    let refused = run(&TestDir::new(&text), &["--config", "taskbridge.toml"]).await;
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    let expected = format!(
        "taskbridge: taskbridge.toml:{line}: backends.there: address = 192.0.2.1:80: write a loopback"
    );
    assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
}

/// Log lines are not written to standard output, not even at debug level.
#[test]
fn stdio_writes_only_protocol_to_stdout() {
    let dir = TestDir::new(&format!("{BASICS}{SIM}"));
    let mut child = program(&dir, &["serve", "--stdio", "--config", "taskbridge.toml"])
        .env("TASKBRIDGE_LOG", "debug")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let initialize = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        },
    });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{initialize}\n").as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let messages: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages.len(), 1, "{text}");
    assert_eq!(messages[0]["id"], 1);
    assert_eq!(messages[0]["result"]["protocolVersion"], "2025-11-25");
}

/// AWS's libraries would log the id of the access key when they find it, and whole requests.
#[test]
fn trace_log_contains_no_aws_keys() {
    let aws = "[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\nendpoint = \"http://127.0.0.1:9\"\n";
    let dir = TestDir::new(&format!("{BASICS}{aws}{SIM}"));
    let mut child = program(&dir, &["serve", "--stdio", "--config", "taskbridge.toml"])
        .env("TASKBRIDGE_LOG", "trace,aws_config=trace")
        .env("AWS_ACCESS_KEY_ID", "AKIAOFTHETESTS")
        .env("AWS_SECRET_ACCESS_KEY", "s3cr3t-of-the-tests")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && log.contains("TRACE"), "{log}");
    assert!(!log.contains("AKIAOFTHETESTS") && !log.contains("s3cr3t-of-the-tests"), "{log}");
}

/// AWS's libraries would print the whole response of a refusing metadata service in Rust's `Debug` format.
#[test]
#[expect(clippy::disallowed_methods, reason = "it answers beside the program under test")]
fn refusing_metadata_service_is_plain_line() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let metadata = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 4096]);
            let _ =
                client.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let aws = "[backends.aws]\nkind = \"step-functions\"\nregion = \"us-east-1\"\n";
    let dir = TestDir::new(&format!("{BASICS}{aws}{SIM}"));
    for command in ["serve --stdio", "doctor"] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.extend(["--config", "taskbridge.toml"]);
        let mut child = program(&dir, &arguments)
            .env("AWS_EC2_METADATA_SERVICE_ENDPOINT", &metadata)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdin.take());
        let output = child.wait_with_output().unwrap();
        let printed =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(printed.contains("the metadata service of this machine (IMDS)"), "{command}: {printed}");
        assert!(printed.contains("attach a role to this machine"), "{command}: {printed}");
        for part in ["ErrorResponse", "ResponseError", "SdkBody", "server's log"] {
            assert!(!printed.contains(part), "{command}: {part}: {printed}");
        }
    }
}

#[tokio::test]
async fn unknown_helper_is_refused() {
    let refused = run(&TestDir::new(""), &["adapter-helper", "none"]).await;
    assert_eq!(refused.code, Some(1));
    assert_eq!(refused.stderr, "taskbridge: no adapter of kind `none` has a helper\n");
}

/// Connects and sends half a request, so that the server has a request in flight.
fn half_a_request(url: &str) -> TcpStream {
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    // The server sends `100 Continue` when it begins to read the body.
    let mut response = [0; 12];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 100");
    stream
}

/// After a second signal the server no longer waits for requests in flight.
#[test]
fn second_signal_stops_at_once() {
    let dir = TestDir::new(&format!("{BASICS}{SIM}"));
    let mut server = dir.serve();
    let _busy = half_a_request(server.url());
    server.signal(Signal::TERM);
    let stopping = || fs::read_to_string(dir.path("server.log")).unwrap().contains("stopping");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !stopping() {
        assert!(Instant::now() < deadline, "it never says that it stops");
        std::thread::sleep(Duration::from_millis(5));
    }
    let second_signal = Instant::now();
    assert_eq!(server.stop(), Some(0));
    // Without the second signal the server would wait five seconds for that request.
    assert!(second_signal.elapsed() < Duration::from_secs(4), "{:?}", second_signal.elapsed());
}

/// A stream ends without a result of its task, and the task exists after a restart.
#[tokio::test]
async fn server_stop_ends_streams_keeps_tasks() {
    let dir = TestDir::new(&format!("{BASICS}{SIM}parameters.delay_ms.type = \"integer\"\n"));
    let mut server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let task = client.start("nap", serde_json::json!({"delay_ms": 3_600_000})).await.unwrap();
    let mut blocked = client.stream("tasks/result", serde_json::json!({"taskId": task})).await.unwrap();
    let listening = client.listen().await.unwrap();
    server.signal(Signal::TERM);
    while let Ok(Some(message)) = blocked.next().await {
        assert!(message.get("result").is_none(), "nobody knows the result: {message}");
    }
    drop(listening);
    assert_eq!(server.stop(), Some(0));
    let server = dir.serve();
    let found = client.at(server.url()).get(&task).await.unwrap();
    assert_eq!(found["taskId"], task.as_str());
}
