//! Tests of `include`: configs of several files, their errors, and their reload.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::run;
use crate::support::{BASICS, Client, ProgramOutput, TestDir};

const TOOL: &str = "[tools.NAME]\nbackend = \"sim\"\ntarget = {}\n";

/// The main file, the other files (path and text of each), and a part of the answer.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

fn tool(name: &str) -> String {
    TOOL.replace("NAME", name)
}

async fn check(dir: &TestDir) -> ProgramOutput {
    run(dir, &["check", "--config", "taskbridge.toml"]).await
}

fn write(dir: &TestDir, file: &str, text: &str) {
    fs::create_dir_all(dir.path(file).parent().unwrap()).unwrap();
    fs::write(dir.path(file), text).unwrap();
}

/// Tables of all files are joined. A pattern does not match its own file, and each file is read once.
#[tokio::test]
async fn tables_of_all_files_are_joined() {
    let dir = TestDir::new("include = [\"*.toml\", \"more/tools.toml\"]\n[server]\npage_size = 5\n");
    write(&dir, "engines.toml", "include = [\"more/*.toml\"]\n[backends.sim]\nkind = \"sim\"\n");
    write(&dir, "server.toml", "[server]\ncall_budget = \"1s\"\n[tools]\n");
    write(&dir, "more/tools.toml", &(tool("a") + &tool("b")));
    write(&dir, ".hidden.toml", "broken");
    write(&dir, "notes.txt", "broken");
    let checked = check(&dir).await;
    assert_eq!(checked.stdout, "taskbridge.toml: all right: 2 tools on 1 backend\n", "{}", checked.stderr);
}

/// Lists of tables are appended, and their errors name the line in their own file.
#[tokio::test]
async fn errors_name_file_and_line() {
    let receiver = "[[notify]]\nurl = \"https://example.com/x\"\n";
    let dir = TestDir::new(&format!("include = [\"b.toml\"]\n{receiver}[backends.sim]\nkind = \"sim\"\n"));
    write(
        &dir,
        "b.toml",
        &format!("\n{receiver}timeot = \"1s\"\n\n[tools.t]\nbackend = \"sin\"\ntarget = {{}}\n"),
    );
    let errors = check(&dir).await.stderr;
    let lines: Vec<&str> = errors.lines().collect();
    let folder = dir.path("");
    let file = format!("{}b.toml", folder.display());
    let expected = [
        "taskbridge.toml:2: notify[0]: missing field `secret`".to_owned(),
        format!("{file}:2: notify[1]: missing field `secret`"),
        format!("{file}:4: notify[1].timeot: unknown field `timeot`"),
        format!("{file}:7: tools.t.backend: unknown backend `sin`"),
    ];
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{errors}");
    }
    assert_eq!(lines.len(), expected.len(), "{errors}");
}

/// What two files define, circles, and files that are missing, broken or too deep.
#[tokio::test]
async fn wrong_includes_are_reported() {
    let sim = "[backends.sim]\nkind = \"sim\"\n";
    let deep: Vec<(String, String)> =
        (1..10).map(|n| (format!("d{n}.toml"), format!("include = [\"d{}.toml\"]\n", n + 1))).collect();
    let deep: Vec<(&str, &str)> = deep.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    let cases: [Case<'_>; 9] = [
        (
            "include = [\"b.toml\"]\n[backends.sim]\nkind = \"sim\"\n",
            &[("b.toml", sim)],
            "b.toml:1: backends.sim: defined twice, first in taskbridge.toml:2: merge both, or remove one",
        ),
        (
            "include = [\"b.toml\"]\n",
            &[("b.toml", "\ninclude = [\"taskbridge.toml\"]\n")],
            "b.toml:2: include[0]: ",
        ),
        (
            "include = [\"b.toml\"]\n",
            &[("b.toml", "include = [\"./b.toml\"]\n")],
            "includes this file, itself or through others: remove one of the two",
        ),
        ("include = [\"none.toml\"]\n", &[], "taskbridge.toml:1: include[0]: "),
        ("include = [\"b.toml\"]\n", &[("b.toml", "\na = \n")], "b.toml:2: not valid TOML: "),
        (
            "include = \"b.toml\"\n",
            &[],
            "taskbridge.toml:1: include: \"b.toml\" is not a list: write [\"*.toml\"]",
        ),
        ("include = [3]\n", &[], "taskbridge.toml:1: include[0]: 3 is not a path: write \"*.toml\""),
        ("include = [\"**/*.toml\"]\n", &[], "** is not supported: name each folder"),
        ("include = [\"d1.toml\"]\n", &deep, "too deep: the limit is 8 files that include each other"),
    ];
    for (text, files, expected) in cases {
        let dir = TestDir::new(text);
        files.iter().for_each(|(file, text)| write(&dir, file, text));
        let checked = check(&dir).await;
        assert_eq!(checked.code, Some(1), "{text}");
        assert!(checked.stderr.contains(expected), "{text}: {}", checked.stderr);
    }
}

/// The number of files is limited.
#[tokio::test]
async fn too_many_files_are_refused() {
    let dir = TestDir::new("include = [\"many/*.toml\"]\n");
    (0..300).for_each(|n| write(&dir, &format!("many/{n}.toml"), ""));
    let checked = check(&dir).await;
    assert!(checked.stderr.contains("too many files: the limit of a config is 256"), "{}", checked.stderr);
}

/// A server applies a changed included file, a new one that matches a pattern, and the removal of one.
#[tokio::test]
async fn server_reloads_included_files() {
    let main = format!("include = [\"tools/*.toml\"]\n{BASICS}[backends.sim]\nkind = \"sim\"\n");
    let dir = TestDir::new(&main);
    write(&dir, "tools/a.toml", &tool("a"));
    let server = dir.serve();
    let client = Client::open(server.url()).await.unwrap();
    let names = async || {
        let listed = client.request("tools/list", json!({})).await.unwrap();
        let tools = listed["tools"].as_array().unwrap().iter();
        let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
        // Without those of the server itself.
        names.filter(|name| !name.starts_with("task_")).collect::<Vec<_>>()
    };
    let wait_for = async |expected: &[&str]| {
        let found = tokio::time::timeout(Duration::from_secs(30), async {
            while names().await != expected {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        found.await.unwrap_or_else(|_| panic!("the tools do not become {expected:?}"));
    };
    wait_for(&["a"]).await;
    write(&dir, "tools/b.toml", &tool("b"));
    wait_for(&["a", "b"]).await;
    fs::write(dir.path("tools/new"), tool("c")).unwrap();
    fs::rename(dir.path("tools/new"), dir.path("tools/a.toml")).unwrap();
    wait_for(&["b", "c"]).await;
    fs::remove_file(dir.path("tools/b.toml")).unwrap();
    wait_for(&["c"]).await;
}
