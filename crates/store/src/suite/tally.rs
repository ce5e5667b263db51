//! Tests of the counts.

use std::time::Duration;

use super::Bench;
use super::bench::{new_task, pending, starting, with_slots};
use super::notices::notice;
use taskbridge_core::clock::Clock as _;
use taskbridge_core::tasks::meter::Phase;
use taskbridge_core::tasks::store::{Counts, NewTask};
use taskbridge_core::tasks::task::{Outcome, Task, TaskState};

pub async fn what_there_is_is_counted_by_tool_and_phase(bench: &Bench) {
    let tally = async || bench.store.row_counts().await.expect("the store can count");
    assert_eq!(tally().await, Counts::default());
    let since = bench.clock.now();
    let other = Task { tool: "a\\b".to_owned(), ..bench.task() };
    let rows = [
        bench.task(),
        other,
        Task { job: pending(true, since), ..with_slots(bench.task(), &["a"]) },
        starting(bench.task()),
        bench.open_task("g"),
        bench.open_task("g"),
        Task { state: TaskState::InputRequired, ..bench.open_task("g") },
        Task { state: TaskState::InputRequired, ..bench.task() },
        Task { state: TaskState::Ended(Outcome::Cancelled), ..bench.open_task("g") },
        bench.closed_task(),
    ];
    let mut expected: Vec<(String, Phase, u64)> = Vec::new();
    for row in rows {
        if let Some(phase) = Phase::of(&row) {
            match expected.iter_mut().find(|(tool, other, _)| (&*row.tool, phase) == (&**tool, *other)) {
                Some((_, _, count)) => *count += 1,
                None => expected.push((row.tool.clone(), phase, 1)),
            }
        }
        bench.add(row).await;
    }
    assert_eq!(expected.len(), 7, "each phase, and a second tool");
    bench.clock.advance(Duration::from_secs(5));
    let task = bench.closed_task();
    let notices = vec![notice(&task, "one", "r"), notice(&task, "one", "s")];
    bench.store.insert(NewTask { notices, ..new_task(task) }).await.expect("a row can be added");
    let mut counts = tally().await;
    counts.active.sort();
    expected.sort();
    assert_eq!(counts.active, expected);
    assert_eq!(
        (counts.retained, counts.pending_notices, counts.notices_pending_since),
        (2, 2, Some(bench.clock.now()))
    );
}
