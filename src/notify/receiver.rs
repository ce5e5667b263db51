//! [`Receiver`]: one `[[notify]]` of the config. [`Receivers`]: all that are in force. This module must not
//! send anything.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::Key;
use crate::tasks::notices::{self, NoticeKind};

/// A receiver of notices: which it receives, and how they are sent.
#[derive(Clone, PartialEq)]
pub struct Receiver {
    /// The URL to post to.
    pub url: Url,
    /// Whether it receives notices of ended tasks.
    pub notify_ended: bool,
    /// Whether it receives notices of questions.
    pub notify_questions: bool,
    /// The tools that it is notified about; empty for all.
    pub tools: Vec<String>,
    /// The signing keys: more than one during a key rotation.
    pub keys: Vec<Key>,
    /// Whether events contain the task id.
    pub includes_task_id: bool,
    /// The `source` of the events.
    pub source: String,
    /// The proxy to use.
    pub proxy: Option<Url>,
    /// Certificates (PEM) to trust instead of this machine's.
    pub authorities: Option<Vec<u8>>,
    /// The timeout of a POST.
    pub timeout: Duration,
    /// How long a notice stays pending before it is dropped.
    pub give_up_after: Duration,
}

/// Hides the path and query of the URL, which can be a secret, as in webhooks of chat services.
impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("at", &self.origin()).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Returns its name in the store. The name depends only on the URL, and does not reveal it.
    pub fn name(&self) -> String {
        let digest = Sha256::digest(self.url.as_str());
        data_encoding::BASE32_NOPAD.encode(&digest[..20]).to_ascii_lowercase()
    }

    /// Returns its origin for logs, without path and query, which may be secret.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    fn accepts(&self, tool: &str, kind: NoticeKind) -> bool {
        let is_subscribed = match kind {
            NoticeKind::Ended => self.notify_ended,
            NoticeKind::Asks => self.notify_questions,
        };
        is_subscribed && (self.tools.is_empty() || self.tools.iter().any(|name| name == tool))
    }
}

/// The receivers in force. Clones share them.
#[derive(Clone, Debug)]
pub struct Receivers(Arc<watch::Sender<Arc<[Arc<Receiver>]>>>);

impl Receivers {
    /// Creates the set with its first receivers.
    pub fn new(receivers: Vec<Receiver>) -> Self {
        Self(Arc::new(watch::Sender::new(receivers.into_iter().map(Arc::new).collect())))
    }

    /// Replaces the receivers. An unchanged receiver is not restarted.
    pub fn replace(&self, receivers: Vec<Receiver>) {
        self.0.send_if_modified(|current| {
            let reuse = |new: Receiver| {
                let same = current.iter().find(|old| ***old == new);
                same.cloned().unwrap_or_else(|| Arc::new(new))
            };
            let new: Arc<[Arc<Receiver>]> = receivers.into_iter().map(reuse).collect();
            let differs = new != *current;
            *current = new;
            differs
        });
    }

    pub(super) fn watch(&self) -> watch::Receiver<Arc<[Arc<Receiver>]>> {
        self.0.subscribe()
    }
}

impl notices::Receivers for Receivers {
    fn receivers_for(&self, tool: &str, kind: NoticeKind) -> Vec<String> {
        let receivers = self.0.borrow();
        receivers.iter().filter(|receiver| receiver.accepts(tool, kind)).map(|r| r.name()).collect()
    }
}
