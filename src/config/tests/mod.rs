//! Tests of the config, by topic: every kind of mistake with its exact message. The tests of whole files are
//! here, with the helpers of the others.

mod access;
mod addresses;
mod auth;
mod mistakes;
mod secrets;
mod served;
mod server;
mod store;
mod tools;

use std::path::{Path, PathBuf};

use taskbridge_sdk::Registry;
use taskbridge_sdk::sim::Sim;

use super::{Config, Problems, Sources, parse};
use crate::catalog::Body;

fn registry() -> Registry {
    Registry::new().with::<Sim>()
}

fn read(text: &str) -> Result<Config, Problems> {
    parse(Path::new("x.toml"), Path::new("/etc/bridge"), text, &registry(), Some(Path::new("/state")))
}

fn error_text(text: &str) -> String {
    read(text).expect_err("the config is wrong").to_string()
}

/// Returns the problems of a config with a valid backend, followed by this text.
fn with_backend(rest: &str) -> String {
    error_text(&format!("[backends.here]\nkind = \"sim\"\n{rest}"))
}

/// Returns the problems of a config with a tool that contains this text, from line 6 on.
fn with_tool(rest: &str) -> String {
    with_backend(&format!("[tools.t]\nbackend = \"here\"\ntarget = {{}}\n{rest}"))
}

#[test]
fn empty_config_gets_defaults() {
    let config = read("").unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8808");
    assert_eq!(config.store.database.to_string(), "/state/taskbridge/taskbridge.db");
    assert_eq!(config.store.backends_dir, Path::new("/state/taskbridge/backends"));
    assert!(config.tools.is_empty() && config.backends.is_empty() && config.slot_limits.is_empty());
}

#[test]
fn relative_paths_start_at_config_file() {
    let config = read("[store]\npath = \"db/x.db\"\n").unwrap();
    assert_eq!(config.store.database.to_string(), "/etc/bridge/db/x.db");
    assert_eq!(config.store.backends_dir, Path::new("/etc/bridge/db/backends"));
}

/// All errors of a config are reported at once, sorted by line.
#[test]
fn config_errors_follow_line_order() {
    let text = error_text(
        "[server]\nlisen = \"x\"\npage_size = 0\n[store]\nkind = \"x\"\n[backends.a]\nkind = \"x\"\n\
         [tools.t]\nbackend = \"b\"\ntarget = {}\ntask_support = \"x\"\n[tolls]\n",
    );
    let lines: Vec<_> =
        text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "x.toml:2: server.lisen:",
            "x.toml:3: server.page_size:",
            "x.toml:5: store.kind:",
            "x.toml:7: backends.a.kind:",
            "x.toml:9: tools.t.backend:",
            "x.toml:11: tools.t.task_support:",
            "x.toml:12: tolls:",
        ]
    );
}

/// Missing files are tracked too. A changed file changes the part of the config that refers to it.
#[test]
fn config_tracks_referenced_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in
        [("in.json", "{\"type\": \"object\"}"), ("a.md", "# A"), ("p.md", "{{ x }}"), ("c.png", "png")]
    {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let text = "[backends.here]\nkind = \"sim\"\n[tools.t]\nbackend = \"here\"\ntarget = {}\ninput_schema = \"in.json\"\n\
                [resources.r]\nuri = \"a:b\"\nfile = \"a.md\"\n[prompts.p]\narguments = [{ name = \"x\" }]\n\
                messages = [{ file = \"p.md\" }, { image = \"c.png\" }, { resource = \"a:b\" }]\n";
    let file = folder.path().join("x.toml");
    std::fs::write(&file, text).unwrap();
    let load = super::read(&file, &registry(), Some(Path::new("/state")));
    let config = load.config.unwrap();
    let names = |sources: &Sources| -> Vec<_> {
        sources.files().map(|file| file.strip_prefix(folder.path()).unwrap().to_owned()).collect()
    };
    assert_eq!(names(&load.sources), ["x.toml", "in.json", "a.md", "p.md", "c.png"].map(PathBuf::from));
    std::fs::write(&file, text.replace("a.md", "none.md")).unwrap();
    let wrong = super::read(&file, &registry(), Some(Path::new("/state")));
    assert!(wrong.config.is_err());
    let missing_file = PathBuf::from("none.md");
    assert!(names(&wrong.sources).contains(&missing_file), "one that is missing is waited for");

    std::fs::write(folder.path().join("a.md"), "# B").unwrap();
    std::fs::write(&file, text).unwrap();
    let reloaded = super::read(&file, &registry(), Some(Path::new("/state"))).config.unwrap();
    assert_eq!(config.parts.differences(&reloaded.parts).to_string(), "resources changed: r");
    let resource = config.resources.get("a:b").unwrap();
    assert_eq!(
        (&*resource.metadata.mime_type, &resource.body),
        ("text/markdown", &Body::Text("# A".to_owned()))
    );
    assert!(resource.metadata.annotations.last_modified.is_some());
}
