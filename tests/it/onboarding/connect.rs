//! Tests of `taskbridge connect --write`: which file it writes, what it keeps, and what it refuses.

use std::fs;

use serde_json::{Value, json};

use super::run;
use crate::support::TestDir;

const URL: &str = "http://127.0.0.1:8808/mcp";

/// Every client has its documented file, of the user and of the project.
#[tokio::test]
async fn each_scope_has_its_file() {
    let dir = TestDir::new("");
    let files = [
        ("claude-code", Some(".claude.json"), Some(".mcp.json")),
        ("vscode", Some(".config/Code/User/mcp.json"), Some(".vscode/mcp.json")),
        ("cursor", Some(".cursor/mcp.json"), Some(".cursor/mcp.json")),
        ("codex", Some(".codex/config.toml"), Some(".codex/config.toml")),
        ("gemini", Some(".gemini/settings.json"), Some(".gemini/settings.json")),
        ("goose", Some(".config/goose/config.yaml"), None),
        ("zed", Some(".config/zed/settings.json"), Some(".zed/settings.json")),
        ("inspector", None, Some("mcp.json")),
    ];
    for (client, user, project) in files {
        for (scope, file) in [("user", user), ("project", project)] {
            let output = run(&dir, &["connect", client, "--url", URL, "--scope", scope, "--write"]).await;
            let Some(file) = file else {
                assert_eq!(output.code, Some(1), "{client}: {scope}");
                assert!(output.stderr.contains("use --scope "), "{}", output.stderr);
                continue;
            };
            assert_eq!(output.code, Some(0), "{client}: {scope}: {}", output.stderr);
            let text = fs::read_to_string(dir.path(file)).unwrap();
            assert!(text.contains("taskbridge") && text.contains(URL), "{client}: {text}");
            fs::remove_file(dir.path(file)).unwrap();
        }
    }
}

/// Comments, order and layout of what is there stay. A second run replaces the block and adds none.
#[tokio::test]
async fn writing_keeps_the_rest_of_file() {
    let dir = TestDir::new("");
    let connect = async |client: &str, scope: &str, url: &str| {
        let output = run(&dir, &["connect", client, "--scope", scope, "--url", url, "--write"]).await;
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        output.stdout
    };
    fs::create_dir_all(dir.path(".zed")).unwrap();
    let before = "// mine\n{\n  \"z\": 1, // last letter\n  \"context_servers\": {\n    \"other\": { \"url\": \"x\" },\n  },\n  \
                  \"a\": [1,2]\n}\n";
    fs::write(dir.path(".zed/settings.json"), before).unwrap();
    assert!(connect("zed", "project", URL).await.contains("added context_servers.taskbridge"));
    let once = fs::read_to_string(dir.path(".zed/settings.json")).unwrap();
    for kept in ["// mine", "\"z\": 1, // last letter", "\"other\": { \"url\": \"x\" }", "\"a\": [1,2]"] {
        assert!(once.contains(kept), "{once}");
    }
    assert!(connect("zed", "project", URL).await.contains("replaced context_servers.taskbridge"));
    assert_eq!(fs::read_to_string(dir.path(".zed/settings.json")).unwrap(), once);

    fs::create_dir_all(dir.path(".codex")).unwrap();
    let before = "# mine\nmodel = \"m\"\n\n[mcp_servers.other] # kept\ncommand = \"x\"\n";
    fs::write(dir.path(".codex/config.toml"), before).unwrap();
    connect("codex", "user", URL).await;
    connect("codex", "user", "http://127.0.0.1:9/mcp").await;
    let text = fs::read_to_string(dir.path(".codex/config.toml")).unwrap();
    assert!(text.starts_with(before), "{text}");
    assert_eq!(text.matches("[mcp_servers.taskbridge]").count(), 1, "{text}");
    assert!(text.contains("http://127.0.0.1:9/mcp") && !text.contains(URL), "{text}");

    fs::create_dir_all(dir.path(".config/goose")).unwrap();
    let before =
        "GOOSE_MODEL: m # mine\nextensions:\n  # built in\n  developer:\n    enabled: true\nlast: 1\n";
    fs::write(dir.path(".config/goose/config.yaml"), before).unwrap();
    connect("goose", "user", "http://127.0.0.1:9/mcp").await;
    connect("goose", "user", URL).await;
    let text = fs::read_to_string(dir.path(".config/goose/config.yaml")).unwrap();
    let value: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(value["extensions"]["taskbridge"]["uri"], URL, "{text}");
    assert_eq!((&value["extensions"]["developer"]["enabled"], &value["last"]), (&json!(true), &json!(1)));
    assert!(text.contains("m # mine") && text.contains("# built in") && !text.contains(":9/"), "{text}");
}

