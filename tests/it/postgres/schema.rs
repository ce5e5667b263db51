//! Tests for the schema of the PostgreSQL store: created by several servers at once, of another version, by
//! hand, and of another program.

use futures_util::future::join_all;
use taskbridge::store::postgres::{self as store, PostgresStore, StoreClock};
use taskbridge::tasks::store::{Keys as _, StoreError};

use super::store::{assert_contains, open_error};
use crate::support::postgres::{schema, shared};

#[tokio::test]
async fn concurrent_schema_creation_succeeds() {
    let schema = schema();
    let open = || PostgresStore::open(shared().connection_config(&schema), StoreClock::Database);
    let stores = join_all((0..8).map(|_| open())).await;
    let mut keys = Vec::new();
    for (n, store) in stores.into_iter().enumerate() {
        keys.push(store.unwrap().seal_key([n as u8; 32]).await.unwrap());
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
    let migrated = store::migrate(&shared().connection_config(&schema)).await.unwrap();
    assert_eq!((migrated.before, migrated.after, migrated.applied.len()), (9, 9, 0));
}

/// A newer schema that excludes this version is refused and stays unchanged.
#[tokio::test]
async fn newer_schema_is_used_if_compatible() {
    let schema = schema();
    drop(PostgresStore::open(shared().connection_config(&schema), StoreClock::Database).await.unwrap());
    let client = shared().client(&schema).await;
    client.batch_execute("UPDATE taskbridge_schema SET steps = 99, oldest = 1").await.unwrap();
    drop(PostgresStore::open(shared().connection_config(&schema), StoreClock::Database).await.unwrap());
    client.batch_execute("UPDATE taskbridge_schema SET oldest = 98").await.unwrap();
    let error = open_error(shared().connection_config(&schema)).await;
    assert!(matches!(error, StoreError::Broken(_)));
    assert_contains(
        &error,
        &["version 99", "version 98 can use", "up to 9", "newer taskbridge", "another `schema`", &schema],
    );
    let steps = client.query_one("SELECT steps FROM taskbridge_schema", &[]).await.unwrap();
    assert_eq!(steps.get::<_, i32>(0), 99);
}

/// With migration by hand, a server creates nothing and names the command.
#[tokio::test]
async fn manual_schema_is_not_migrated() {
    let schema = schema();
    let config = shared().connection_config(&schema).without_migration();
    assert_contains(&open_error(config.clone()).await, &["has version 0", "needs 9", "`taskbridge migrate`"]);
    let client = shared().client("public").await;
    let exists = "SELECT to_regnamespace($1) IS NOT NULL";
    assert!(!client.query_one(exists, &[&schema]).await.unwrap().get::<_, bool>(0));
    let migrated = store::migrate(&config).await.unwrap();
    assert_eq!((migrated.before, migrated.after), (0, 9));
    let expected = [
        "0001_tasks",
        "0002_history",
        "0003_notices",
        "0004_of_backend",
        "0005_followed_logs",
        "0006_audit",
        "0007_backends",
        "0008_bytes",
        "0009_deliveries",
    ];
    assert_eq!(migrated.applied, expected);
    drop(PostgresStore::open(config, StoreClock::Database).await.unwrap());
}

#[tokio::test]
async fn foreign_schema_is_left_alone() {
    let schema = schema();
    let client = shared().client("public").await;
    client.batch_execute(&format!("CREATE SCHEMA {schema} CREATE TABLE songs (title text)")).await.unwrap();
    assert_contains(
        &open_error(shared().connection_config(&schema)).await,
        &[&schema, "another program", "`schema` in [store]"],
    );
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = $1";
    assert_eq!(client.query_one(tables, &[&schema]).await.unwrap().get::<_, i64>(0), 1);
}
