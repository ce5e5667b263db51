//! [`Entrance`]: who is let in, and from where: what another config can replace while connections are open. Who is no
//! longer let in loses the streams that are open, too. It must not know what is asked behind it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::auth::{Authenticator, Principal};
use crate::mcp::origin::Doors;

/// Who is let in, and from where.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Who is asking.
    pub auth: Authenticator,
    /// Which pages may talk to the server, and by which names.
    pub doors: Doors,
}

/// The rules in force.
#[derive(Debug)]
pub struct Entrance(watch::Sender<Arc<Rules>>);

impl Entrance {
    /// These rules are in force first.
    pub fn new(rules: Rules) -> Self {
        Self(watch::Sender::new(Arc::new(rules)))
    }

    /// Puts other rules in force.
    pub fn replace(&self, rules: Rules) {
        self.0.send_replace(Arc::new(rules));
    }

    /// The rules in force.
    pub(super) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.borrow())
    }

    /// Waits until somebody who was let in would no longer be, as who they were.
    pub(super) async fn turns_away(&self, principal: &Principal) {
        let mut rules = self.0.subscribe();
        // The sender lives in `self`, so this ends with such rules only.
        let _ = rules.wait_for(|rules| !rules.auth.still_knows(principal)).await;
    }
}
