//! An unreadable row affects only itself.

use std::time::Duration;

use rusqlite::Connection;

use super::opened;
use crate::UNREADABLE_RETRY_MS;
use taskbridge_core::clock::Clock as _;
use taskbridge_core::tasks::store::{AccessScope, StoreError};
use taskbridge_core::tasks::task::Owner;

#[tokio::test]
async fn unreadable_row_costs_only_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tasks.db");
    let (store, bench) = opened(&path);
    let (bad, good) = (bench.add(bench.task()).await, bench.add(bench.task()).await);
    let kept = bench.add(bench.closed_task()).await;
    let db = Connection::open(&path).unwrap();
    for id in [&bad.id, &kept.id] {
        db.execute("UPDATE tasks SET body = '{}' WHERE id = ?1", [id.as_str()]).unwrap();
    }
    let owner = Owner::new("alice");
    let scope = Some(AccessScope::from(&owner));
    for access_scope in [None, scope] {
        let error = bench.store.get(&bad.id, access_scope).await.unwrap_err();
        assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
    }
    let listed = bench.store.list(&owner, None, 10).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&good));

    // It is claimed once in ten minutes, regardless of its lease.
    assert_eq!(bench.claim("a").await, std::slice::from_ref(&good.id));
    let claims = store.commits();
    bench.clock.advance(Duration::from_millis(UNREADABLE_RETRY_MS.unsigned_abs()) - Duration::from_secs(1));
    assert_eq!(bench.claim("b").await, [good.id]);
    assert_eq!(bench.claim("b").await, []);
    assert_eq!(store.commits(), claims + 1, "the unreadable row is not claimed again");
    bench.clock.advance(Duration::from_secs(2));
    bench.claim("c").await;
    assert_eq!(store.commits(), claims + 2);

    // Ended rows are deleted after their retention; others stay.
    bench.clock.advance(kept.kept_until().since(kept.created_at));
    assert_eq!(bench.store.purge(bench.clock.now(), 10).await.unwrap().len(), 1);
    assert!(bench.store.get(&kept.id, None).await.unwrap().is_none());
    assert!(bench.store.get(&bad.id, None).await.is_err());
}
