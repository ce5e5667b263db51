//! Tests of `taskbridge completions` and `taskbridge man`.

use std::fs;
use std::process::Command;

use super::run;
use crate::support::TestDir;

/// Every shell gets a script; that of bash is valid, and knows commands and flags.
#[tokio::test]
async fn completions_know_commands() {
    let dir = TestDir::new("");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = run(&dir, &["completions", shell]).await;
        assert_eq!(output.code, Some(0), "{shell}");
        for word in ["doctor", "connect", "idempotency-key"] {
            assert!(output.stdout.contains(word), "{shell}: {word}");
        }
        if shell == "bash" {
            fs::write(dir.path("completions.bash"), output.stdout).unwrap();
            let mut bash = Command::new("bash");
            let script = "source completions.bash; COMP_WORDS=(taskbridge doc); COMP_CWORD=1; \
                          _taskbridge taskbridge doc taskbridge; echo ${COMPREPLY[@]}";
            dir.prepare(bash.args(["-c", script]));
            let completed = dir.run(bash).await;
            assert_eq!(completed.stdout, "doctor\n", "{completed:?}");
        }
    }
}

/// Each command has a page.
#[tokio::test]
async fn man_pages_are_written() {
    let dir = TestDir::new("");
    assert_eq!(run(&dir, &["man", "share/man1"]).await.code, Some(0));
    for page in ["taskbridge.1", "taskbridge-call.1", "taskbridge-tasks-show.1", "taskbridge-connect.1"] {
        let text = fs::read_to_string(dir.path("share/man1").join(page)).unwrap();
        assert!(text.contains(".SH NAME"), "{page}");
    }
    fs::write(dir.path("file"), "").unwrap();
    let refused = run(&dir, &["man", "file/man1"]).await;
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("file/man1"), "{}", refused.stderr);
}
