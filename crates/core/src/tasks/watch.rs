//! Change notifications for tasks within one process. A notification is a hint: it may be lost or spurious. A
//! waiter subscribes first, then reads the row, and reads it again after each hint. This module must not read
//! or write rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use super::store::Hint;
use super::task::{Task, TaskId};

/// The registry of watchers.
#[derive(Clone, Default)]
pub struct ChangeNotifier {
    topics: Arc<Mutex<Topics>>,
    /// Counts the writes of all rows.
    writes: watch::Sender<u64>,
}

#[derive(Default)]
struct Topics {
    tasks: HashMap<TaskId, watch::Sender<u64>>,
    /// Counts the writes of single rows.
    rows: HashMap<TaskId, watch::Sender<u64>>,
    channels: HashMap<String, Vec<Arc<Inbox>>>,
    followers: HashMap<TaskId, Vec<Arc<Inbox>>>,
    /// Receives the names of channels of which another process has changed data other than tasks.
    remote_channels: Option<mpsc::UnboundedSender<String>>,
}

/// The changes of a channel's tasks, or of the followed tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// These tasks changed.
    pub tasks: HashSet<TaskId>,
    /// True if other data may have changed too: another process wrote unknown data, or other data of the
    /// channel changed.
    pub others: bool,
    /// True if hints may have been missed, so that any task may have changed.
    pub missed: bool,
}

#[derive(Default)]
struct Inbox {
    changed: Mutex<ChangeSet>,
    not_empty: Notify,
}

/// A subscription to hints about one task.
pub struct Listener {
    receiver: watch::Receiver<u64>,
    task: TaskId,
    topics: Arc<Mutex<Topics>>,
}

/// A subscription to the writes of one row, or of all rows, also to those that change nothing which a client
/// of the protocol sees.
pub struct RowListener {
    receiver: watch::Receiver<u64>,
    row: Option<(TaskId, Arc<Mutex<Topics>>)>,
}

/// A subscription to hints about several tasks: all tasks of a channel, or the followed ones.
pub struct ChangeSubscription {
    inbox: Arc<Inbox>,
    scope: SubscriptionScope,
    topics: Arc<Mutex<Topics>>,
}

enum SubscriptionScope {
    Channel(String),
    Tasks(HashSet<TaskId>),
}

impl ChangeNotifier {
    /// Subscribes to one task.
    pub fn listen(&self, task: &TaskId) -> Listener {
        let mut topics = self.topics.lock();
        let sender = topics.tasks.entry(task.clone()).or_insert_with(|| watch::Sender::new(0));
        Listener { receiver: sender.subscribe(), task: task.clone(), topics: Arc::clone(&self.topics) }
    }

    /// Subscribes to the writes of this row, or of all rows.
    pub fn listen_to_rows(&self, task: Option<&TaskId>) -> RowListener {
        let Some(task) = task else {
            return RowListener { receiver: self.writes.subscribe(), row: None };
        };
        let mut topics = self.topics.lock();
        let sender = topics.rows.entry(task.clone()).or_insert_with(|| watch::Sender::new(0));
        let receiver = sender.subscribe();
        RowListener { receiver, row: Some((task.clone(), Arc::clone(&self.topics))) }
    }

