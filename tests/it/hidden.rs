//! Tests that secrets do not leak. A server has a different secret in every setting that takes one, and logs
//! at the most verbose level. Clients call it correctly and incorrectly, and every command inspects it. No
//! output may contain a secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{BASICS, Client, PROGRAM, ProgramOutput, Server, SimProcess, TestDir, text};

/// Each setting has its own secret, so that a failure names the one that leaked.
const KEY: &str = "hidden-key-of-ann-0123456789";
const WRONG_KEY: &str = "hidden-wrong-key-0123456789";
const SEAL: &str = "hidden-seal-0123456789-0123456789-0123456789";
const HOOK: &str = "hidden-hook-0123456789";
const WRONG_HOOK: &str = "hidden-wrong-hook-0123456789";
const NOTIFY: &str = "hidden-notify-0123456789-0123456789";
const ARGUMENT: &str = "hidden-argument-0123456789";
const WRONG_ARGUMENT: &str = "misfit-hidden-argument-0123456789";
const PASSWORD: &str = "hidden-password-0123456789";
const TOKEN: &str = "hidden-token-0123456789";
const WEBHOOK: &str = "hidden-webhook-0123456789";
const METRICS: &str = "hidden-metrics-0123456789-0123456789";
const AUDIT: &str = "hidden-audit-0123456789-0123456789";
const COLLECTOR: &str = "hidden-collector-0123456789";

fn all_secrets() -> Vec<String> {
    let known = [KEY, SEAL, HOOK, ARGUMENT, PASSWORD, TOKEN, WEBHOOK, METRICS, AUDIT, COLLECTOR];
    let wrong = [WRONG_KEY, WRONG_HOOK, WRONG_ARGUMENT];
    let mut secrets: Vec<String> = known.iter().chain(&wrong).map(|secret| (*secret).to_owned()).collect();
    secrets.extend([
        NOTIFY.to_owned(),
        STANDARD.encode(NOTIFY),
        STANDARD.encode(TOKEN),
        STANDARD.encode(ARGUMENT),
    ]);
    secrets
}

fn assert_no_secret(source: &str, text: &str) {
    for secret in all_secrets() {
        assert!(!text.contains(&secret), "{secret} is in {source}:\n{text}");
    }
}

fn assert_clean_output(source: &str, ended: &ProgramOutput) {
    assert_no_secret(source, &ended.stdout);
    assert_no_secret(source, &ended.stderr);
}

fn config(engine: &SimProcess) -> String {
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(KEY));
    let notify = STANDARD.encode(NOTIFY);
    format!(
        r#"
[server]
listen = "127.0.0.1:0"

[auth]
mode = "api_keys"
keys = [{{ principal = "ann", sha256 = "{digest}" }}]

[store]
path = "state/taskbridge.db"

[seal]
keys = [{{ env = "SEAL" }}]

[metrics]
listen = "127.0.0.1:0"
token = "{METRICS}"

[audit]
to = ["file"]
path = "audit.jsonl"
key = "{AUDIT}"

[telemetry]
otlp = "http://127.0.0.1:9"
headers = {{ authorization = "{COLLECTOR}" }}

[[notify]]
url = "http://127.0.0.1:9/events"
secret = "whsec_{notify}"

[backends.forge]
kind = "sim"
address = "{}"
hook_secret = {{ file = "hook" }}

[backends.here]
kind = "local"

[tools.deploy]
backend = "here"
parameters.token = {{ type = "string", sensitive = true, pattern = "^hidden" }}
parameters.lasts = {{ type = "string", default = "0.1" }}
target = {{ command = ["sh", "-c", "test -n \"$T\" && sleep \"$1\" && echo done", "sh", "{{{{ lasts }}}}"], env = {{ T = "{{{{ token }}}}" }} }}
"#,
        engine.address
    )
}

