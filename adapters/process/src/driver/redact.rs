//! [`Redactor`]: removes a program's secrets from what it writes. It must not show them itself.

use std::sync::Arc;

use taskbridge_sdk::Secret;

/// Shortest secret that is looked for. A shorter one occurs in any text.
const MIN_LENGTH: usize = 4;

/// The secrets of one program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Redactor {
    secrets: Arc<[Secret]>,
}

impl Redactor {
    pub(crate) fn new<'a>(secrets: impl Iterator<Item = &'a str>) -> Self {
        let long = secrets.filter(|secret| secret.len() >= MIN_LENGTH);
        Self { secrets: long.map(Secret::from).collect() }
    }

    /// Returns the text with each secret replaced.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &*self.secrets {
            if text.contains(secret.reveal()) {
                text = text.replace(secret.reveal(), "[secret]");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced() {
        let redactor = Redactor::new(["hunter22", "a"].into_iter());
        assert_eq!(redactor.redact("a login with hunter22."), "a login with [secret].");
        assert!(!format!("{redactor:?}").contains("hunter22"));
    }
}
