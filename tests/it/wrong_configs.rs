//! Compares the messages of `taskbridge check` for a hundred wrong configs with `wrong_configs.txt`, which
//! people review. New cases are added there without messages; `TASKBRIDGE_REVIEW=1` rewrites the messages.

use std::path::PathBuf;

use crate::support::{TestDir, knob};

/// A wrong config and its messages.
struct Case {
    title: String,
    config: String,
    answer: String,
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/wrong_configs.txt")
}

/// Parses the cases: a title after `## `, the lines of a config, and the lines of the messages, each after
/// `> `.
fn cases(text: &str) -> Vec<Case> {
    let parts = text.split("\n## ").skip(1);
    let case = |part: &str| {
        let (title, lines) = part.split_once('\n').unwrap();
        let (answer, config): (Vec<&str>, Vec<&str>) = lines.lines().partition(|line| line.starts_with("> "));
        let answer = answer.into_iter().map(|line| format!("{}\n", &line[2..])).collect();
        let config = format!("{}\n", config.join("\n").trim_end());
        Case { title: title.to_owned(), config, answer }
    };
    parts.map(case).collect()
}

fn render_cases(head: &str, cases: &[Case]) -> String {
    let mut text = head.to_owned();
    for Case { title, config, answer } in cases {
        let answer: String = answer.lines().map(|line| format!("> {line}\n")).collect();
        text.push_str(&format!("\n## {title}\n{config}{answer}"));
    }
    text
}

#[tokio::test]
async fn wrong_configs_are_answered_as_reviewed() {
    let reviewed = std::fs::read_to_string(file()).unwrap();
    let head = format!("{}\n", reviewed.split("\n## ").next().unwrap().trim_end());
    let mut cases = cases(&reviewed);
    assert!(cases.len() >= 100, "{} cases", cases.len());
    let dir = TestDir::new("");
    for case in &mut cases {
        std::fs::write(dir.config(), &case.config).unwrap();
        let output = dir.run(dir.command("check")).await;
        assert_eq!(output.code, Some(1), "{}: {output:?}", case.title);
        let folder = dir.config().parent().unwrap().display().to_string();
        let answer = output.stderr.replace(&format!("{folder}/"), "");
        for line in answer.lines() {
            assert!(line.starts_with("taskbridge.toml:"), "{}: no line is named: {line}", case.title);
            let foreign = ["invalid type", "unknown variant", "expected", "struct ", " u32", "usize"];
            assert!(!foreign.iter().any(|word| line.contains(word)), "{}: {line}", case.title);
        }
        case.answer = answer;
    }
    let current = render_cases(&head, &cases);
    if knob("TASKBRIDGE_REVIEW", 0) == 1 {
        std::fs::write(file(), current).unwrap();
        return;
    }
    let differs = reviewed.lines().zip(current.lines()).find(|(reviewed, current)| reviewed != current);
    assert!(
        reviewed == current,
        "{differs:?}: write it anew with TASKBRIDGE_REVIEW=1, and review the difference"
    );
}
