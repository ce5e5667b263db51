//! Tests of misbehaving jobs: questions, final records and logs that are too large. Also tests of callers'
//! files that change in the meantime.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{ErrorKind, FileContent, InputFile, JobState, LogRequest, SourceFile};

use crate::world::{World, output, poll_until, poll_until_ended, script, texts, wait_for_file};

/// Returns the number of questions, and the message, of a job that has written all its questions.
async fn observe_questions(commands: &str) -> (usize, String) {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(&format!(
        "mkdir new; cd new; {commands}\nrmdir \"$TASKBRIDGE_QUESTIONS\"; mv \"$PWD\" \"$TASKBRIDGE_QUESTIONS\"
         echo message All asked >> \"$TASKBRIDGE_EVENTS\"; exec sleep 600"
    ));
    let handle = backend.start(&job).await.unwrap().handle;
    poll_until(&*backend, &handle, "the job's message", |observation| observation.message.as_ref().map(drop))
        .await;
    let observation = backend.observe(&handle).await.unwrap();
    (observation.questions.len(), observation.message.unwrap())
}

#[tokio::test]
async fn many_questions_are_read_in_part() {
    let commands = r#"for n in $(seq 1500); do echo '{"message": "?"}' > $n.json; done"#;
    let (questions, message) = observe_questions(commands).await;
    assert_eq!(questions, 64);
    assert_eq!(message, "the job asks 1500 questions, and at most 64 are open at once");
}

#[tokio::test]
async fn questions_share_one_megabyte() {
    let commands = r#"text=$(head -c 600000 /dev/zero | tr '\0' x)
        for n in 1 2 3; do echo "{\"message\": \"$text\"}" > $n.json; touch -d 2020-01-0$n $n.json; done"#;
    let (questions, message) = observe_questions(commands).await;
    assert_eq!(questions, 1);
    let expected = "the job's question 3.json cannot be asked: 3.json has 600016 bytes, \
                    and all open questions of a job may have 1048576";
    assert_eq!(message, expected);
}

/// The question of 4 GiB is not read, and the message has its size and the limit.
#[tokio::test]
async fn sparse_question_is_reported_with_size() {
    let (questions, message) = observe_questions("truncate -s 4G q.json").await;
    assert_eq!(questions, 0);
    let expected =
        "the job's question q.json cannot be asked: q.json has 4294967296 bytes, the limit is 1048576";
    assert_eq!(message, expected);
}

#[tokio::test]
async fn sparse_end_fails_its_job_alone() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job =
        script(r#"truncate -s 512M "$TASKBRIDGE_ARTIFACTS/../end.json"; kill -9 $PPID; exec sleep 600"#);
    let handle = backend.start(&job).await.unwrap().handle;
    let end = poll_until_ended(&*backend, &handle).await;
    assert_eq!(end.state, JobState::Gone);
    let message = end.message.unwrap();
    assert!(message.contains("end.json has 536870912 bytes, the limit is "), "{message}");
}

/// A final record of many small values would take far more memory than its text.
#[tokio::test]
async fn end_with_many_values_is_refused() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    // A final record in the format of a supervisor, with data that takes a hundred times the memory of its
    // text.
    let job = script(
        r#"(printf '{"state":{"succeeded":{"content":[],"artifacts":[],"structured":['; yes '{"":0},' | head -n 300000; echo '0]}}}') \
           > "$TASKBRIDGE_ARTIFACTS/../end.json"; kill -9 $PPID; exec sleep 600"#,
    );
    let handle = backend.start(&job).await.unwrap().handle;
    let end = poll_until_ended(&*backend, &handle).await;
    assert_eq!(end.state, JobState::Gone);
    assert!(end.message.unwrap().contains("end.json has 600009 JSON values, the limit is 500000"));
}

/// An end file that the job made itself is reported, and replaced by the supervisor's.
#[tokio::test]
async fn false_end_hides_no_true_end() {
    for end in [
        "truncate -s 512M end.json",
        "echo no JSON > end.json",
        "ln -s /etc/passwd end.json",
        "mkfifo end.json",
    ] {
        let world = World::new();
        let backend = world.connect(json!({})).await;
        let job = script(&format!(
            r#"(cd "$TASKBRIDGE_ARTIFACTS/.."; {end}; touch work/ready); while [ ! -e go ]; do sleep 0.02; done; echo done"#
        ));
        let handle = backend.start(&job).await.unwrap().handle;
        let work = world.job(&job.key).join("work");
        wait_for_file(&work.join("ready")).await;
        let observation = backend.observe(&handle).await.unwrap();
        assert_eq!(observation.state, JobState::Running, "{end}");
        assert!(observation.message.unwrap().contains("end.json"), "{end}");
        fs::write(work.join("go"), "").unwrap();
        let observation = poll_until_ended(&*backend, &handle).await;
        assert_eq!(texts(output(&observation)), ["done\n"], "{end}");
    }
}

#[tokio::test]
async fn false_answer_hides_no_question() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(
        r#"cd "$TASKBRIDGE_QUESTIONS"; echo '{"message": "?"}' > true.json
           for name in big text fifo; do echo '{"message": "Pay", "url": "https://bank.example"}' > $name.json; done
           truncate -s 4G big.answer.json; echo no JSON > text.answer.json; mkfifo fifo.answer.json
           echo message All asked >> "$TASKBRIDGE_EVENTS"; exec sleep 600"#,
    );
    let handle = backend.start(&job).await.unwrap().handle;
    let events_path = world.job(&job.key).join("events");
    wait_for_file(&events_path).await;
    let observation = backend.observe(&handle).await.unwrap();
    assert_eq!(
        observation.questions.iter().map(|question| question.message.as_str()).collect::<Vec<_>>(),
        ["?"]
    );
}

