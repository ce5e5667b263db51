//! [`Initializing`]: which sessions' clients have said that they are ready (`notifications/initialized`), as far as this
//! process knows. Until then nothing is asked of them. Where several processes share a store, the session's row says it to
//! the others. It must not know what would be asked.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;

use super::session::Session;

/// How long a client may take. One that never says it is asked then all the same: its job would wait for ever.
const GRACE: Duration = Duration::from_secs(60);

/// How many sessions are remembered before all are forgotten.
const MOST: usize = 10_000;

/// Sessions by nonce, and whether their clients are ready. A session without an entry counts as ready: it began before this
/// process did, or its row has not been read yet.
#[derive(Debug, Default)]
pub struct Initializing(Mutex<HashMap<String, bool>>);

impl Initializing {
    /// A session has begun, here or elsewhere, and its client is not known to be ready.
    pub(super) fn begin(&self, session: &Session) {
        self.set(session, false);
    }

    /// Its client is ready.
    pub(super) fn end(&self, session: &Session) {
        self.set(session, true);
    }

    /// True if its client is not ready yet.
    pub(super) fn has(&self, session: &Session, now: Timestamp) -> bool {
        is_young(session, now) && self.0.lock().get(&session.nonce) == Some(&false)
    }

    /// True if its client may not be ready, and what is known here does not say that it is.
    pub(super) fn may_have(&self, session: &Session, now: Timestamp) -> bool {
        is_young(session, now) && self.0.lock().get(&session.nonce) != Some(&true)
    }

    fn set(&self, session: &Session, ready: bool) {
        if !session.client.can_be_asked() {
            return;
        }
        let mut sessions = self.0.lock();
        if sessions.len() == MOST && !sessions.contains_key(&session.nonce) {
            sessions.clear();
        }
        sessions.insert(session.nonce.clone(), ready);
    }
}

fn is_young(session: &Session, now: Timestamp) -> bool {
    session.client.can_be_asked() && now < session.issued + GRACE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::generation::Revision;
    use crate::mcp::session::Abilities;
    use crate::tasks::task::Owner;

    #[test]
    fn session_is_ready_when_said_or_after_a_minute() {
        let sessions = Initializing::default();
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
        let session = |nonce: &str, elicitation_form| {
            let client = Abilities { elicitation_form, ..Abilities::default() };
            Session::for_tests(Revision::ALL[0], client, Owner::new("ann"), nonce, at(0))
        };
        let (one, two, deaf) = (session("1", true), session("2", true), session("3", false));
        for session in [&one, &two, &deaf] {
            sessions.begin(session);
        }
        let elsewhere = session("4", true);
        let all = [&one, &two, &deaf, &elsewhere];
        assert_eq!(all.map(|session| sessions.has(session, at(59))), [true, true, false, false]);
        sessions.end(&one);
        assert_eq!(all.map(|session| sessions.has(session, at(59))), [false, true, false, false]);
        assert_eq!(all.map(|session| sessions.may_have(session, at(59))), [false, true, false, true]);
        assert!(!all.into_iter().any(|session| sessions.may_have(session, at(60))));
        for n in 0..MOST {
            sessions.begin(&session(&format!("n{n}"), true));
        }
        assert!(sessions.0.lock().len() <= MOST);
    }
}
