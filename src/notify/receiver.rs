//! [`Receiver`]: one `[[notify]]` of the config; [`Receivers`]: all that are in force. It must not send anything.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use super::Key;
use crate::tasks::notices::{self, Occasion};

/// Who is told, and of what.
#[derive(Clone, PartialEq)]
pub struct Receiver {
    /// Where it is posted to.
    pub url: Url,
    /// Whether it hears that tasks ended.
    pub ended: bool,
    /// Whether it hears that tasks ask.
    pub asks: bool,
    /// The tools that it hears of; without any, all.
    pub tools: Vec<String>,
    /// What is signed with: more than one while a secret is being replaced.
    pub keys: Vec<Key>,
    /// Whether it is told the ids of tasks.
    pub tells_id: bool,
    /// `source` of the events.
    pub source: String,
    /// The proxy that it is reached by.
    pub proxy: Option<Url>,
    /// Certificates (PEM) to trust in place of this machine's.
    pub authorities: Option<Vec<u8>>,
    /// How long it may take to answer.
    pub timeout: Duration,
    /// How long it is tried.
    pub give_up_after: Duration,
}

/// The address can hold a secret, as those of chat rooms do.
impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("at", &self.place()).finish_non_exhaustive()
    }
}

impl Receiver {
    /// Its name in the store: the same for as long as its address is, whatever else is said of it, and no way to the
    /// address.
    pub fn name(&self) -> String {
        let digest = Sha256::digest(self.url.as_str());
        data_encoding::BASE32_NOPAD.encode(&digest[..20]).to_ascii_lowercase()
    }

    /// Where it is, for logs: without path and query, which may be secret.
    pub fn place(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    fn wants(&self, tool: &str, occasion: Occasion) -> bool {
        let wanted = match occasion {
            Occasion::Ended => self.ended,
            Occasion::Asks => self.asks,
        };
        wanted && (self.tools.is_empty() || self.tools.iter().any(|name| name == tool))
    }
}

/// The receivers in force. Clones share them.
#[derive(Clone, Debug)]
pub struct Receivers(Arc<watch::Sender<Arc<[Arc<Receiver>]>>>);

impl Receivers {
    /// These are in force first.
    pub fn new(receivers: Vec<Receiver>) -> Self {
        Self(Arc::new(watch::Sender::new(receivers.into_iter().map(Arc::new).collect())))
    }

    /// Puts others in force. One that stays as it was is not disturbed.
    pub fn replace(&self, receivers: Vec<Receiver>) {
        self.0.send_if_modified(|current| {
            let known = |new: Receiver| {
                let same = current.iter().find(|old| ***old == new);
                same.cloned().unwrap_or_else(|| Arc::new(new))
            };
            let new: Arc<[Arc<Receiver>]> = receivers.into_iter().map(known).collect();
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
    fn wanting(&self, tool: &str, occasion: Occasion) -> Vec<String> {
        let receivers = self.0.borrow();
        receivers.iter().filter(|receiver| receiver.wants(tool, occasion)).map(|r| r.name()).collect()
    }
}
