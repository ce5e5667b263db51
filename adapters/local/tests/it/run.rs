//! Tests of what a command receives, and that it receives nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, FileContent, InputFile, SourceFile};

use crate::world::{World, failure, output, poll_until_ended, script, texts, wait_for_file};

const PRINT_ARGUMENTS: &str = r#"for a in "$@"; do printf '<%s>' "$a"; done"#;

async fn stdout(world: &World, config: Value, target: Value, arguments: Value) -> String {
    let backend = world.connect(config).await;
    let handle = backend.start(&job(target, arguments)).await.unwrap().handle;
    let end = poll_until_ended(&*backend, &handle).await;
    texts(output(&end)).concat()
}

#[tokio::test]
async fn every_argument_arrives_as_exactly_one() {
    let world = World::new();
    for argument in [
        "a b",
        "it's \"quoted\"",
        "two\nlines\n",
        "$(id) `id` $HOME ; true | false & > x",
        "*",
        "",
        "ä€",
        "../../etc/passwd",
        "/etc/passwd",
        "\u{2010}-rf \u{202e}txt.exe",
        "{{ 7 * 7 }}{% raw %}{# x #}",
        "${TASKBRIDGE_JOB}%s%n\\0\u{1b}[2J",
        &"long ".repeat(20_000),
    ] {
        let target = json!({"command": ["sh", "-c", PRINT_ARGUMENTS, "sh", "{{ a }}", "x{{ a }}y", ["-o", "{{ b }}"]]});
        let printed = stdout(&world, json!({}), target, json!({"a": argument})).await;
        assert_eq!(printed, format!("<{argument}><x{argument}y>"));
    }
}

/// A value that could be an option, or has a NUL character, is refused before the start.
#[tokio::test]
async fn unsafe_argument_starts_nothing() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    for (command, value, expected) in [
        (json!(["touch", "{{ a }}"]), "--reference=/etc/passwd", "`a`, in `command[1]`, begins with a dash"),
        (json!(["touch", "-c", "{{ a }}"]), "-", "`a`, in `command[2]`, begins with a dash"),
        (json!(["touch", "--", "{{ a }}"]), "a\0b", "`a`, in `command[2]`, contains a NUL"),
    ] {
        let error =
            backend.start(&job(json!({ "command": command }), json!({"a": value}))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains(expected), "{error}");
    }
    let env = json!({"command": ["env"], "env": {"A": "{{ a }}"}});
    assert!(backend.start(&job(env.clone(), json!({"a": "x\0LD_PRELOAD=y"}))).await.is_err());
    let printed = stdout(&world, json!({}), env, json!({"a": "x\nLD_PRELOAD=y"})).await;
    let print0 = json!({"command": ["sh", "-c", "printf %s \"$A\""], "env": {"A": "{{ a }}"}});
    assert!(printed.contains("A=x\nLD_PRELOAD=y\n"), "{printed}");
    assert_eq!(
        stdout(&world, json!({}), print0, json!({"a": "x\nB=y"})).await,
        "x\nB=y",
        "the value stays in one variable"
    );
    let touch = json!({"command": ["touch", "--", "{{ a }}"]});
    assert_eq!(stdout(&world, json!({}), touch, json!({"a": "-x"})).await, "");
}

/// The job sees the variables that the config names, and those of this server's interface.
#[tokio::test]
async fn job_environment_is_from_config_only() {
    let world = World::new();
    let config =
        json!({"pass_env": ["CARGO_PKG_NAME", "NOT_SET"], "env": {"A": "{{ literal }}", "B": "backend"}});
    let target = json!({"command": ["env"], "env": {"B": "{{ b }}"}});
    let printed = stdout(&world, config, target, json!({"b": "target"})).await;
    let mut names: Vec<&str> = printed.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "A",
            "B",
            "CARGO_PKG_NAME",
            "PATH",
            "TASKBRIDGE_ARTIFACTS",
            "TASKBRIDGE_CONTENT",
            "TASKBRIDGE_EVENTS",
            "TASKBRIDGE_JOB",
            "TASKBRIDGE_OUTPUT",
            "TASKBRIDGE_QUESTIONS",
        ]
    );
    assert!(printed.contains("A={{ literal }}\n") && printed.contains("B=target\n"), "{printed}");
}

/// The supervisor's environment is empty, and the job's input is in no file of its folder.
#[tokio::test]
async fn job_input_is_hidden_from_others() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let target = json!({
        "command": ["sh", "-c", "read -r line; touch up; while [ ! -e go ]; do sleep 0.02; done; echo got \"$line\""],
        "stdin": "{{ secret }}\n",
    });
    let job = job(target, json!({"secret": "hunter2-hunter2"}));
    let handle = backend.start(&job).await.unwrap().handle;
    wait_for_file(&world.job(&job.key).join("work/up")).await;

    assert_eq!(fs::read(format!("/proc/{}/environ", world.supervisor_pid(&job.key))).unwrap(), b"");
    let grep =
        std::process::Command::new("grep").args(["-r", "-D", "skip", "hunter2"]).arg(world.jobs()).output();
    assert_eq!(grep.unwrap().stdout, b"");
    let mode = fs::metadata(world.job(&job.key)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    fs::write(world.job(&job.key).join("work/go"), "").unwrap();
    assert_eq!(texts(output(&poll_until_ended(&*backend, &handle).await)), ["got hunter2-hunter2\n"]);
}

