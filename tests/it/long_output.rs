//! Tests of how much of a job's output a result contains: head and tail of long text, and no bytes that are
//! not text. A result that the job wrote as such is never truncated.

use serde_json::{Value, json};

use crate::support::{BASICS, Client, TestDir, text};

const TOOLS: &str = r#"
[backends.here]
kind = "local"

[tools.numbers]
backend = "here"
target.command = ["seq", "1", "33000"]

[tools.short]
backend = "here"
result_bytes = 1000
target.command = ["seq", "1", "33000"]

[tools.garbage]
backend = "here"
target.command = ["head", "-c", "82000", "/dev/zero"]

[tools.written]
backend = "here"
target.command = ["sh", "-c", 'printf "[{\"type\":\"text\",\"text\":\"%s\"}]" "$(seq -s , 1 33000)" > "$TASKBRIDGE_CONTENT"']

[tools.declared]
backend = "here"
output_schema = { type = "object" }
target.command = ["sh", "-c", 'echo "{}" > "$TASKBRIDGE_OUTPUT"; seq 1 33000']
"#;

async fn result(client: &Client, tool: &str) -> Value {
    let task = client.start(tool, json!({})).await.unwrap();
    client.result(&task).await.unwrap()
}

#[tokio::test]
async fn long_output_is_shortened_and_linked() {
    let dir = TestDir::new(&format!("{BASICS}{TOOLS}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    for (tool, limit) in [("numbers", 16 * 1024), ("short", 1000)] {
        let result = result(&client, tool).await;
        let output = text(&result);
        assert!(output.starts_with("1\n2\n3\n") && output.ends_with("\n32999\n33000\n"), "{tool}: {output}");
        assert!(output.len() <= limit && output.len() > limit * 9 / 10, "{tool}: {} bytes", output.len());
        let log = result["content"].as_array().unwrap().iter().find(|block| block["name"] == "log").unwrap();
        let gap = output.lines().find(|line| line.starts_with("[... ")).unwrap();
        assert!(gap.contains(log["uri"].as_str().unwrap()) && gap.contains("task_logs"), "{gap}");
    }
}

#[tokio::test]
async fn binary_output_is_named() {
    let dir = TestDir::new(&format!("{BASICS}{TOOLS}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    assert_eq!(text(&result(&client, "garbage").await), "[82000 bytes on standard output that are not text]");
}

#[tokio::test]
async fn written_results_are_never_cut() {
    let dir = TestDir::new(&format!("{BASICS}{TOOLS}"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    for tool in ["written", "declared"] {
        let result = result(&client, tool).await;
        let output = text(&result);
        assert!(output.len() > 180_000 && !output.contains("left out"), "{tool}: {} bytes", output.len());
    }
}
