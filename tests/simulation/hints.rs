//! Hints between the processes of a world: a quarter is lost, in some worlds all are. The core must not
//! depend on them.

use std::sync::Arc;

use parking_lot::Mutex;
use taskbridge_core::tasks::store::Hint;
use taskbridge_core::tasks::task::Task;
use tokio::sync::mpsc;

/// One of this many hints is lost.
const LOSS_INTERVAL: usize = 4;

/// Distributes hints among all processes.
#[derive(Default)]
pub(super) struct HintBus(Mutex<Ports>);

#[derive(Default)]
struct Ports {
    senders: Vec<mpsc::UnboundedSender<Hint>>,
    sent_count: usize,
}

/// The sender and receiver of one process.
pub(super) struct HintPort {
    bus: Arc<HintBus>,
    /// The port's own number, if this world has hints.
    number: Option<usize>,
    receiver: tokio::sync::Mutex<mpsc::UnboundedReceiver<Hint>>,
}

impl HintBus {
    /// Connects one more process. Without `hints` it neither sends nor receives.
    pub(super) fn open(self: &Arc<Self>, hints: bool) -> HintPort {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut ports = self.0.lock();
        let number = hints.then_some(ports.senders.len());
        ports.senders.push(sender);
        HintPort { bus: Arc::clone(self), number, receiver: tokio::sync::Mutex::new(receiver) }
    }
}

impl HintPort {
    /// Announces a row that this process has written.
    pub(super) fn send(&self, task: &Task) {
        let mut ports = self.bus.0.lock();
        let Some(own_number) = self.number else { return };
        ports.sent_count += 1;
        if ports.sent_count.is_multiple_of(LOSS_INTERVAL) {
            return;
        }
        for (_, sender) in ports.senders.iter().enumerate().filter(|(number, _)| *number != own_number) {
            // The receiver of an ended process is gone.
            let _ = sender.send(Hint::Task { id: task.id.clone(), channel: task.origin.channel.clone() });
        }
    }

    /// Returns the next hints.
    pub(super) async fn next(&self) -> Vec<Hint> {
        match self.receiver.lock().await.recv().await {
            Some(hint) => vec![hint],
            None => std::future::pending().await,
        }
    }
}