/// Collects everything that clients receive, for valid and invalid requests.
async fn client_outputs(server: &Server, metrics: &str) -> Vec<(&'static str, String)> {
    let client = Client::open_with_key(server.url(), KEY).await.unwrap();
    let task = client.start("deploy", json!({"token": ARGUMENT})).await.unwrap();
    let result = client.result(&task).await.unwrap();
    assert_eq!(text(&result), "done\n", "the job had its secret");
    let long_task = client.start("deploy", json!({"token": ARGUMENT, "lasts": "60"})).await.unwrap();
    let mut outputs = vec![
        ("the result", result.to_string()),
        ("the task", client.get(&task).await.unwrap().to_string()),
        ("the list of tasks", json!(client.list().await.unwrap()).to_string()),
        ("the task that runs", client.get(&long_task).await.unwrap().to_string()),
        ("a misfit", format!("{:?}", client.call("deploy", json!({"token": WRONG_ARGUMENT})).await)),
        (
            "a misfit of another kind",
            format!("{:?}", client.call("deploy", json!({"token": [WRONG_ARGUMENT]})).await),
        ),
        ("the tools", client.request("tools/list", json!({})).await.unwrap().to_string()),
        ("a cancellation", client.cancel(&long_task).await.unwrap().to_string()),
        (
            "an answer to a wrong key",
            format!("{:?}", Client::open_with_key(server.url(), WRONG_KEY).await.err()),
        ),
    ];
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let endpoint = |path: &str| server.url().replace("/mcp", path);
    for path in ["/healthz", "/readyz"] {
        let response = http.get(endpoint(path)).bearer_auth(KEY).send().await.unwrap();
        outputs.push(("the health", response.text().await.unwrap()));
    }
    let numbers = http.get(metrics).bearer_auth(METRICS).send().await.unwrap().text().await.unwrap();
    assert!(numbers.contains("tool=\"deploy\""), "{numbers}");
    outputs.push(("the metrics", numbers));
    outputs
        .push(("no metrics", http.get(metrics).bearer_auth(KEY).send().await.unwrap().text().await.unwrap()));
    for secret in [HOOK, WRONG_HOOK] {
        let post = http.post(endpoint("/hooks/forge")).header("x-sim-secret", secret).body("{}");
        outputs.push(("an answer to a delivery", post.send().await.unwrap().text().await.unwrap()));
    }
    let broken = http.post(server.url()).bearer_auth(KEY).body(format!("{{\"broken\": \"{ARGUMENT}"));
    outputs.push(("an answer to what is broken", broken.send().await.unwrap().text().await.unwrap()));
    outputs
}

/// This covers replies, the log at trace level, metrics, command output, the audit log and the store.
#[tokio::test]
async fn no_output_contains_secrets() {
    let dir = TestDir::new("");
    let engine = SimProcess::start(&dir, "keyed");
    std::fs::write(dir.path("hook"), HOOK).unwrap();
    std::fs::write(dir.config(), config(&engine)).unwrap();
    let mut serve = dir.command("serve");
    serve.env("TASKBRIDGE_LOG", "trace").env("SEAL", SEAL);
    let mut server = Server::spawn(serve, &dir.path("server.log"));
    server.wait_until_it_listens();
    let metrics = server.metrics_url();
    for (source, text) in client_outputs(&server, &metrics).await {
        assert_no_secret(source, &text);
    }
    let verbose_command = |arguments: &[&str]| {
        let mut command = dir.command(arguments[0]);
        command.args(&arguments[1..]).env("SEAL", SEAL).env("TASKBRIDGE_LOG", "trace");
        command
    };
    let mut tasks = std::process::Command::new(crate::support::PROGRAM);
    dir.prepare(&mut tasks);
    tasks.args(["tasks", "export", "--config"]).arg(dir.config()).env("SEAL", SEAL);
    let exported = dir.run(tasks).await;
    assert!(exported.stdout.contains("\"deploy\""), "{exported:?}");
    assert_clean_output("taskbridge tasks export", &exported);
    for arguments in [&["check"][..], &["doctor"], &["doctor", "--json"], &["discover"]] {
        assert_clean_output(arguments[0], &dir.run(verbose_command(arguments)).await);
    }
    let without_seal = dir.run(dir.command("check")).await;
    assert!(
        without_seal.stderr.contains("SEAL"),
        "without its variable the config is wrong: {without_seal:?}"
    );
    assert_clean_output("a check of a config that is wrong", &without_seal);
    server.stop();
    let log = std::fs::read_to_string(dir.path("server.log")).unwrap();
    assert!(log.contains("TRACE") && log.contains("deploy"), "all of the log is on");
    assert_no_secret("the log", &log);
    // Sensitive arguments are not in the store or the audit log either, neither in clear text nor in base64.
    assert!(std::fs::read_to_string(dir.path("audit.jsonl")).unwrap().contains("task.created"));
    for file in ["state/taskbridge.db", "state/taskbridge.db-wal", "audit.jsonl"] {
        let bytes = std::fs::read(dir.path(file)).unwrap_or_default();
        assert_no_secret("the store", &String::from_utf8_lossy(&bytes));
    }
}