#[tokio::test]
async fn a_command_without_stdin_reads_nothing() {
    let end = World::new().run("cat; echo end").await;
    assert_eq!(texts(output(&end)), ["end\n"]);
}

#[tokio::test]
async fn files_arrive_as_paths() {
    let world = World::new();
    let source_path = world.config_dir().join("elsewhere.txt");
    fs::write(&source_path, "elsewhere").unwrap();
    let mut job = job(
        json!({"command": ["sh", "-c", r#"cat "$1" "$2" "$3"; echo "$1""#, "sh", "{{ a }}", "{{ b }}",
        "{{ c }}"]}),
        json!({"a": null}),
    );
    let inline = |parameter: &str, name: &str, bytes: &[u8]| InputFile {
        parameter: parameter.to_owned(),
        name: name.to_owned(),
        content: FileContent::Inline(bytes.to_owned()),
    };
    let source = SourceFile::new(source_path.canonicalize().unwrap(), 9);
    let source_file = InputFile { content: FileContent::Source(source), ..inline("c", "elsewhere.txt", b"") };
    job.files =
        vec![inline("a", "my report.txt", b"one "), inline("b", "../../../evil", b"two "), source_file];
    let end = world.run_spec(&job).await;
    let path = world.job(&job.key).join("in/0/my report.txt");
    assert_eq!(texts(output(&end)), [format!("one two elsewhere{}\n", path.display())]);
    assert!(!world.config_dir().join("evil").exists() && !world.jobs().join("evil").exists());
}

/// Relative programs and working folders are resolved from the folder of the config.
#[tokio::test]
async fn relative_programs_start_at_config() {
    let world = World::new();
    fs::create_dir_all(world.config_dir().join("bin")).unwrap();
    symlink("/bin/pwd", world.config_dir().join("bin/where")).unwrap();
    let target = json!({"command": ["./bin/where"], "working_dir": "{{ dir | default('') }}"});
    let root = fs::canonicalize(world.config_dir()).unwrap();

    let printed = stdout(&world, json!({}), target.clone(), json!({"dir": "bin"})).await;
    assert_eq!(printed, format!("{}\n", root.join("bin").display()));
    let printed = stdout(&world, json!({"working_dir": "state"}), target.clone(), json!({})).await;
    assert_eq!(printed, format!("{}\n", root.join("state").display()));
    let printed = stdout(&world, json!({}), target, json!({})).await;
    assert!(printed.ends_with("/work\n"), "{printed}");
    let path_target = json!({"command": ["where"], "env": {"PATH": "{{ bin }}"}});
    let printed =
        stdout(&world, json!({}), path_target, json!({"bin": world.config_dir().join("bin")})).await;
    assert!(printed.ends_with("/work\n"), "the job's own PATH is searched: {printed}");
}

/// The failure names the program or folder and what is wrong with it.
#[tokio::test]
async fn unrunnable_command_fails_with_reason() {
    let world = World::new();
    for (target, part) in [
        (
            json!({"command": ["no-such-program"]}),
            "`no-such-program` was not found on PATH (/usr/local/sbin:",
        ),
        (json!({"command": ["./no/such"]}), "/./no/such` cannot be run: No such file"),
        (json!({"command": ["pwd"], "working_dir": "no/such"}), "no/such does not exist"),
        (json!({"command": ["./state"]}), "cannot be run: Permission denied"),
    ] {
        let end = world.run_spec(&job(target, json!({}))).await;
        let (message, _) = failure(&end);
        assert!(message.contains(part), "{message}");
    }
}

/// A missing parameter or a NUL character is rejected before the job's folder exists.
#[tokio::test]
async fn unrenderable_template_starts_nothing() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    for (arguments, part) in [
        (json!({}), "`command[1]` needs the parameter `a`"),
        (json!({"a": "x\0y"}), "the parameter `a`, in `command[1]`, contains a NUL character"),
    ] {
        let job = job(json!({"command": ["echo", "{{ a }}"]}), arguments);
        let error = backend.start(&job).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().contains(part), "{error}");
        assert!(!world.job(&job.key).exists());
    }
    let mut invalid = script("true");
    invalid.target = json!({"command": "true"});
    assert_eq!(backend.start(&invalid).await.unwrap_err().kind(), ErrorKind::Config);
}
