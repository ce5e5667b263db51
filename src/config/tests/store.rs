//! The store's settings and their errors. It must not open a store.

use super::*;

/// The address of a store is shown without its password.
#[test]
fn postgres_store_shows_address_only() {
    let config = read(
        "[store]\nkind = \"postgres\"\nurl = \"postgres://me:hunter2@db.example.com/tasks\"\nschema = \"bridge\"\n",
    )
    .unwrap();
    assert_eq!(config.store.database.to_string(), "postgres://me@db.example.com:5432/tasks (schema bridge)");
    assert_eq!(config.store.backends_dir, Path::new("/state/taskbridge/backends"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn store_config_error_hides_secrets() {
    let wrong = |store: &str| read(&format!("[store]\n{store}")).unwrap_err().to_string();
    let url = "kind = \"postgres\"\nurl = \"postgres://me:hunter2@db/tasks\"";
    for (store, expected) in [
        ("kind = \"postgres\"".to_owned(), "store.url: a PostgreSQL store needs `url`"),
        ("url = \"postgres://me@db/tasks\"".to_owned(), "store.url: only allowed with kind = \"postgres\""),
        (format!("{url}\npath = \"x.db\""), "store.path: only allowed with kind = \"sqlite\""),
        (format!("{url}\nschema = \"My Tasks\""), "store.schema: \"My Tasks\" cannot be a schema here"),
        (format!("{url}\nmax_connections = 1"), "store.max_connections: one is too few"),
        (format!("{url}\ntls = false\nca_file = \"x.pem\""), "store.ca_file: without TLS"),
        (format!("{url}\nca_file = \"x.pem\""), "x.pem cannot be read"),
        (
            format!("{url}\npassword = {{ file = \"none\" }}"),
            "store.password: /etc/bridge/none cannot be read",
        ),
        (format!("{url}\npassword = 3"), "store.password: must be a string, { env"),
        (
            "kind = \"postgres\"\nurl = \"postgres://me:hun@ter2@db\"".to_owned(),
            "store.url: it cannot be understood",
        ),
    ] {
        let text = wrong(&store);
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(!text.contains("hunter2") && !text.contains("ter2"), "{text}");
    }
}
