//! Tests of `taskbridge doctor` and `taskbridge discover` as commands: findings and fixes, the exit code,
//! and tools that can be pasted into a config.

use serde_json::{Map, Value, json};
use taskbridge_sdk::DiscoveredTool;
use taskbridge_sdk::sim::SimClient;

use crate::support::{BASICS, Client, Ended, Place, SimProcess};

const ONE: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
description = "Says hello."
backend = "here"
target.command = ["echo", "hello"]
"#;

async fn doctor(place: &Place, more: &[&str]) -> Ended {
    let mut command = place.command("doctor");
    command.args(more);
    place.run(command).await
}

/// Runs `doctor --json`. Returns the findings and the exit code.
async fn found(place: &Place) -> (Vec<Value>, Option<i32>) {
    let ended = doctor(place, &["--json"]).await;
    (serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {ended:?}")), ended.code)
}

/// Returns the one finding with this subject, and fails if there is none or more than one.
fn about<'a>(found: &'a [Value], of: &str, what: &str) -> &'a Value {
    let mut hits = found.iter().filter(|one| one["of"] == of && one["what"] == what);
    let hit = hits.next().unwrap_or_else(|| panic!("nothing about {of}: {what} in {found:#?}"));
    assert!(hits.next().is_none(), "{of}: {what} is told twice");
    hit
}