#[tokio::test]
async fn false_log_is_cut() {
    let world = World::new();
    let backend = world.connect(json!({"max_output_bytes": 30})).await;
    let job = script(
        r#"cd "$TASKBRIDGE_ARTIFACTS/../log"; truncate -s 512M stdout.0; echo false > stdout.18446744073709551615
           ln -s /etc/passwd stdout.7; mkfifo stderr.1; touch ../work/ready; exec sleep 600"#,
    );
    let handle = backend.start(&job).await.unwrap().handle;
    wait_for_file(&world.job(&job.key).join("work/ready")).await;
    assert_eq!(backend.observe(&handle).await.unwrap().state, JobState::Running);
    let request = LogRequest { max_bytes: 1 << 30, search: None };
    let log = backend.abilities().logs.unwrap().tail(&handle, &request).await.unwrap();
    assert!(log.text.len() < 200 && log.text.contains("bytes left out"), "{} bytes", log.text.len());
    assert!(log.cut && !log.text.contains("root"));
}

#[tokio::test]
async fn cancel_ignores_links_and_fifos() {
    for cancel in ["mkfifo cancel", "ln -s ../../../victim cancel"] {
        let world = World::new();
        let backend = world.connect(json!({})).await;
        // A slow supervisor may find `cancel` at its first check. It would end the job before it is ready.
        let job = script(&format!(
            r#"trap '' TERM; (cd "$TASKBRIDGE_ARTIFACTS/.."; {cancel}; rm wake; ln -s ../../../config wake; touch work/ready); exec sleep 600"#
        ));
        fs::write(world.config_dir().join("config"), "kept").unwrap();
        let handle = backend.start(&job).await.unwrap().handle;
        wait_for_file(&world.job(&job.key).join("work/ready")).await;
        backend.cancel(&handle).await.unwrap();
        assert!(!world.config_dir().join("victim").exists(), "{cancel}");
        assert_eq!(fs::read(world.config_dir().join("config")).unwrap(), b"kept", "{cancel}");
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(world.supervisor_pid(&job.key)).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        poll_until_ended(&*backend, &handle).await;
    }
}

/// The job reads its file only after the test creates `go`.
#[tokio::test]
async fn swapped_input_file_is_not_read() {
    let world = World::new();
    let (input, secret) = (world.config_dir().join("given.txt"), world.config_dir().join("secret.txt"));
    fs::write(&input, "given").unwrap();
    fs::write(&secret, "secret").unwrap();
    let script = r#"touch ready; while [ ! -e go ]; do sleep 0.02; done; cat "$1""#;
    let mut job = job(json!({"command": ["sh", "-c", script, "sh", "{{ file }}"]}), json!({"file": null}));
    let content = FileContent::Source(SourceFile::new(input.canonicalize().unwrap(), 5));
    job.files = vec![InputFile { parameter: "file".to_owned(), name: "given.txt".to_owned(), content }];
    let backend = world.connect(json!({})).await;
    let handle = backend.start(&job).await.unwrap().handle;
    let work = world.job(&job.key).join("work");
    wait_for_file(&work.join("ready")).await;
    fs::remove_file(&input).unwrap();
    symlink(&secret, &input).unwrap();
    fs::write(work.join("go"), "").unwrap();
    assert_eq!(texts(output(&poll_until_ended(&*backend, &handle).await)), ["given"]);
}

#[tokio::test]
async fn grown_input_file_is_refused() {
    let world = World::new();
    let input = world.config_dir().canonicalize().unwrap().join("given.txt");
    fs::write(&input, "x".repeat(5000)).unwrap();
    let mut job = job(json!({"command": ["cat", "{{ file }}"]}), json!({"file": null}));
    let content = FileContent::Source(SourceFile::new(input, 1000));
    job.files = vec![InputFile { parameter: "file".to_owned(), name: "given.txt".to_owned(), content }];
    let error = world.connect(json!({})).await.start(&job).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    let expected = "the file `given.txt` cannot be used: given.txt has 5000 bytes, the limit is 1000";
    assert_eq!(error.to_string(), expected);
    assert!(!world.job(&job.key).exists());
}

#[tokio::test]
async fn supervisor_survives_file_size_limit() {
    let world = World::new();
    let program = world.config_dir().join("limited");
    symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/limited.sh"), &program).unwrap();
    symlink(env!("CARGO_BIN_EXE_taskbridge-local-supervisor"), program.with_extension("real")).unwrap();
    let backend = world.connect_with(json!({}), program).await;
    let run = async |commands: &str| {
        let handle = backend.start(&script(commands)).await.unwrap().handle;
        poll_until_ended(&*backend, &handle).await
    };
    let observation = run("head -c 20000 /dev/zero | tr '\\0' x >&2; echo done").await;
    assert_eq!(texts(output(&observation)), ["done\n"]);
    let observation = run("head -c 20000 /dev/zero | tr '\\0' x").await;
    assert!(matches!(observation.state, JobState::Failed(_)), "{observation:?}");
    assert!(observation.message.as_ref().unwrap().contains("RLIMIT_FSIZE"), "{:?}", observation.message);
}