    /// Notifies those who listen to rows that this one was written.
    pub fn row_written(&self, id: &TaskId) {
        if let Some(sender) = self.topics.lock().rows.get(id) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
        self.writes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Subscribes to all tasks of a channel.
    pub fn changes(&self, channel: &str) -> ChangeSubscription {
        let inbox = Arc::new(Inbox::default());
        self.topics.lock().channels.entry(channel.to_owned()).or_default().push(Arc::clone(&inbox));
        ChangeSubscription {
            inbox,
            scope: SubscriptionScope::Channel(channel.to_owned()),
            topics: Arc::clone(&self.topics),
        }
    }

    /// Subscribes to these tasks.
    pub fn follow(&self, tasks: impl IntoIterator<Item = TaskId>) -> ChangeSubscription {
        let inbox = Arc::new(Inbox::default());
        let tasks: HashSet<TaskId> = tasks.into_iter().collect();
        let mut topics = self.topics.lock();
        for task in &tasks {
            topics.followers.entry(task.clone()).or_default().push(Arc::clone(&inbox));
        }
        ChangeSubscription { inbox, scope: SubscriptionScope::Tasks(tasks), topics: Arc::clone(&self.topics) }
    }

    /// Notifies the subscribers of this task and of its channel.
    pub fn changed(&self, task: &Task) {
        self.task_changed(&task.id, task.origin.channel.as_deref());
    }

    /// Returns a receiver of the channels of which other processes change other data than tasks. Only the
    /// receiver of the last call is notified.
    pub fn remote_channel_changes(&self) -> mpsc::UnboundedReceiver<String> {
        let (sender, channels) = mpsc::unbounded_channel();
        self.topics.lock().remote_channels = Some(sender);
        channels
    }

    /// Notifies the subscribers that a hint of the store concerns. The hint is about a write of another
    /// process.
    pub fn forward_hint(&self, hint: &Hint) {
        match hint {
            Hint::Anything => self.all_changed(),
            Hint::Task { id, channel } => self.task_changed(id, channel.as_deref()),
            Hint::Channel(channel) => {
                self.channel_changed(channel);
                if let Some(sender) = &self.topics.lock().remote_channels {
                    // The receiver is gone once the serving of clients has ended.
                    let _ = sender.send(channel.clone());
                }
            }
        }
    }

    /// Notifies the subscribers of the task with this id, and of its channel.
    pub fn task_changed(&self, id: &TaskId, channel: Option<&str>) {
        self.row_written(id);
        let topics = self.topics.lock();
        if let Some(sender) = topics.tasks.get(id) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
        let of_channel = channel.and_then(|channel| topics.channels.get(channel));
        let followers = topics.followers.get(id);
        for inbox in of_channel.into_iter().chain(followers).flatten() {
            inbox.changed.lock().tasks.insert(id.clone());
            inbox.not_empty.notify_one();
        }
    }

    /// Notifies the subscribers of a channel that other data than its tasks has changed. They read everything
    /// again.
    pub fn channel_changed(&self, channel: &str) {
        for inbox in self.topics.lock().channels.get(channel).into_iter().flatten() {
            inbox.changed.lock().others = true;
            inbox.not_empty.notify_one();
        }
    }

    /// Notifies all subscribers: another process wrote unknown rows.
    fn all_changed(&self) {
        self.writes.send_modify(|count| *count = count.wrapping_add(1));
        let topics = self.topics.lock();
        for sender in topics.tasks.values().chain(topics.rows.values()) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
        for inbox in topics.channels.values().chain(topics.followers.values()).flatten() {
            let mut changed = inbox.changed.lock();
            (changed.others, changed.missed) = (true, true);
            drop(changed);
            inbox.not_empty.notify_one();
        }
    }
}

impl Listener {
    /// Waits for the next hint, including hints since the last call.
    pub async fn hint(&mut self) {
        // The sender stays in the map while a listener exists, so this cannot fail while `self` exists.
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl ChangeSubscription {
    /// Waits for hints, and takes all hints since the last call. It is cancel-safe: a drop while it waits
    /// loses none.
    pub async fn next(&mut self) -> ChangeSet {
        loop {
            let changed = std::mem::take(&mut *self.inbox.changed.lock());
            if changed != ChangeSet::default() {
                return changed;
            }
            self.inbox.not_empty.notified().await;
        }
    }
}

impl RowListener {
    /// Waits for the next write, including writes since the last call. It is cancel-safe.
    pub async fn written(&mut self) {
        // The sender lives as long as the notifier, or as a listener to its row.
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for RowListener {
    fn drop(&mut self) {
        let Some((task, topics)) = &self.row else { return };
        let mut topics = topics.lock();
        // This listener's own receiver still counts.
        if topics.rows.get(task).is_some_and(|sender| sender.receiver_count() <= 1) {
            topics.rows.remove(task);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut topics = self.topics.lock();
        // This listener's own receiver still counts.
        if topics.tasks.get(&self.task).is_some_and(|sender| sender.receiver_count() <= 1) {
            topics.tasks.remove(&self.task);
        }
    }
}

impl ChangeSubscription {
    /// Subscribes to one more task. Has no effect on a subscription to a channel.
    pub fn add_task(&mut self, task: &TaskId) {
        if let SubscriptionScope::Tasks(tasks) = &mut self.scope
            && tasks.insert(task.clone())
        {
            let mut topics = self.topics.lock();
            topics.followers.entry(task.clone()).or_default().push(Arc::clone(&self.inbox));
        }
    }

    /// Unsubscribes from a task. Returns false if it was not subscribed.
    pub fn remove_task(&mut self, task: &TaskId) -> bool {
        let SubscriptionScope::Tasks(tasks) = &mut self.scope else { return false };
        let removed = tasks.remove(task);
        if removed {
            remove_inbox(&mut self.topics.lock().followers, task, &self.inbox);
        }
        removed
    }
}

impl Drop for ChangeSubscription {
    fn drop(&mut self) {
        let mut topics = self.topics.lock();
        match &self.scope {
            SubscriptionScope::Channel(channel) => remove_inbox(&mut topics.channels, channel, &self.inbox),
            SubscriptionScope::Tasks(tasks) => {
                tasks.iter().for_each(|task| remove_inbox(&mut topics.followers, task, &self.inbox));
            }
        }
    }
}

/// Removes an inbox from a topic.
fn remove_inbox<T: Eq + std::hash::Hash>(
    topics: &mut HashMap<T, Vec<Arc<Inbox>>>,
    topic: &T,
    own: &Arc<Inbox>,
) {
    if let Some(inboxes) = topics.get_mut(topic) {
        inboxes.retain(|inbox| !Arc::ptr_eq(inbox, own));
        if inboxes.is_empty() {
            topics.remove(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::tasks::machine::tests::row_of;

    /// A subscriber that was behind learns once that it may have missed changes.
    #[tokio::test]
    async fn channel_watch_sees_own_tasks_only() {
        let watch = ChangeNotifier::default();
        let mut changes = watch.changes("s");
        assert!(changes.next().now_or_never().is_none());

        let id = TaskId::from_wire("one");
        watch.changed(&row_of(&id, "other"));
        assert!(changes.next().now_or_never().is_none());
        watch.changed(&row_of(&id, "s"));
        watch.changed(&row_of(&id, "s"));
        assert_eq!(changes.next().await, ChangeSet { tasks: HashSet::from([id]), ..ChangeSet::default() });
        assert!(changes.next().now_or_never().is_none());

        watch.all_changed();
        assert_eq!(changes.next().await, ChangeSet { tasks: HashSet::new(), others: true, missed: true });
        let mut late = watch.changes("s");
        assert!(late.next().now_or_never().is_none());
        drop((changes, late));
        assert!(watch.topics.lock().channels.is_empty());
    }

    /// Writes that no client sees wake only those who listen to rows.
    #[tokio::test]
    async fn row_listener_sees_every_write() {
        let watch = ChangeNotifier::default();
        let [one, two] = ["one", "two"].map(TaskId::from_wire);
        let (mut row, mut all, mut client) =
            (watch.listen_to_rows(Some(&one)), watch.listen_to_rows(None), watch.listen(&one));
        watch.row_written(&two);
        all.written().await;
        assert!(row.written().now_or_never().is_none());
        watch.row_written(&one);
        row.written().await;
        all.written().await;
        assert!(client.hint().now_or_never().is_none());
        watch.changed(&row_of(&one, "s"));
        row.written().await;
        all.written().await;
        client.hint().await;
        watch.all_changed();
        row.written().await;
        all.written().await;
        drop(row);
        assert!(watch.topics.lock().rows.is_empty());
    }

    /// Only the watchers of a task are woken, and a released one is not.
    #[tokio::test]
    async fn task_watch_ends_when_released() {
        let watch = ChangeNotifier::default();
        let [one, two] = ["one", "two"].map(TaskId::from_wire);
        let mut changes = watch.follow([one.clone(), two.clone()]);
        let mut other = watch.follow([two.clone()]);
        watch.changed(&row_of(&one, "s"));
        assert_eq!(changes.next().await.tasks, HashSet::from([one.clone()]));
        assert!(other.next().now_or_never().is_none(), "only its own listeners are woken");
        changes.remove_task(&one);
        watch.changed(&row_of(&one, "s"));
        assert!(changes.next().now_or_never().is_none());
        watch.changed(&row_of(&two, "s"));
        assert_eq!(changes.next().await.tasks, HashSet::from([two.clone()]));
        assert_eq!(other.next().await.tasks, HashSet::from([two]));
        watch.all_changed();
        assert!(changes.next().await.others && other.next().await.others);
        drop((changes, other));
        assert!(watch.topics.lock().followers.is_empty());
    }
}
