//! A repeated poll returns the current row, after a write of any process.

use super::benches;
use taskbridge_core::tasks::task::Task;

/// A repeated poll returns the current row, also after another process has written it.
#[tokio::test]
async fn poll_cache_follows_other_writers() {
    let (here, there) = benches();
    let mut task = here.add(here.task()).await;
    let poll = async |task: &Task| {
        here.store.get(&task.id, Some((&task.owner).into())).await.expect("it can be polled")
    };
    for message in [None, Some("begun"), Some("begun"), None] {
        // The third update changes only the row's version; the last one restores the first content.
        there.update(&Task { message: message.map(str::to_owned), ..task.clone() }).await;
        task = there.read(&task.id).await.expect("it is there");
        for _ in 0..2 {
            assert_eq!(poll(&task).await, Some(task.clone()));
        }
    }
}
