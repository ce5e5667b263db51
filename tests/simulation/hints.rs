//! Hints between the processes of a world: a quarter is lost, in some worlds all are. The core must not
//! depend on them.

use std::sync::Arc;

use parking_lot::Mutex;
use taskbridge::tasks::store::Hint;
use taskbridge::tasks::task::Task;
use tokio::sync::mpsc;

/// One of this many hints is lost.
const LOST: usize = 4;

/// Distributes hints among all processes.
#[derive(Default)]
pub(super) struct HintBus(Mutex<Ports>);

#[derive(Default)]
struct Ports {
    all: Vec<mpsc::UnboundedSender<Hint>>,
    sent: usize,
}

/// The sender and receiver of one process.
pub(super) struct HintPort {
    bus: Arc<HintBus>,
    /// The port's own number, if this world has hints.
    number: Option<usize>,
    arrived: tokio::sync::Mutex<mpsc::UnboundedReceiver<Hint>>,
}

impl HintBus {
    /// Connects one more process. Without `hints` it neither sends nor receives.
    pub(super) fn open(self: &Arc<Self>, hints: bool) -> HintPort {
        let (send, arrived) = mpsc::unbounded_channel();
        let mut ports = self.0.lock();
        let number = hints.then_some(ports.all.len());
        ports.all.push(send);
        HintPort { bus: Arc::clone(self), number, arrived: tokio::sync::Mutex::new(arrived) }
    }
}

impl HintPort {
    /// Announces a row that this process has written.
    pub(super) fn send(&self, task: &Task) {
        let mut ports = self.bus.0.lock();
        let Some(own) = self.number else { return };
        ports.sent += 1;
        if ports.sent.is_multiple_of(LOST) {
            return;
        }
        for (_, other) in ports.all.iter().enumerate().filter(|(number, _)| *number != own) {
            // The receiver of an ended process is gone.
            let _ = other.send(Hint::Task { id: task.id.clone(), session: task.origin.session.clone() });
        }
    }

    /// Returns the next hints.
    pub(super) async fn next(&self) -> Vec<Hint> {
        match self.arrived.lock().await.recv().await {
            Some(hint) => vec![hint],
            None => std::future::pending().await,
        }
    }
}
