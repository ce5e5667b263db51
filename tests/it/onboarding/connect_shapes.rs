//! The blocks of `taskbridge connect`, compared with the examples in each client's documentation (its address
//! is printed with each block), as of November 2026.

use serde_json::{Value, json};

use super::run;
use crate::support::{PROGRAM, TestDir};

/// A config that refers to a variable, which clients must pass on.
const CONFIG: &str = "[auth]\nmode = \"api_keys\"\n\
    [[auth.keys]]\nprincipal = \"ann\"\n\
    sha256 = \"21fdbeecb49c56644f6cc4444328f5da14132c8a38fd86aad19b4da9e521a79c\"\n\
    [backends.github]\nkind = \"github-actions\"\nrepository = \"octo-org/app\"\ntoken = { env = \"GH_TOKEN\" }\n\
    [tools.release]\nbackend = \"github\"\ntarget = { workflow = \"release.yml\" }\n";

/// Returns the block as data.
async fn block(dir: &TestDir, arguments: &[&str]) -> Value {
    let output = run(dir, &[&["connect"], arguments].concat()).await;
    assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
    match arguments[0] {
        "codex" => toml::from_str(&output.stdout).unwrap(),
        "goose" => serde_saphyr::from_str(&output.stdout).unwrap(),
        _ => serde_json::from_str(&output.stdout).unwrap(),
    }
}

/// A client that starts the server: with absolute paths, and with the variable of the config.
#[tokio::test]
async fn stdio_blocks_match_documentation() {
    let dir = TestDir::new(CONFIG);
    let file = dir.config().to_str().unwrap().to_owned();
    let args = json!(["--stdio", "--config", file]);
    let input =
        json!([{"type": "promptString", "id": "GH_TOKEN", "description": "GH_TOKEN", "password": true}]);
    let expected = [
        (
            "claude-code",
            json!({"mcpServers": {"taskbridge": {
                "type": "stdio", "command": PROGRAM, "args": args, "env": {"GH_TOKEN": "${GH_TOKEN}"}}}}),
        ),
        ("claude-desktop", json!({"mcpServers": {"taskbridge": {"command": PROGRAM, "args": args}}})),
        (
            "vscode",
            json!({"inputs": input, "servers": {"taskbridge": {
                "type": "stdio", "command": PROGRAM, "args": args, "env": {"GH_TOKEN": "${input:GH_TOKEN}"}}}}),
        ),
        (
            "cursor",
            json!({"mcpServers": {"taskbridge": {
                "type": "stdio", "command": PROGRAM, "args": args, "env": {"GH_TOKEN": "${env:GH_TOKEN}"}}}}),
        ),
        (
            "codex",
            json!({"mcp_servers": {"taskbridge": {"command": PROGRAM, "args": args, "env_vars": ["GH_TOKEN"]}}}),
        ),
        (
            "gemini",
            json!({"mcpServers": {"taskbridge": {
                "command": PROGRAM, "args": args, "env": {"GH_TOKEN": "${GH_TOKEN}"}}}}),
        ),
        (
            "goose",
            json!({"extensions": {"taskbridge": {
                "enabled": true, "type": "stdio", "name": "taskbridge",
                "description": "Durable tasks in workflow engines", "timeout": 300,
                "cmd": PROGRAM, "args": args, "env_keys": ["GH_TOKEN"]}}}),
        ),
        ("zed", json!({"context_servers": {"taskbridge": {"command": PROGRAM, "args": args, "env": {}}}})),
        (
            "inspector",
            json!({"mcpServers": {"taskbridge": {"type": "stdio", "command": PROGRAM, "args": args}}}),
        ),
    ];
    for (client, expected) in expected {
        // The variable is not set here: a client's settings refer to it.
        assert_eq!(block(&dir, &[client, "--config", &file]).await, expected, "{client}");
    }
}

/// A client that connects to a running server with an API key.
#[tokio::test]
async fn http_blocks_match_documentation() {
    let dir = TestDir::new(CONFIG);
    let file = dir.config().to_str().unwrap().to_owned();
    let url = "http://127.0.0.1:8808/mcp";
    let bearer = |reference: &str| json!({"Authorization": format!("Bearer {reference}")});
    let input = json!([
        {"type": "promptString", "id": "TASKBRIDGE_KEY", "description": "API key of taskbridge", "password": true}
    ]);
    let expected = [
        (
            "claude-code",
            json!({"mcpServers": {"taskbridge": {
                "type": "http", "url": url, "headers": bearer("${TASKBRIDGE_KEY}")}}}),
        ),
        (
            "vscode",
            json!({"inputs": input, "servers": {"taskbridge": {
                "type": "http", "url": url, "headers": bearer("${input:TASKBRIDGE_KEY}")}}}),
        ),
        (
            "cursor",
            json!({"mcpServers": {"taskbridge": {"url": url, "headers": bearer("${env:TASKBRIDGE_KEY}")}}}),
        ),
        (
            "codex",
            json!({"mcp_servers": {"taskbridge": {"url": url, "bearer_token_env_var": "TASKBRIDGE_KEY"}}}),
        ),
        (
            "gemini",
            json!({"mcpServers": {"taskbridge": {"httpUrl": url, "headers": bearer("${TASKBRIDGE_KEY}")}}}),
        ),
        (
            "goose",
            json!({"extensions": {"taskbridge": {
                "enabled": true, "type": "streamable_http", "name": "taskbridge",
                "description": "Durable tasks in workflow engines", "timeout": 300,
                "uri": url, "headers": bearer("${TASKBRIDGE_KEY}"), "env_keys": ["TASKBRIDGE_KEY"]}}}),
        ),
        ("zed", json!({"context_servers": {"taskbridge": {"url": url, "headers": bearer("YOUR_KEY")}}})),
        ("inspector", json!({"mcpServers": {"taskbridge": {"type": "streamable-http", "url": url}}})),
    ];
    for (client, expected) in expected {
        assert_eq!(block(&dir, &[client, "--config", &file, "--http"]).await, expected, "{client}");
        // The same address without its config, and without a key.
        let plain = block(&dir, &[client, "--url", url]).await;
        assert!(!plain.to_string().contains("KEY") && plain.to_string().contains(url), "{client}: {plain}");
    }
}