/// This is true with and without a running server, and no database is created.
#[tokio::test]
async fn valid_setup_has_no_doctor_faults() {
    let place = Place::new(&format!("{BASICS}{ONE}"));
    let ended = doctor(&place, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stdout.contains("ok       config: file: ") && ended.stdout.contains("1 tool on 1 backend"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("the first server makes it"), "{ended:?}");
    assert!(ended.stdout.contains("ok       backend here: tool `hello`: it runs /"), "{ended:?}");
    assert!(ended.stdout.ends_with("0 faults, 0 warnings\n"), "{ended:?}");
    assert!(!place.path("state/taskbridge.db").exists(), "a database was made");

    // The same with a running server on the same store.
    let server = place.serve();
    let (found, code) = found(&place).await;
    assert_eq!(code, Some(0), "{found:#?}");
    assert!(about(&found, "store", "database")["says"].as_str().unwrap().contains("the one of this version"));
    assert_eq!(about(&found, "store", "sealed arguments")["verdict"], "ok");
    drop(server);
}

/// No credentials exist yet at this point, so `--policy` makes no calls.
#[tokio::test]
async fn policy_is_printed_offline() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let aws = format!(
        "[backends.aws]\nkind = \"step-functions\"\nregion = \"eu-west-1\"\nendpoint = \"http://{closed}\"\n\
         [tools.deploy]\nbackend = \"aws\"\ntarget.state_machine = \"Deploy\"\n"
    );
    let place = Place::new(&format!("{BASICS}{ONE}{aws}"));
    let ended = doctor(&place, &["--policy"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let policy: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {ended:?}"));
    let machine = "arn:aws:states:eu-west-1:*:stateMachine:Deploy";
    let starts = |statement: &&Value| {
        statement["Action"].as_array().unwrap().contains(&json!("states:StartExecution"))
    };
    let statement = policy["Statement"].as_array().unwrap().iter().find(starts).unwrap();
    assert_eq!(statement["Resource"], json!([machine]));
    assert_eq!(ended.stderr, "backend `aws`: the server's credentials\n");

    let ended = doctor(&Place::new(&format!("{BASICS}{ONE}")), &["--policy"]).await;
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{ended:?}");
    assert!(ended.stderr.contains("no backend of this config needs an IAM policy"), "{ended:?}");
}

/// Tools, backends and receivers that cannot work are faults. One fault hides no other. No secret is shown.
#[tokio::test]
async fn doctor_faults_come_with_fixes() {
    let place = Place::new("");
    let sim = SimProcess::start(&place, "keyed");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let config = format!(
        "{BASICS}{ONE}[tools.lost]\nbackend = \"here\"\ntarget.command = [\"no-such-program\"]\n\
         [tools.elsewhere]\nbackend = \"here\"\ntarget = {{ command = [\"true\"], working_dir = \"nowhere\" }}\n\
         [backends.forge]\nkind = \"sim\"\naddress = \"{}\"\ndiscover = {{}}\n\
         [tools.refused]\nbackend = \"forge\"\ntarget = {{ outcome = \"refuse\" }}\n\
         [[notify]]\nurl = \"http://{closed}/secret-path\"\nsecret = \"{secret}\"\n",
        sim.address
    );
    std::fs::write(place.config(), config).unwrap();
    let (found, code) = found(&place).await;
    assert_eq!(code, Some(1));
    for (of, what, says) in [
        ("backend here", "tool `lost`", "/usr/bin/no-such-program"),
        ("backend here", "tool `elsewhere`", "no such folder"),
        ("backend forge", "tool `refused`", "refuses its jobs"),
        ("notify", &*format!("http://{closed}"), "refused"),
    ] {
        let finding = about(&found, of, what);
        assert_eq!(finding["verdict"], "fault", "{finding}");
        assert!(finding["says"].as_str().unwrap().contains(says), "{finding}");
        assert!(!finding["fix"].as_str().unwrap().is_empty(), "{finding}");
    }
    assert_eq!(about(&found, "config", "tool `lost`")["verdict"], "warning", "it has no description");
    assert_eq!(about(&found, "backend forge", "discovery")["says"], "it offers 0 tools");
    assert_eq!(
        about(&found, "backend here", "tool `hello`")["verdict"],
        "ok",
        "one fault hides no other finding"
    );

    let control = SimClient::new(sim.address.parse().unwrap());
    control.set_outage(true).await.unwrap();
    let ended = doctor(&place, &[]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("fault    backend forge: discovery: "), "{ended:?}");
    assert!(ended.stdout.contains("fault    backend forge: engine: "), "{ended:?}");
    assert!(ended.stdout.contains("         > start it again"), "{ended:?}");
    assert!(!ended.stdout.contains("secret-path") && !ended.stdout.contains(secret), "a secret is shown");
}

/// A FIFO without a writer stands in for a file on a shared file system whose server is down.
#[tokio::test]
async fn doctor_reports_hanging_file_in_time() {
    let place = Place::new("");
    let bin = place.path("bin");
    let cluster = format!(
        "[backends.cluster]\nkind = \"slurm\"\ncommands_dir = \"{}\"\ncommand_timeout = \"1s\"\n\
         [tools.dock]\ndescription = \"Docks.\"\nbackend = \"cluster\"\ntarget.script = \"dock.sh\"\n",
        bin.display()
    );
    std::fs::write(place.config(), format!("{BASICS}{cluster}")).unwrap();
    // An unreachable controller does not stop the other checks.
    std::fs::create_dir(&bin).unwrap();
    for name in ["scontrol", "sinfo", "sacctmgr"] {
        let lines = "#!/bin/sh\necho 'Unable to contact slurm controller (connect failure)' >&2\nexit 1\n";
        std::fs::write(bin.join(name), lines).unwrap();
        std::fs::set_permissions(bin.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("dock.sh"), 0o600.into()).unwrap();
    let (found, code) = found(&place).await;
    assert_eq!(code, Some(1));
    let says = about(&found, "backend cluster", "tool `dock`")["says"].as_str().unwrap();
    assert!(says.contains("dock.sh has not answered for ") && !says.contains("for 0 s"), "{says}");
}

#[tokio::test]
async fn unusable_config_or_store_is_fault() {
    let place = Place::new("[server]\nlisen = 1\n[tools.x]\nbackend = \"no\"\ntarget = {}\n");
    let (found, code) = found(&place).await;
    assert_eq!((code, found.len()), (Some(1), 2), "{found:#?}");
    assert!(found[0]["says"].as_str().unwrap().contains("did you mean `listen`?"), "{found:#?}");

    let store = BASICS.split("[store]").next().unwrap();
    let postgres = "[store]\nkind = \"postgres\"\nurl = \"postgres://nobody@127.0.0.1:1/none\"\nbackends_dir = \"state\"\n";
    let place = Place::new(&format!("{store}{postgres}"));
    let (found, code) = self::found(&place).await;
    assert_eq!(code, Some(1));
    assert_eq!(about(&found, "store", "database")["verdict"], "fault");
}

#[tokio::test]
async fn damaged_database_is_fault_with_recovery() {
    let place = Place::new(&format!("{BASICS}{ONE}"));
    assert_eq!(place.serve().stop(), Some(0));
    let database = place.path("state/taskbridge.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[100..].fill(0xA5);
    std::fs::write(&database, bytes).unwrap();
    let (found, code) = found(&place).await;
    let finding = about(&found, "store", "database");
    assert_eq!((code, &finding["verdict"]), (Some(1), &json!("fault")), "{finding}");
    let words = format!("{} {}", finding["says"], finding["fix"]);
    for part in ["taskbridge.db is damaged", "backup", "sqlite3", ".recover"] {
        assert!(words.contains(part), "no {part} in: {words}");
    }
    assert!(!words.contains("migrate"), "{words}");
}

/// The doctor reports sealed arguments that no key of the config opens, and shows no key.
#[tokio::test]
async fn sealed_arguments_without_key_are_fault() {
    let config = |key: &str| {
        format!(
            "{BASICS}[seal]\nkeys = [\"{key}\"]\n{ONE}[tools.login]\nbackend = \"here\"\nmax_running = 1\n\
             target = {{ command = [\"sh\", \"-c\", \"while [ ! -e go ]; do sleep 0.02; done\"], working_dir = \".\" }}\n\
             parameters.token = {{ type = \"string\", sensitive = true }}\n"
        )
    };
    let (first, second) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let place = Place::new(&config(first));
    let server = place.serve();
    let client = Client::open(server.url()).await.unwrap();
    let running = client.start("login", json!({"token": "one"})).await.unwrap();
    let waiting = client.start("login", json!({"token": "two"})).await.unwrap();
    let (found, _) = found(&place).await;
    let says = about(&found, "store", "sealed arguments")["says"].as_str().unwrap().to_owned();
    assert!(says.ends_with(" with some, and 1 of [seal] keys open them"), "{says}");
    let text = std::fs::read_to_string(place.config()).unwrap();
    let other = place.path("other.toml");
    std::fs::write(&other, text.replace(first, second)).unwrap();
    let mut alone = std::process::Command::new(crate::support::PROGRAM);
    alone.args(["doctor", "--json", "--config"]).arg(&other);
    place.settle(&mut alone);
    let ended = place.run(alone).await;
    let lost: Vec<Value> = serde_json::from_str(&ended.stdout).unwrap();
    let finding = about(&lost, "store", "sealed arguments");
    assert_eq!((ended.code, &finding["verdict"]), (Some(1), &json!("fault")), "{finding}");
    assert!(!ended.stdout.contains(second), "a key is shown");
    std::fs::write(place.path("go"), "").unwrap();
    for task in [waiting, running] {
        client.result(&task).await.unwrap();
    }
}

#[tokio::test]
async fn discover_of_failed_backend_exits_nonzero() {
    let place = Place::new("");
    let sim = SimProcess::start(&place, "keyed");
    let forge = format!("[backends.forge]\nkind = \"sim\"\naddress = \"{}\"\n", sim.address);
    std::fs::write(place.config(), format!("{BASICS}{forge}")).unwrap();
    SimClient::new(sim.address.parse().unwrap()).set_outage(true).await.unwrap();
    let ended = place.run(place.command("discover")).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("taskbridge: backend `forge`: "), "{ended:?}");
    std::fs::write(place.config(), format!("{BASICS}{ONE}")).unwrap();
    let ended = place.run(place.command("discover")).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("no backend can say what it offers"), "{ended:?}");
}

/// The output of `discover`, appended to the config, passes `check`, and the server offers its tools.
#[tokio::test]
async fn discover_output_is_valid_config() {
    let place = Place::new("");
    let sim = SimProcess::start(&place, "keyed");
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
    let all =
        [tool("night", &schema), tool("nothing", &with_null), tool("bad", &bad), tool("hello", &schema)];
    SimClient::new(sim.address.parse().unwrap()).offer(all.to_vec()).await.unwrap();
    let config = format!("{BASICS}{ONE}[backends.forge]\nkind = \"sim\"\naddress = \"{}\"\n", sim.address);
    std::fs::write(place.config(), &config).unwrap();

    let ended = place.run(place.command("discover")).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("backend `here` is passed over"), "{ended:?}");
    assert!(
        ended.stdout.contains("# `hello` of backend `forge`: the config has a tool of this name"),
        "{ended:?}"
    );
    assert!(ended.stdout.contains("# `bad` of backend `forge`: "), "{ended:?}");
    assert!(
        ended.stdout.contains("# `nothing` of backend `forge`: it cannot be written as TOML"),
        "{ended:?}"
    );
    std::fs::write(place.config(), format!("{config}{}", ended.stdout)).unwrap();
    let checked = place.run(place.command("check")).await;
    assert_eq!(checked.code, Some(0), "{checked:?}\n{}", ended.stdout);
    assert!(checked.stdout.contains("2 tools on 2 backends"), "{checked:?}");

    let server = place.serve();
    let client = Client::open(server.url()).await.unwrap();
    let listed = client.request("tools/list", json!({})).await.unwrap();
    let night = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "night").unwrap();
    assert_eq!(night["description"], "Runs at night.\nOr not.");
    assert_eq!(night["inputSchema"]["properties"]["text"]["description"], "In \"quotes\",\nand lines");

    let mut command = place.command("discover");
    command.arg("here");
    let refused = place.run(command).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("backend `here`: this kind of backend cannot say what it offers"),
        "{refused:?}"
    );
    let mut command = place.command("discover");
    command.arg("nowhere");
    let refused = place.run(command).await;
    assert!(
        refused.stderr.contains("there is no backend `nowhere` in the config: it has forge, here"),
        "{refused:?}"
    );
}
