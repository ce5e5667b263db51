//! Tests of `taskbridge doctor` and `taskbridge discover` as commands: findings and fixes, the exit code,
//! and tools that can be pasted into a config.

use serde_json::{Map, Value, json};
use taskbridge_sdk::DiscoveredTool;
use taskbridge_sdk::sim::SimClient;

use crate::support::{BASICS, Client, ProgramOutput, SimProcess, TestDir};

const ONE_TOOL: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
description = "Says hello."
backend = "here"
target.command = ["echo", "hello"]
"#;

async fn doctor(dir: &TestDir, arguments: &[&str]) -> ProgramOutput {
    let mut command = dir.command("doctor");
    command.args(arguments);
    dir.run(command).await
}

/// Runs `doctor --json`. Returns the findings and the exit code.
async fn doctor_findings(dir: &TestDir) -> (Vec<Value>, Option<i32>) {
    let ended = doctor(dir, &["--json"]).await;
    (serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {ended:?}")), ended.code)
}

/// Returns the one finding with this subject, and fails if there is none or more than one.
fn finding_about<'a>(findings: &'a [Value], component: &str, check: &str) -> &'a Value {
    let mut hits = findings.iter().filter(|one| one["of"] == component && one["what"] == check);
    let hit = hits.next().unwrap_or_else(|| panic!("nothing about {component}: {check} in {findings:#?}"));
    assert!(hits.next().is_none(), "{component}: {check} is told twice");
    hit
}

