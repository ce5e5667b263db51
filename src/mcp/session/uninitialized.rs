//! [`UninitializedSessions`]: which sessions' clients are ready (have sent `notifications/initialized`), as
//! far as this process knows. Until then they are asked nothing, for `GRACE` at most. Where several processes
//! share a store, the others read it from the session's row. It must not know what would be asked.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;

use super::token::Session;

/// How long a client may take. After that it is asked anyway: otherwise its job would wait forever.
const GRACE: Duration = Duration::from_secs(60);

/// Number of remembered sessions at which all are removed.
const MAX_SESSIONS: usize = 10_000;

/// Sessions by nonce, and whether their clients are ready. A session without an entry began before this
/// process did, or its row has not been read yet.
#[derive(Debug, Default)]
pub struct UninitializedSessions(Mutex<HashMap<String, bool>>);

impl UninitializedSessions {
    /// Records that a session has begun, here or elsewhere, whose client is not known to be ready.
    pub(crate) fn insert(&self, session: &Session) {
        self.set(session, false);
    }

    /// Records that its client is ready.
    pub(crate) fn set_ready(&self, session: &Session) {
        self.set(session, true);
    }

    /// Returns true if its client is known not to be ready, and is within `GRACE`. False for a session
    /// without an entry.
    pub(crate) fn has(&self, session: &Session, now: Timestamp) -> bool {
        is_young(session, now) && self.0.lock().get(&session.nonce) == Some(&false)
    }

    /// As [`Self::has`], but true for a session without an entry: its client is perhaps not ready.
    pub(crate) fn may_have(&self, session: &Session, now: Timestamp) -> bool {
        is_young(session, now) && self.0.lock().get(&session.nonce) != Some(&true)
    }

    fn set(&self, session: &Session, ready: bool) {
        if !session.client.can_be_asked() {
            return;
        }
        let mut sessions = self.0.lock();
        if sessions.len() == MAX_SESSIONS && !sessions.contains_key(&session.nonce) {
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
    use crate::mcp::session::token::ClientCapabilities;
    use crate::mcp::wire::revision::Revision;
    use crate::tasks::task::Owner;

    /// A session counts as initialized after its notification or a minute; their number is bounded.
    #[test]
    fn session_is_ready_after_timeout() {
        let sessions = UninitializedSessions::default();
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000);
        let session = |nonce: &str, elicitation_form| {
            let client = ClientCapabilities { elicitation_form, ..ClientCapabilities::default() };
            Session::for_tests(Revision::ALL[0], client, Owner::new("ann"), nonce, at(0))
        };
        let (one, two, no_forms) = (session("1", true), session("2", true), session("3", false));
        for session in [&one, &two, &no_forms] {
            sessions.insert(session);
        }
        let unknown = session("4", true);
        let all = [&one, &two, &no_forms, &unknown];
        assert_eq!(all.map(|session| sessions.has(session, at(59))), [true, true, false, false]);
        sessions.set_ready(&one);
        assert_eq!(all.map(|session| sessions.has(session, at(59))), [false, true, false, false]);
        assert_eq!(all.map(|session| sessions.may_have(session, at(59))), [false, true, false, true]);
        assert!(!all.into_iter().any(|session| sessions.may_have(session, at(60))));
        for n in 0..MAX_SESSIONS {
            sessions.insert(&session(&format!("n{n}"), true));
        }
        assert!(sessions.0.lock().len() <= MAX_SESSIONS);
    }
}
