//! Tests of `taskbridge init`: each engine's config, by flags and at a terminal, and what it refuses.

use std::fs;

use super::{program, run};
use crate::support::{Pty, TestDir};

/// The flags of each engine.
const ENGINES: [(&str, &[&str]); 6] = [
    ("local", &[]),
    ("github-actions", &["--repository", "octo-org/app", "--workflow", "ci.yml", "--token-env", "GH_X"]),
    ("step-functions", &["--region", "eu-central-1", "--state-machine", "NightlyReport"]),
    ("slurm", &["--jobs-dir", "/tmp/jobs", "--script", "/tmp/dock.sh"]),
    (
        "github-actions",
        &[
            "--repository",
            "a/b",
            "--workflow",
            "ci.yml",
            "--token-env",
            "GH_X",
            "--api",
            "https://gh.lan/api/v3",
        ],
    ),
    ("slurm", &["--jobs-dir", "/tmp/jobs", "--script", "/tmp/dock.sh", "--ssh", "lab@login1"]),
];

/// The config is valid for `check`, names its schema, and refers to the credential.
#[tokio::test]
async fn each_engine_gets_valid_config() {
    for (engine, flags) in ENGINES {
        let dir = TestDir::new("");
        let common = ["init", "--engine", engine, "--output", "conf/mine.toml", "--no-doctor"];
        let written = run(&dir, &[&common, flags].concat()).await;
        assert_eq!(written.code, Some(0), "{engine}: {}", written.stderr);
        assert!(
            written.stdout.contains("taskbridge connect claude-code --config conf/mine.toml --write"),
            "{written:?}"
        );
        let text = fs::read_to_string(dir.path("conf/mine.toml")).unwrap();
        assert!(text.starts_with("#:schema ./taskbridge.schema.json\n") && !text.contains("= @"), "{text}");
        let schema = fs::read_to_string(dir.path("conf/taskbridge.schema.json")).unwrap();
        let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
        let value: serde_json::Value = toml::from_str(&text).unwrap();
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&value), "{engine}");
        let mut check = program(&dir, &["check", "--config", "conf/mine.toml"]);
        check.env("GH_X", "a-token");
        let checked = dir.run(check).await;
        assert_eq!(checked.code, Some(0), "{engine}: {}", checked.stderr);
        // An optional line is a comment unless its flag is given.
        for (flag, line) in [("--api", "api = \"https://"), ("--ssh", "ssh = { host = \"")] {
            let is_set = text.lines().any(|each| each.starts_with(line));
            assert_eq!(is_set, flags.contains(&flag), "{text}");
        }
        assert!(checked.stdout.contains("1 tool on 1 backend"), "{checked:?}");
    }
}

/// An answer that looks like a place of the template, or like the end of a string, stays text.
#[tokio::test]
async fn answer_adds_nothing_to_config() {
    let dir = TestDir::new("");
    let odd = "/x/@script@\"\n]";
    let flags = ["--jobs-dir", "/x/@script@", "--script", "/y\"#@jobs-dir@"];
    let common = ["init", "--engine", "slurm", "--output", "mine.toml", "--no-doctor"];
    let written = run(&dir, &[&common[..], &flags].concat()).await;
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let config: toml::Value = toml::from_str(&fs::read_to_string(dir.path("mine.toml")).unwrap()).unwrap();
    assert_eq!(config["backends"]["cluster"]["jobs_dir"].as_str(), Some("/x/@script@"));
    assert_eq!(config["tools"]["run_script"]["target"]["script"].as_str(), Some("/y\"#@jobs-dir@"));
    let refused = run(&dir, &[&common[..], &["--force", "--jobs-dir", odd, "--script", "/y"]].concat()).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("control characters"), "{refused:?}");
}

/// Doctor runs on the new config, and its findings decide the exit code.
#[tokio::test]
async fn doctor_checks_new_config() {
    let dir = TestDir::new("");
    let local = run(&dir, &["init", "--engine", "local"]).await;
    assert_eq!(local.code, Some(0), "{local:?}");
    assert!(local.stdout.contains("0 faults"), "{local:?}");
    assert!(dir.path(".config/taskbridge/taskbridge.toml").is_file());
    let flags =
        ["init", "--force", "--engine", "github-actions", "--repository", "a/b", "--workflow", "x.yml"];
    let github = run(&dir, &flags).await;
    assert_eq!(github.code, Some(1), "{github:?}");
    assert!(github.stdout.contains("GITHUB_TOKEN is not set"), "{github:?}");
}

/// On a terminal it asks for what is missing, and again after an invalid answer.
#[tokio::test]
async fn terminal_is_asked_for_missing_answers() {
    let dir = TestDir::new("");
    let mut pty = Pty::start(&program(&dir, &["init", "--output", "new.toml", "--no-doctor"]));
    pty.wait_for("Which engine?").await;
    pty.enter_line("nine");
    pty.wait_for("write a number, or one of local, github-actions").await;
    pty.wait_for("Which engine?").await;
    pty.enter_line("2");
    pty.wait_for("Which repository").await;
    pty.enter_line("app");
    pty.wait_for("write OWNER/NAME").await;
    pty.enter_line("octo-org/app");
    pty.wait_for("Which workflow").await;
    pty.enter_line("release.yml");
    pty.wait_for("holds the token? [GITHUB_TOKEN]").await;
    pty.enter_line("");
    let (code, output) = pty.wait_for_end().await;
    assert_eq!(code, Some(0), "{output}");
    let text = fs::read_to_string(dir.path("new.toml")).unwrap();
    assert!(text.contains("repository = \"octo-org/app\""), "{text}");
    assert!(text.contains("token = { env = \"GITHUB_TOKEN\" }"), "{text}");
}

/// Nothing is overwritten, and a mistake names its flag.
#[tokio::test]
async fn wrong_flags_are_refused() {
    let dir = TestDir::new("kept");
    let cases: [(&[&str], &str); 8] = [
        (&[], "name the engine with --engine KIND: local, github-actions"),
        (&["--engine", "jenkins"], "--engine jenkins: init does not ask about this engine"),
        (&["--engine", "local", "--region", "eu-central-1"], "--region does not belong to --engine local"),
        (&["--engine", "slurm", "--jobs-dir", "/x"], "--script is missing"),
        (&["--engine", "slurm", "--script", "/x", "--jobs-dir", "x"], "--jobs-dir x: write an absolute path"),
        (
            &["--engine", "slurm", "--script", "/x", "--jobs-dir", "/x", "--ssh=-oProxyCommand=x"],
            "write a host as ssh knows it",
        ),
        (
            &[
                "--engine",
                "github-actions",
                "--repository",
                "a/b",
                "--workflow",
                "x.yml",
                "--api",
                "github.lan",
            ],
            "--api github.lan: write the URL of the API",
        ),
        (&["--engine", "local", "--output", "taskbridge.toml"], "exists: replace it with --force"),
    ];
    for (arguments, expected) in cases {
        let output = run(&dir, &[&["init", "--no-doctor"], arguments].concat()).await;
        assert_eq!(output.code, Some(1), "{arguments:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    }
    assert_eq!(fs::read_to_string(dir.config()).unwrap(), "kept");
    assert!(!dir.path(".config/taskbridge").exists());
}