/// This is true with and without a running server, and no database is created.
#[tokio::test]
async fn valid_setup_has_no_doctor_faults() {
    let dir = TestDir::new(&format!("{BASICS}{ONE_TOOL}"));
    let ended = doctor(&dir, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stdout.contains("ok       config: file: ") && ended.stdout.contains("1 tool on 1 backend"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("the first server creates it"), "{ended:?}");
    assert!(ended.stdout.contains("ok       backend here: tool `hello`: runs /"), "{ended:?}");
    assert!(ended.stdout.ends_with("0 faults, 0 warnings\n"), "{ended:?}");
    assert!(!dir.path("state/taskbridge.db").exists(), "a database was made");

    // The same with a running server on the same store.
    let server = dir.serve();
    let (findings, code) = doctor_findings(&dir).await;
    assert_eq!(code, Some(0), "{findings:#?}");
    assert!(
        finding_about(&findings, "store", "database")["says"]
            .as_str()
            .unwrap()
            .contains("the schema matches this version")
    );
    assert_eq!(finding_about(&findings, "store", "sealed arguments")["verdict"], "ok");
    drop(server);
}

/// No credentials exist yet at this point, so `--policy` makes no calls.
#[tokio::test]
async fn policy_is_printed_offline() {
    let closed_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let aws = format!(
        "[backends.aws]\nkind = \"step-functions\"\nregion = \"eu-west-1\"\nendpoint = \"http://{closed_address}\"\n\
         [tools.deploy]\nbackend = \"aws\"\ntarget.state_machine = \"Deploy\"\n"
    );
    let dir = TestDir::new(&format!("{BASICS}{ONE_TOOL}{aws}"));
    let ended = doctor(&dir, &["--policy"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let policy: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {ended:?}"));
    let machine = "arn:aws:states:eu-west-1:*:stateMachine:Deploy";
    let starts = |statement: &&Value| {
        statement["Action"].as_array().unwrap().contains(&json!("states:StartExecution"))
    };
    let statement = policy["Statement"].as_array().unwrap().iter().find(starts).unwrap();
    assert_eq!(statement["Resource"], json!([machine]));
    assert_eq!(ended.stderr, "backend `aws`: the server's credentials\n");

    let ended = doctor(&TestDir::new(&format!("{BASICS}{ONE_TOOL}")), &["--policy"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("no backend of this config needs an IAM policy"), "{ended:?}");
}

/// Tools, backends and receivers that cannot work are faults. One fault hides no other. No secret is shown.
#[tokio::test]
async fn doctor_faults_come_with_fixes() {
    let dir = TestDir::new("");
    let sim = SimProcess::start(&dir, "keyed");
    let closed_address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let config = format!(
        "{BASICS}{ONE_TOOL}[tools.lost]\nbackend = \"here\"\ntarget.command = [\"no-such-program\"]\n\
         [tools.elsewhere]\nbackend = \"here\"\ntarget = {{ command = [\"true\"], working_dir = \"nowhere\" }}\n\
         [backends.forge]\nkind = \"sim\"\naddress = \"{}\"\ndiscover = {{}}\n\
         [tools.refused]\nbackend = \"forge\"\ntarget = {{ outcome = \"refuse\" }}\n\
         [[notify]]\nurl = \"http://{closed_address}/secret-path\"\nsecret = \"{secret}\"\n",
        sim.address
    );
    std::fs::write(dir.config(), config).unwrap();
    let (findings, code) = doctor_findings(&dir).await;
    assert_eq!(code, Some(1));
    for (component, check, message) in [
        ("backend here", "tool `lost`", "/usr/bin/no-such-program"),
        ("backend here", "tool `elsewhere`", "does not exist"),
        ("backend forge", "tool `refused`", "refuses its jobs"),
        ("notify", &*format!("http://{closed_address}"), "refused"),
    ] {
        let finding = finding_about(&findings, component, check);
        assert_eq!(finding["verdict"], "fault", "{finding}");
        assert!(finding["says"].as_str().unwrap().contains(message), "{finding}");
        assert!(!finding["fix"].as_str().unwrap().is_empty(), "{finding}");
    }
    assert_eq!(finding_about(&findings, "config", "tool `lost`")["verdict"], "warning", "no description");
    let discovery = finding_about(&findings, "backend forge", "discovery");
    assert!(discovery["verdict"] == "warning" && discovery["says"] == "offers no tool", "{discovery}");
    assert_eq!(
        finding_about(&findings, "backend here", "tool `hello`")["verdict"],
        "ok",
        "one fault hides no other finding"
    );

    let control = SimClient::new(sim.address.parse().unwrap());
    control.set_outage(true).await.unwrap();
    let ended = doctor(&dir, &[]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("fault    backend forge: discovery: "), "{ended:?}");
    assert!(ended.stdout.contains("fault    backend forge: engine: "), "{ended:?}");
    assert!(ended.stdout.contains("         > start the engine at"), "{ended:?}");
    assert!(!ended.stdout.contains("secret-path") && !ended.stdout.contains(secret), "a secret is shown");
}

/// A FIFO without a writer stands in for a file on a shared file system whose server is down.
#[tokio::test]
async fn doctor_reports_hanging_file_in_time() {
    let dir = TestDir::new("");
    let bin = dir.path("bin");
    let cluster = format!(
        "[backends.cluster]\nkind = \"slurm\"\ncommands_dir = \"{}\"\ncommand_timeout = \"1s\"\n\
         [tools.dock]\ndescription = \"Docks.\"\nbackend = \"cluster\"\ntarget.script = \"dock.sh\"\n",
        bin.display()
    );
    std::fs::write(dir.config(), format!("{BASICS}{cluster}")).unwrap();
    // An unreachable controller does not stop the other checks.
    std::fs::create_dir(&bin).unwrap();
    for name in ["scontrol", "sinfo", "sacctmgr"] {
        let lines = "#!/bin/sh\necho 'Unable to contact slurm controller (connect failure)' >&2\nexit 1\n";
        std::fs::write(bin.join(name), lines).unwrap();
        std::fs::set_permissions(bin.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.path("dock.sh"), 0o600.into()).unwrap();
    let (findings, code) = doctor_findings(&dir).await;
    assert_eq!(code, Some(1));
    let message = finding_about(&findings, "backend cluster", "tool `dock`")["says"].as_str().unwrap();
    assert!(message.contains("dock.sh has not answered for ") && !message.contains("for 0 s"), "{message}");
}

#[tokio::test]
async fn unusable_config_or_store_is_fault() {
    let dir = TestDir::new("[server]\nlisen = 1\n[tools.x]\nbackend = \"no\"\ntarget = {}\n");
    let (findings, code) = doctor_findings(&dir).await;
    assert_eq!((code, findings.len()), (Some(1), 2), "{findings:#?}");
    assert!(findings[0]["says"].as_str().unwrap().contains("did you mean `listen`?"), "{findings:#?}");

    let store = BASICS.split("[store]").next().unwrap();
    let postgres = "[store]\nkind = \"postgres\"\nurl = \"postgres://nobody@127.0.0.1:1/none\"\nbackends_dir = \"state\"\n";
    let dir = TestDir::new(&format!("{store}{postgres}"));
    let (findings, code) = self::doctor_findings(&dir).await;
    assert_eq!(code, Some(1));
    assert_eq!(finding_about(&findings, "store", "database")["verdict"], "fault");
}

#[tokio::test]
async fn damaged_database_is_fault_with_recovery() {
    let dir = TestDir::new(&format!("{BASICS}{ONE_TOOL}"));
    assert_eq!(dir.serve().stop(), Some(0));
    let database = dir.path("state/taskbridge.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[100..].fill(0xA5);
    std::fs::write(&database, bytes).unwrap();
    let (findings, code) = doctor_findings(&dir).await;
    let finding = finding_about(&findings, "store", "database");
    assert_eq!((code, &finding["verdict"]), (Some(1), &json!("fault")), "{finding}");
    let message = format!("{} {}", finding["says"], finding["fix"]);
    for part in ["taskbridge.db is damaged", "backup", "sqlite3", ".recover"] {
        assert!(message.contains(part), "no {part} in: {message}");
    }
    assert!(!message.contains("migrate"), "{message}");
}

/// The doctor reports sealed arguments that no key of the config opens, and shows no key.
#[tokio::test]
async fn sealed_arguments_without_key_are_fault() {
    let config = |key: &str| {
        format!(
            "{BASICS}[seal]\nkeys = [\"{key}\"]\n{ONE_TOOL}[tools.login]\nbackend = \"here\"\nmax_running = 1\n\
             target = {{ command = [\"sh\", \"-c\", \"while [ ! -e go ]; do sleep 0.02; done\"], working_dir = \".\" }}\n\
             parameters.token = {{ type = \"string\", sensitive = true }}\n"
        )
    };
    let (first, second) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let dir = TestDir::new(&config(first));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let running = client.start("login", json!({"token": "one"})).await.unwrap();
    let waiting = client.start("login", json!({"token": "two"})).await.unwrap();
    let (findings, _) = doctor_findings(&dir).await;
    let message = finding_about(&findings, "store", "sealed arguments")["says"].as_str().unwrap().to_owned();
    assert!(message.ends_with(" with sealed arguments, and 1 of [seal] keys can open them"), "{message}");
    let text = std::fs::read_to_string(dir.config()).unwrap();
    let other = dir.path("other.toml");
    std::fs::write(&other, text.replace(first, second)).unwrap();
    let mut command = std::process::Command::new(crate::support::PROGRAM);
    command.args(["doctor", "--json", "--config"]).arg(&other);
    dir.prepare(&mut command);
    let ended = dir.run(command).await;
    let other_findings: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    let finding = finding_about(&other_findings, "store", "sealed arguments");
    assert_eq!((ended.code, &finding["verdict"]), (Some(1), &json!("fault")), "{finding}");
    assert!(!ended.stdout.contains(second), "a key is shown");
    std::fs::write(dir.path("go"), "").unwrap();
    for task in [waiting, running] {
        client.result(&task).await.unwrap();
    }
}

#[tokio::test]
async fn discover_of_failed_backend_exits_nonzero() {
    let dir = TestDir::new("");
    let sim = SimProcess::start(&dir, "keyed");
    let forge = format!("[backends.forge]\nkind = \"sim\"\naddress = \"{}\"\n", sim.address);
    std::fs::write(dir.config(), format!("{BASICS}{forge}")).unwrap();
    SimClient::new(sim.address.parse().unwrap()).set_outage(true).await.unwrap();
    let ended = dir.run(dir.command("discover")).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("taskbridge: backend `forge`: "), "{ended:?}");
    std::fs::write(dir.config(), format!("{BASICS}{ONE_TOOL}")).unwrap();
    let ended = dir.run(dir.command("discover")).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no backend supports discovery"), "{ended:?}");
}

/// The output of `discover`, appended to the config, passes `check`, and the server offers its tools.
#[tokio::test]
async fn discover_output_is_valid_config() {
    let dir = TestDir::new("");
    let sim = SimProcess::start(&dir, "keyed");
    let schema = json!({
        "type": "object", "properties": {
            "text": {"type": "string", "description": "In \"quotes\",\nand lines", "default": null},
            "steps": {"type": "integer", "enum": [1, 2, 3]},
        }, "required": ["text"],
    });
    let tool = |name: &str, schema: &Value| DiscoveredTool {
        name: name.to_owned(),
        title: Some("Night".to_owned()),
        description: Some("Runs at night.\nOr not.".to_owned()),
        input_schema: schema.as_object().unwrap().clone(),
        target: json!({"delay_ms": 5, "question": {"message": "Go on?"}}),
        more: Map::from_iter([("annotations".to_owned(), json!({"read_only": true}))]),
    };
    let with_null = json!({"type": "object", "properties": {"x": {"enum": [null, 1]}}});
    let bad = json!({"type": "strin"});
    let tools =
        [tool("night", &schema), tool("nothing", &with_null), tool("bad", &bad), tool("hello", &schema)];
    SimClient::new(sim.address.parse().unwrap()).offer(tools.to_vec()).await.unwrap();
    let config =
        format!("{BASICS}{ONE_TOOL}[backends.forge]\nkind = \"sim\"\naddress = \"{}\"\n", sim.address);
    std::fs::write(dir.config(), &config).unwrap();

    let ended = dir.run(dir.command("discover")).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("backend `here` is skipped"), "{ended:?}");
    assert!(
        ended.stdout.contains("# `hello` of backend `forge`: the config has a tool of this name"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("# `bad` of backend `forge`: "), "{ended:?}");
    assert!(ended.stdout.contains("# `nothing` of backend `forge`: cannot be written as TOML"), "{ended:?}");
    std::fs::write(dir.config(), format!("{config}{}", ended.stdout)).unwrap();
    let checked = dir.run(dir.command("check")).await;
    assert_eq!(checked.code, Some(0), "{checked:?}\n{}", ended.stdout);
    assert!(checked.stdout.contains("2 tools on 2 backends"), "{checked:?}");

    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let listed = client.request("tools/list", json!({})).await.unwrap();
    let night = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "night").unwrap();
    assert_eq!(night["description"], "Runs at night.\nOr not.");
    assert_eq!(night["inputSchema"]["properties"]["text"]["description"], "In \"quotes\",\nand lines");

    let mut command = dir.command("discover");
    command.arg("here");
    let refused = dir.run(command).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("backend `here`: this kind of backend does not support discovery"),
        "{refused:?}"
    );
    let mut command = dir.command("discover");
    command.arg("nowhere");
    let refused = dir.run(command).await;
    assert!(refused.stderr.contains("unknown backend `nowhere`; the config has forge, here"), "{refused:?}");
}