/// Engines and a database that are unreachable. The error messages must not contain the credentials.
#[tokio::test]
async fn connection_errors_contain_no_secrets() {
    let github = format!(
        "[backends.forge]\nkind = \"github-actions\"\napi = \"http://127.0.0.1:9\"\nrepository = \"a/b\"\n\
         token = \"{TOKEN}\"\nwebhook_secret = \"{WEBHOOK}\"\n"
    );
    let rest = format!(
        "[backends.cluster]\nkind = \"slurm\"\nrest = {{ url = \"http://127.0.0.1:9\", user = \"ann\", token = \"{TOKEN}\" }}\n"
    );
    let database =
        |extra: &str| format!("[store]\nkind = \"postgres\"\nschema = \"x\"\ntls = false\n{extra}");
    let in_address = database(&format!("url = \"postgres://ann:{PASSWORD}@127.0.0.1:9/x\"\n"));
    let as_setting =
        database(&format!("url = \"postgres://ann@127.0.0.1:9/x\"\npassword = \"{PASSWORD}\"\n"));
    let listen = "[server]\nlisten = \"127.0.0.1:0\"\n[auth]\nsingle_user = true\n";
    for config in
        [github, rest, in_address, as_setting, format!("[auth]\nmode = \"api_keys\"\nkeys = \"{TOKEN}\"\n")]
    {
        let dir = TestDir::new(&if config.contains("[auth]") { config } else { format!("{listen}{config}") });
        for verb in ["check", "doctor", "serve"] {
            let mut command = dir.command(verb);
            command.env("TASKBRIDGE_LOG", "trace").env("RUST_BACKTRACE", "1");
            if verb == "serve" {
                // The server ends with its stdin, which is empty.
                command.arg("--stdio");
            }
            assert_clean_output(verb, &dir.run(command).await);
        }
    }
}

/// Verifies that the tests above would detect a secret.
#[test]
fn a_secret_would_be_found() {
    let leak = json!({"a": [{"b": format!("x{TOKEN}y")}]});
    let result = std::panic::catch_unwind(|| assert_no_secret("what holds one", &leak.to_string()));
    assert!(result.is_err());
}

/// A tool that searches the server's process and the job's supervisor for the secret.
const PEEK: &str = r#"
[backends.here]
kind = "local"

[tools.peek]
backend = "here"
parameters.server = { type = "integer" }
target.command = ["sh", "-c", "cd \"/proc/$1\" && cat environ mem 2>&1; cat \"/proc/$PPID/environ\" 2>&1; echo over", "sh", "{{ server }}"]
"#;

/// A job can read neither the server's environment and memory nor the environment of its supervisor.
#[tokio::test]
async fn local_job_cannot_read_server_environment() {
    let dir = TestDir::new(&format!("{BASICS}{PEEK}"));
    // Root can read every process, so the server and its jobs run without root's capabilities.
    let mut serve = match rustix::process::geteuid().is_root() {
        true => {
            let mut command = std::process::Command::new("setpriv");
            command.args(["--bounding-set=-all", "--inh-caps=-all", PROGRAM, "serve", "--config"]);
            command.arg(dir.config());
            dir.prepare(&mut command);
            command
        }
        false => dir.command("serve"),
    };
    serve.env("SECRET", HOOK);
    let mut server = Server::spawn(serve, &dir.path("server.log"));
    server.wait_until_it_listens();
    let client = Client::open(server.url()).await.unwrap();
    let output = text(&client.call("peek", json!({"server": server.pid()})).await.unwrap());
    assert!(output.contains("over") && !output.contains(HOOK), "{output}");
    assert_eq!(output.matches("denied").count(), 3, "none of it can be read: {output}");
    assert_eq!(server.stop(), Some(0));
}
