//! Reads all rows of a world from outside its processes, records them and runs the checks. It must not act
//! on the world.

use std::collections::HashSet;

use taskbridge_core::clock::Clock;
use taskbridge_core::tasks::task::{Owner, Task, TaskId};

use super::calls::OWNERS;
use super::checks;
use super::record::Snapshot;
use super::world::{World, name};

impl World {
    /// Reads and records all rows, and runs the checks of every moment.
    pub(super) async fn check_now(&mut self) -> Result<(), String> {
        if let Some(breach) = self.leases.breach() {
            return Err(breach);
        }
        let mut rows = self.visible_rows().await;
        let hidden = self.hidden_rows(&rows).await;
        checks::check_hidden(&hidden)?;
        rows.extend(hidden);
        self.record_rows(&rows).await;
        checks::check_rows(self, &rows, self.last_check_at)?;
        self.last_check_at = (self.clock.now(), self.store_clock.now());
        Ok(())
    }

    /// Records the rows, with the output and the time of each new end.
    async fn record_rows(&self, rows: &[Task]) {
        let now = self.clock.now();
        for task in rows {
            let is_recorded = self
                .record
                .lock()
                .snapshots
                .get(&task.id)
                .is_some_and(|snapshot| snapshot.ended_at.is_some());
            let output = match task.has_ended() && !is_recorded {
                true => self.inspection_store.output(&task.id).await.expect("the file can be read"),
                false => None,
            };
            let mut record = self.record.lock();
            let previous = record.snapshots.remove(&task.id);
            let (output, ended_at) = match previous.filter(|previous| previous.ended_at.is_some()) {
                Some(previous) => (previous.output, previous.ended_at),
                None => (output, task.has_ended().then_some(now)),
            };
            record.snapshots.insert(task.id.clone(), Snapshot { task: task.clone(), output, ended_at });
        }
        self.record.lock().present = rows.iter().map(|task| task.id.clone()).collect();
    }

    /// Returns the breach with the history of all tasks that it names.
    pub(super) async fn with_history(&self, mut breach: String) -> String {
        let task_ids: Vec<TaskId> = {
            let record = self.record.lock();
            let ids = record.snapshots.keys().chain(record.promises.iter().map(|promise| &promise.id));
            let key = |id: &TaskId| record.snapshots.get(id).map(|latest| latest.task.key.as_str());
            let is_named =
                |id: &&TaskId| breach.contains(&name(id)) || key(id).is_some_and(|key| breach.contains(key));
            let mut task_ids: Vec<_> = ids.filter(is_named).cloned().collect();
            task_ids.sort_by(|one, other| one.as_str().cmp(other.as_str()));
            task_ids.dedup();
            task_ids
        };
        for id in task_ids {
            let entries = self.inspection_store.entries(&id).await.expect("the file can be read");
            let history: String = entries.iter().map(|entry| format!("\n    {entry:?}")).collect();
            let record = self.record.lock();
            let promise = record.promises.iter().find(|promise| promise.id == id);
            let snapshot = record.snapshots.get(&id);
            breach = format!("{breach}\n    {snapshot:?}\n    {promise:?}{history}");
        }
        format!("{breach}\n    {:?}", self.plan)
    }

    /// Returns all rows of all owners, including expired ones.
    pub(super) async fn rows(&self) -> Vec<Task> {
        let mut rows = self.visible_rows().await;
        let hidden = self.hidden_rows(&rows).await;
        rows.extend(hidden);
        rows
    }

    /// Returns the rows that their owners can see.
    async fn visible_rows(&self) -> Vec<Task> {
        let mut rows = Vec::new();
        for owner in OWNERS {
            let result = self.inspection_store.list(&Owner::new(owner), None, 10_000).await;
            rows.extend(result.expect("the file can be read"));
        }
        rows
    }

    /// Returns the known rows that are not among these: expired ones.
    async fn hidden_rows(&self, visible: &[Task]) -> Vec<Task> {
        let visible: HashSet<&TaskId> = visible.iter().map(|task| &task.id).collect();
        let mut others: Vec<TaskId> = {
            let record = self.record.lock();
            let known_ids = record.present.iter().chain(record.promises.iter().map(|promise| &promise.id));
            known_ids.filter(|id| !visible.contains(id)).cloned().collect()
        };
        others.sort_by(|one, other| one.as_str().cmp(other.as_str()));
        others.dedup();
        let mut rows = Vec::new();
        for id in others {
            rows.extend(self.inspection_store.get(&id, None).await.expect("the file can be read"));
        }
        rows
    }
}
