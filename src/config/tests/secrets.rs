//! Secrets in a config: where they come from, and that neither errors nor `Debug` output show them. It must
//! not use them.

use super::*;
use crate::seal::Key;

/// A secret can be a text, a file or a variable, and errors name only its field.
#[test]
fn backend_secrets_are_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hook"), "hunter2\n").unwrap();
    std::fs::write(folder.path().join("nothing"), "\n").unwrap();
    let read = |secret: &str| {
        let text = format!("[backends.here]\nkind = \"sim\"\nhook_secret = {secret}\n");
        parse(Path::new("x.toml"), folder.path(), &text, &registry(), Some(Path::new("/state")))
    };
    for secret in ["\"hunter2\"", "{ file = \"hook\" }"] {
        let config = read(secret).unwrap();
        assert_eq!(config.backends["here"].fields["hook_secret"], "hunter2", "{secret}");
        assert!(!format!("{config:?}").contains("hunter2"));
    }
    let in_file = || read("{ file = \"hook\" }").unwrap().parts;
    let before = in_file();
    std::fs::write(folder.path().join("hook"), "another\n").unwrap();
    assert_eq!(before.differences(&in_file()).to_string(), "backends changed: here");
    for (secret, expected) in [
        (
            "{ env = \"NOT_SET\" }",
            "environment variable NOT_SET is not set, or not UTF-8: export it, or use { file = \"...\" }",
        ),
        ("{ file = \"nowhere\" }", "nowhere cannot be read: No such file or directory (os error 2)"),
        (
            "{ file = \"nothing\" }",
            "must not be empty: write the secret, { env = \"NAME\" } or { file = \"PATH\" }",
        ),
        ("7", "must be a string, { env = \"NAME\" } or { file = \"PATH\" }"),
    ] {
        let errors = read(secret).unwrap_err().to_string();
        assert!(errors.starts_with("x.toml:3: backends.here.hook_secret: "), "{errors}");
        assert!(errors.ends_with(expected) && errors.lines().count() == 1, "{errors}");
    }
}

/// An error about one member of a table of secrets names that member.
#[cfg(feature = "github-actions")]
#[test]
fn secret_tables_are_read_per_member() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bob.token"), "hunter2\n").unwrap();
    let registry = taskbridge_sdk::Registry::new().with::<taskbridge_github_actions::GithubActions>();
    let read = |ann: &str| {
        let text = format!(
            "[backends.here]\nkind = \"github-actions\"\ntoken = \"own\"\n[backends.here.per_caller.tokens]\n\
             bob = {{ file = \"bob.token\" }}\n\"https://id.example#7\" = {ann}\n"
        );
        parse(Path::new("x.toml"), folder.path(), &text, &registry, Some(Path::new("/state")))
    };
    let config = read("\"hunter3\"").unwrap();
    let tokens = &config.backends["here"].fields["per_caller"]["tokens"];
    assert_eq!((&tokens["bob"], &tokens["https://id.example#7"]), (&"hunter2".into(), &"hunter3".into()));
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && !shown.contains("hunter3"), "{shown}");
    let errors = read("{ env = \"NOT_SET\" }").unwrap_err().to_string();
    let field = "x.toml:6: backends.here.per_caller.tokens.\"https://id.example#7\": ";
    assert!(errors.starts_with(field) && errors.contains("NOT_SET is not set"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn seal_key_error_hides_key() {
    let (one, other) = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210");
    let config = read(&format!("[seal]\nkeys = [\"{one}\", {{ from = \"store\" }}, \"{other}\"]\n")).unwrap();
    assert_eq!(config.seal, [Key::of(one), Key::Own, Key::of(other)]);
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
    assert!(read("[seal]\n").unwrap().seal.is_empty());
    for (keys, expected) in [
        ("[]", "x.toml:2: seal.keys: no keys are listed: list one, or remove `keys` to use the store's own"),
        (
            "[\"hunter2\"]",
            "x.toml:2: seal.keys[0]: the key has 7 characters, the minimum is 32: write the output of `openssl rand -hex 32`",
        ),
        (
            &format!("[\"{one}\",\n \"{other}\",\n \"{one}\"]"),
            "x.toml:4: seal.keys[2]: duplicate of seal.keys[0]: remove one of them",
        ),
        (
            "[{ from = \"store\" }, { from = \"store\" }]",
            "x.toml:2: seal.keys[1]: duplicate of seal.keys[0]: remove one of them",
        ),
        (
            "[{ file = \"none\" }]",
            "x.toml:2: seal.keys[0]: /etc/bridge/none cannot be read: No such file or directory (os error 2)",
        ),
        (
            "[{ from = \"hunter2\" }]",
            "x.toml:2: seal.keys[0]: must be a string, { env = \"NAME\" }, { file = \"PATH\" } or { from = \"store\" }",
        ),
        ("\"hunter2\"", "x.toml:2: seal.keys: must be a list: write keys = [...]"),
    ] {
        assert_eq!(error_text(&format!("[seal]\nkeys = {keys}\n")), expected);
    }
}
