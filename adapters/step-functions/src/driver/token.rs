//! The token of a step that waits for an answer, and the receipt of a queue message. A token must never be
//! shown: with it, anyone can answer in a user's name.

use std::fmt;

/// Token. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns the token, for the call that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Receipt of a queue message, with which the message can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receipt(pub(crate) String);
