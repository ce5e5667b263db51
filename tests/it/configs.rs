//! Tests of the configs in the repository, and of the generated JSON schema.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{BASICS, Client, PROGRAM, ProgramOutput, TestDir};

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

async fn run(arguments: &[&str]) -> ProgramOutput {
    let dir = TestDir::new("");
    let mut command = Command::new(PROGRAM);
    dir.prepare(command.args(arguments));
    // A backend's config may refer to a credential in the environment, and is invalid without it.
    command.env("GITHUB_TOKEN", "none").env("AIRFLOW_PASSWORD", "none");
    dir.run(command).await
}

async fn schema() -> Value {
    let output = run(&["schema"]).await;
    assert_eq!(output.code, Some(0));
    serde_json::from_str(&output.stdout).unwrap()
}

/// Every config that this program can parse. The custom adapter example is left out, because it has its own
/// program.
fn configs() -> Vec<PathBuf> {
    fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "custom_adapter") {
                collect(&path, into);
            } else if path.extension().is_some_and(|e| e == "toml") && !path.ends_with("Cargo.toml") {
                into.push(path);
            }
        }
    }
    let mut all = Vec::new();
    for folder in ["config", "examples", "tests", "benches"] {
        collect(&root().join(folder), &mut all);
    }
    assert!(all.contains(&root().join("config/taskbridge.toml")));
    all
}

/// `config/schema.json` equals the output of `taskbridge schema`.
#[tokio::test]
async fn committed_schema_is_current() {
    let committed = std::fs::read_to_string(root().join("config/schema.json")).unwrap();
    let committed: Value = serde_json::from_str(&committed).unwrap();
    assert!(committed == schema().await, "it is out of date: cargo run -- schema > config/schema.json");
}

/// Every config in the repository is valid for `check` and for the JSON schema.
#[tokio::test]
async fn every_config_passes_check_and_schema() {
    let validator = jsonschema::validator_for(&schema().await).unwrap();
    for file in configs() {
        let output = run(&["check", "--config", file.to_str().unwrap()]).await;
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let text = std::fs::read_to_string(&file).unwrap();
        let value: Value = toml::from_str(&text).unwrap();
        let faults: Vec<String> = validator
            .iter_errors(&value)
            .map(|fault| format!("{}: {fault}", fault.instance_path()))
            .collect();
        assert!(faults.is_empty(), "{}: {}", file.display(), faults.join("\n"));
    }
}

#[tokio::test]
async fn schema_and_program_refuse_same_configs() {
    let validator = jsonschema::validator_for(&schema().await).unwrap();
    for (text, valid) in [
        ("[backends.a]\nkind = \"sim\"\nseed = 1\nmax_running = 2\n", true),
        ("[backends.a]\nkind = \"sim\"\nsed = 1\n", false),
        // Only the program knows whether [adapters.simulated] exists.
        ("[backends.a]\nkind = \"simulated\"\n", true),
        ("[backends.a]\npreset = \"temporal\"\nbase = \"https://temporal.example.com\"\n", true),
        ("[backends.a]\nbase = \"https://temporal.example.com\"\n", false),
        ("[server]\nlisen = \"127.0.0.1:1\"\n", false),
        ("[tools.a]\nbackend = \"a\"\ntarget = {}\n", true),
        ("[tools.a]\nbackend = \"a\"\n", false),
        // Only the program knows the kind of `a`: a target over HTTP has fields of its own.
        ("[tools.a]\nbackend = \"a\"\ntarget = { colour = 1 }\n", true),
        ("[tools.a]\nbackend = \"a\"\ntarget = 1\n", false),
    ] {
        let value: Value = toml::from_str(text).unwrap();
        assert_eq!(validator.is_valid(&value), valid, "{text}");
    }
}

/// A preset has a kind, so a backend with one needs no `kind`. A wrong name is answered with the known ones.
#[tokio::test]
async fn preset_has_a_kind() {
    let config = |preset: &str| {
        format!(
            "[backends.t]\npreset = \"{preset}\"\nbase = \"https://temporal.example.com\"\n[tools.greet]\nbackend = \
             \"t\"\ntarget = {{ workflow = \"greet\", queue = \"main\" }}\n"
        )
    };
    let dir = TestDir::new(&format!("{BASICS}{}", config("temporal")));
    assert_eq!(dir.run(dir.command("check")).await.code, Some(0));
    let dir = TestDir::new(&format!("{BASICS}{}", config("temporl")));
    let checked = dir.run(dir.command("check")).await;
    let expected = "backends.t.preset: unknown preset `temporl`; did you mean `temporal`?";
    assert!(checked.stderr.contains(expected), "{checked:?}");
}

/// The names of the server's own tools are reserved.
#[tokio::test]
async fn tool_with_reserved_name_is_refused() {
    let sim = "[backends.sim]\nkind = \"sim\"\n";
    let always = BASICS.replace("[server]\n", "[server]\ncompanion_tools = \"always\"\n");
    let dir = TestDir::new(&format!("{always}{sim}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let listed = client.request("tools/list", serde_json::json!({})).await.unwrap();
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    for name in names {
        let dir = TestDir::new(&format!("{sim}[tools.{name}]\nbackend = \"sim\"\ntarget = {{}}\n"));
        let checked = dir.run(dir.command("check")).await;
        assert!(
            checked.stderr.contains("the name is reserved for a tool of the server"),
            "{name}: {checked:?}"
        );
    }
}