/// VS Code asks for a value once, whatever number of servers refer to it.
#[tokio::test]
async fn vscode_input_is_added_once() {
    let dir = TestDir::new("");
    for name in ["one", "two", "one"] {
        let arguments =
            ["connect", "vscode", "--url", URL, "--key", "--scope", "project", "--name", name, "--write"];
        assert_eq!(run(&dir, &arguments).await.code, Some(0));
    }
    let text = fs::read_to_string(dir.path(".vscode/mcp.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["inputs"].as_array().unwrap().len(), 1, "{text}");
    assert_eq!(value["servers"].as_object().unwrap().len(), 2, "{text}");
}

/// A file that is not what the documentation describes stays as it is.
#[tokio::test]
async fn unexpected_file_is_not_changed() {
    let dir = TestDir::new("");
    let cases = [
        ("cursor", ".cursor/mcp.json", "{ broken"),
        ("cursor", ".cursor/mcp.json", "[]"),
        ("cursor", ".cursor/mcp.json", "{\"mcpServers\": []}"),
        ("codex", ".codex/config.toml", "mcp_servers = 3"),
        ("goose", ".config/goose/config.yaml", "extensions: {a: {enabled: true}}\n"),
        ("goose", ".config/goose/config.yaml", "a: [\n"),
    ];
    for (client, file, text) in cases {
        fs::create_dir_all(dir.path(file).parent().unwrap()).unwrap();
        fs::write(dir.path(file), text).unwrap();
        let output = run(&dir, &["connect", client, "--scope", "user", "--url", URL, "--write"]).await;
        assert_eq!(output.code, Some(1), "{client}: {text}: {output:?}");
        assert!(output.stderr.contains(file) && output.stderr.contains("Nothing was written"), "{output:?}");
        assert_eq!(fs::read_to_string(dir.path(file)).unwrap(), text);
    }
}

/// A dotfile that is a link stays one, and a private file stays private.
#[tokio::test]
async fn link_and_mode_are_kept() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let dir = TestDir::new("");
    fs::write(dir.path("real.json"), "{}").unwrap();
    fs::set_permissions(dir.path("real.json"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("real.json", dir.path(".claude.json")).unwrap();
    assert_eq!(run(&dir, &["connect", "claude-code", "--url", URL, "--write"]).await.code, Some(0));
    assert!(fs::symlink_metadata(dir.path(".claude.json")).unwrap().is_symlink());
    assert!(fs::read_to_string(dir.path("real.json")).unwrap().contains(URL));
    assert_eq!(fs::metadata(dir.path("real.json")).unwrap().permissions().mode() & 0o777, 0o600);
}

/// What cannot work is refused, with the reason.
#[tokio::test]
async fn impossible_connection_is_refused() {
    let dir = TestDir::new("[server]\nlisen = 1\n");
    let config = dir.config().to_str().unwrap().to_owned();
    let cases: [(&[&str], &str); 4] = [
        (&["claude-desktop", "--url", URL], "only names programs to start"),
        (&["cursor", "--url", "localhost:8808"], "not an address"),
        (&["cursor", "--config", &config], "did you mean `listen`?"),
        (&["cursor"], "no config file"),
    ];
    for (arguments, expected) in cases {
        let output = run(&dir, &[&["connect"], arguments].concat()).await;
        assert_eq!(output.code, Some(1), "{arguments:?}");
        assert!(output.stderr.contains(expected) && output.stdout.is_empty(), "{output:?}");
    }
}
