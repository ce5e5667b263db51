//! Functions that search the causes of an error. The top-level errors of libraries often report only that
//! something failed.

use std::error::Error;

use crate::one_line;

/// What a client for HTTPS lacks on a minimal system, by the words of its library, and how to get it.
const NO_CERTIFICATES: &str = "No CA certificates";
const CERTIFICATES_FIX: &str =
    "install the package ca-certificates, or set SSL_CERT_FILE to a file of certificates";

/// Returns the text of the innermost cause of an error, shortened by [`one_line`]. Without a cause, it is the
/// text of the error itself. If the cause is that this machine has no CA certificates, it says what to install.
pub fn root_cause(error: &dyn Error) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    let text = one_line(&deepest.to_string());
    if text.contains(NO_CERTIFICATES) { format!("{text}: {CERTIFICATES_FIX}") } else { text }
}

/// Returns the first error of this type in the chain of an error and its causes.
pub fn find_cause<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::Error;

    /// The innermost cause of an error is found by its type, and its text becomes one line.
    #[test]
    fn innermost_cause_is_found() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "nobody\nlistens");
        let error = Error::unavailable("the engine is away").caused_by(refused);
        assert_eq!(root_cause(&error), "nobody listens");
        let found = find_cause::<io::Error>(&error).unwrap();
        assert_eq!(found.kind(), io::ErrorKind::ConnectionRefused);
        assert!(find_cause::<std::fmt::Error>(&error).is_none());
        assert_eq!(root_cause(&Error::unavailable("it has no cause")), "it has no cause");
        let missing = root_cause(&Error::config("No CA certificates were loaded from the system"));
        assert!(missing.contains("install the package ca-certificates"), "{missing}");
    }
}
