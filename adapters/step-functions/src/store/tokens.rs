//! Tokens of steps that wait for an answer. They stay in memory and must never be shown: with a token, anyone
//! can answer in a user's name. A restarted server receives a token again when the message returns to the
//! queue, or when the step misses its heartbeat and its activity is scheduled again.

use std::collections::HashMap;

use parking_lot::Mutex;
use taskbridge_sdk::Secret;
use tokio::time::Instant;

use crate::driver::queue::Receipt;
use crate::store::history::content::QuestionContent;

/// Maximum number of tokens. Beyond it, all tokens of the execution with the oldest token are dropped.
const MAX_TOKENS: usize = 20_000;

/// Token, with the question that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct PendingToken {
    /// ARN of the execution.
    pub(crate) arn: String,
    pub(crate) token: Secret,
    pub(crate) content: QuestionContent,
    /// Receipt of the message that contained it, if any.
    pub(crate) receipt: Option<Receipt>,
    pub(crate) received_at: Instant,
}

/// All known tokens.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<HashMap<String, Vec<PendingToken>>>);

impl Tokens {
    /// Stores a token. Returns true if it is new; a known one gets the new receipt.
    pub(crate) fn store(&self, pending: PendingToken) -> bool {
        let mut all = self.0.lock();
        if all.values().map(Vec::len).sum::<usize>() >= MAX_TOKENS {
            let oldest = all
                .values()
                .flatten()
                .min_by_key(|pending| pending.received_at)
                .map(|pending| pending.arn.clone());
            oldest.and_then(|arn| all.remove(&arn));
        }
        let of_execution = all.entry(pending.arn.clone()).or_default();
        match of_execution.iter_mut().find(|stored| stored.token == pending.token) {
            Some(stored) => {
                stored.receipt = pending.receipt;
                false
            }
            None => {
                of_execution.push(pending);
                true
            }
        }
    }

    /// Returns the newest token with which an execution asks this.
    pub(crate) fn newest(&self, arn: &str, digest: &str) -> Option<PendingToken> {
        let all = self.0.lock();
        all.get(arn)?.iter().rev().find(|pending| pending.content.digest == digest).cloned()
    }

    /// Returns the questions of an execution that arrived with tokens, newest first.
    pub(crate) fn contents(&self, arn: &str) -> Vec<QuestionContent> {
        let all = self.0.lock();
        all.get(arn).into_iter().flatten().rev().map(|pending| pending.content.clone()).collect()
    }

    /// Returns all tokens.
    pub(crate) fn all(&self) -> Vec<PendingToken> {
        self.0.lock().values().flatten().cloned().collect()
    }

    pub(crate) fn remove(&self, pending: &PendingToken) {
        let mut all = self.0.lock();
        if let Some(of_execution) = all.get_mut(&pending.arn) {
            of_execution.retain(|stored| stored.token != pending.token);
            if of_execution.is_empty() {
                all.remove(&pending.arn);
            }
        }
    }

    /// Drops the tokens of an execution that has ended.
    pub(crate) fn forget(&self, arn: &str) {
        self.0.lock().remove(arn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pending_token(arn: &str, token: &str, message: &str) -> PendingToken {
        let content = QuestionContent::of(&json!({"message": message})).unwrap();
        let receipt = Some(Receipt("r".to_owned()));
        PendingToken {
            arn: arn.to_owned(),
            token: Secret::from(token),
            content,
            receipt,
            received_at: Instant::now(),
        }
    }

    /// A task token is stored once, and its debug output does not show it.
    #[test]
    fn token_is_stored_once_and_redacted() {
        let tokens = Tokens::default();
        let one = pending_token("e", "S3CRET", "Well?");
        assert!(
            tokens.store(one.clone())
                && !tokens.store(one.clone())
                && tokens.store(pending_token("e", "t2", "Or?"))
        );
        assert!(!format!("{one:?}").contains("S3CRET"));
        assert_eq!(tokens.newest("e", &one.content.digest).unwrap().token.reveal(), "S3CRET");
        assert_eq!((tokens.all().len(), tokens.contents("e").len(), tokens.contents("f").len()), (2, 2, 0));
        tokens.remove(&one);
        assert!(tokens.newest("e", &one.content.digest).is_none());
        tokens.forget("e");
        assert!(tokens.all().is_empty());
    }

    /// The newest token of a question is used. The oldest tokens are dropped when the store is full.
    #[test]
    fn newest_token_wins_oldest_is_evicted() {
        let tokens = Tokens::default();
        tokens.store(pending_token("e", "t1", "Well?"));
        tokens.store(pending_token("e", "t2", "Well?"));
        let digest = pending_token("e", "", "Well?").content.digest;
        assert_eq!(tokens.newest("e", &digest).unwrap().token.reveal(), "t2");
        for at in 0..MAX_TOKENS {
            tokens.store(pending_token(&format!("e{at}"), "t", "Well?"));
        }
        assert!(tokens.newest("e", &digest).is_none() && tokens.all().len() <= MAX_TOKENS);
    }
}
