//! Tests of what a job leaves: results, content blocks, files, and its output.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Artifact, Content, ErrorKind, LogRequest};

use crate::world::{World, failure, output, poll_until_ended, script, texts};

/// Without declared results, the standard output is the result.
#[tokio::test]
async fn job_output_becomes_result() {
    let world = World::new();
    let end = world.run("echo hello; echo careful >&2").await;
    assert_eq!(output(&end).content, [Content::text("hello\n")]);
    assert_eq!(output(&world.run("true").await).content, []);
}

/// Links in the artifact folder are not followed, and large artifacts are refused.
#[tokio::test]
async fn declared_results_and_artifacts_are_returned() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(
        r#"echo '{"sum": 42}' > "$TASKBRIDGE_OUTPUT"
           echo '[{"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]' > "$TASKBRIDGE_CONTENT"
           mkdir "$TASKBRIDGE_ARTIFACTS/deep"; printf abc > "$TASKBRIDGE_ARTIFACTS/deep/report.txt"
           ln -s /etc/passwd "$TASKBRIDGE_ARTIFACTS/passwd"; echo printed"#,
    );
    let handle = backend.start(&job).await.unwrap().handle;
    let end = poll_until_ended(&*backend, &handle).await;
    let output = output(&end);
    assert_eq!(output.structured, Some(json!({"sum": 42})));
    assert_eq!(output.content, [Content::Image { data: "iVBORw==".into(), mime_type: "image/png".into() }]);
    let report =
        Artifact { name: "deep/report.txt".into(), mime_type: Some("text/plain".into()), size: Some(3) };
    assert_eq!(output.artifacts, [report]);

    let artifacts = backend.abilities().artifacts.unwrap();
    assert_eq!(artifacts.read(&handle, "deep/report.txt", 3).await.unwrap().unwrap().bytes, b"abc");
    for outside in ["passwd", "../claim.json", "/etc/passwd", "none"] {
        assert_eq!(artifacts.read(&handle, outside, 9999).await.unwrap(), None, "{outside}");
    }
    let error = artifacts.read(&handle, "deep/report.txt", 2).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("3 bytes"), "{error}");
}

/// The failure names the file that the job declared, and keeps the output.
#[tokio::test]
async fn unreadable_result_fails_job() {
    let world = World::new();
    for (script, part) in [
        (
            r#"echo '{"sum": ' > "$TASKBRIDGE_OUTPUT""#,
            "no valid JSON to $TASKBRIDGE_OUTPUT: EOF while parsing",
        ),
        (r#"echo '[{"type": "txt"}]' > "$TASKBRIDGE_CONTENT""#, "$TASKBRIDGE_CONTENT: unknown variant `txt`"),
        (
            r#"mkfifo "$TASKBRIDGE_OUTPUT""#,
            "$TASKBRIDGE_OUTPUT cannot be read: output.json is not a regular file",
        ),
        (r#"truncate -s 17M "$TASKBRIDGE_OUTPUT""#, "output.json has 17825792 bytes, the limit is 16777216"),
    ] {
        let end = world.run(&format!("{script}; echo printed")).await;
        let (message, output) = failure(&end);
        assert!(message.contains(part), "{message}");
        assert_eq!(texts(output), ["printed\n"]);
    }
}

/// The message has the exit code or signal and the last line of the standard error.
#[tokio::test]
async fn failure_shows_exit_code_and_stderr() {
    let world = World::new();
    for (script, expected) in [
        ("echo first >&2; echo 'cp: no such file' >&2; exit 3", "exit code 3: cp: no such file"),
        ("exit 1", "exit code 1"),
        (r"printf '10%%\r20%%\r\033[31mred\r' >&2; exit 1", "exit code 1:  [31mred"),
        ("kill -9 $$", "killed by signal 9 (SIGKILL)"),
    ] {
        let end = world.run(script).await;
        assert_eq!(failure(&end).0, expected);
    }
    let end = world.run("echo out; echo err >&2; exit 2").await;
    assert_eq!(texts(failure(&end).1), ["out\n"], "the message has the one line of stderr");
    let end = world.run("echo one >&2; echo two >&2; exit 2").await;
    assert_eq!(texts(failure(&end).1), ["exit code 2, stderr:\none\ntwo\n"]);
}

#[tokio::test]
async fn success_exit_codes_are_configurable() {
    let world = World::new();
    let target = json!({"command": ["sh", "-c", "exit {{ code }}"], "success_exit_codes": [0, 3]});
    output(&world.run_spec(&job(target.clone(), json!({"code": 3}))).await);
    failure(&world.run_spec(&job(target, json!({"code": 4}))).await);
}

/// Both streams of a failed job are cut in the middle, with a marker.
#[tokio::test]
async fn long_output_keeps_start_and_end() {
    let world = World::new();
    let backend = world.connect(json!({"max_output_bytes": 3000})).await;
    let handle = backend.start(&script("seq 1 20000; seq 1 20000 >&2; exit 1")).await.unwrap().handle;
    let end = poll_until_ended(&*backend, &handle).await;
    let (message, output) = failure(&end);
    assert_eq!(message, "exit code 1: 20000");
    let [out, err] = texts(output)[..] else { panic!("{output:?}") };
    assert!(out.starts_with("1\n2\n") && out.ends_with("19999\n20000\n") && out.len() < 3100, "{out}");
    let marker = out.lines().find(|line| line.starts_with("[... ")).unwrap();
    assert!(marker.ends_with(" bytes left out ...]"), "{marker}");
    assert!(err.starts_with("exit code 1, stderr:\n") && err.ends_with("20000\n"), "{err}");
}

#[tokio::test]
async fn logs_are_tailed_and_searched() {
    let world = World::new();
    let backend = world.connect(json!({"max_output_bytes": 6000})).await;
    let logs = backend.abilities().logs.unwrap();
    let tail = async |handle: &_, max_bytes, search: Option<&str>| {
        let request = LogRequest { max_bytes, search: search.map(str::to_owned) };
        let log = logs.tail(handle, &request).await.unwrap();
        (log.text, log.cut)
    };
    let handle =
        backend.start(&script("echo one; echo Two; echo three; echo four >&2")).await.unwrap().handle;
    poll_until_ended(&*backend, &handle).await;
    let all = "==> stdout <==\none\nTwo\nthree\n==> stderr <==\nfour\n";
    assert_eq!(tail(&handle, 999, None).await, (all.to_owned(), false));
    assert_eq!(tail(&handle, 7, None).await, ("four\n".to_owned(), true));
    assert_eq!(tail(&handle, 3, None).await, ("ur\n".to_owned(), true));
    assert_eq!(tail(&handle, 999, Some("tWO")).await, ("Two\n".to_owned(), false));
    assert_eq!(tail(&handle, 999, Some("none")).await, (String::new(), false));

    let long = backend.start(&script("seq 1 9999")).await.unwrap().handle;
    poll_until_ended(&*backend, &long).await;
    let (text, cut) = tail(&long, 99_999, None).await;
    assert!(cut && text.ends_with("9999\n"));
}

/// A process in another session has the output open, and the job still ends.
#[tokio::test]
async fn detached_process_does_not_delay_end() {
    let world = World::new();
    let end = world.run("setsid sleep 600 & echo $!").await;
    let pid = Pid::from_raw(texts(output(&end))[0].trim().parse().unwrap()).unwrap();
    // It still runs, and still has the job's standard output open.
    kill_process(pid, Signal::KILL).unwrap();
}
