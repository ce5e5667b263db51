//! The cookies of a session, and of a sign-in that began at an issuer. Over TLS a name begins with `__Host-`, so that no other host and no page
//! without TLS can set it. Over plain HTTP on loopback, browsers send the cookies of a host to all of its
//! ports, so the name contains the port. This module must not open the values.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};

use crate::console::Result;
use crate::console::request::Head;
use crate::console::respond::Refusal;

/// Longest cookie that every browser keeps, name and attributes included, in bytes (RFC 6265, section 6.1).
const MAX_BYTES: usize = 4_096;

/// Which cookie.
#[derive(Clone, Copy)]
pub(super) enum Cookie {
    /// The session. No request that another site causes has it.
    Session,
    /// A sign-in that began at an issuer. The issuer's site leads the browser back, with this cookie.
    SignIn,
}

impl Cookie {
    /// Returns its value. `None` if there are several, since another site of the host may have set one.
    pub(super) fn get(self, head: &Head, is_secure: bool) -> Option<&str> {
        let name = self.name(head, is_secure);
        let headers = head.headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = headers.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
        let value = values.next()?;
        values.next().is_none().then_some(value).filter(|value| value.len() <= MAX_BYTES)
    }

    /// Returns the header that sets it.
    ///
    /// # Errors
    /// If the value is larger than browsers keep.
    pub(super) fn set(
        self,
        head: &Head,
        is_secure: bool,
        value: &str,
        lasts: Duration,
    ) -> Result<HeaderValue> {
        let (name, scope) = (self.name(head, is_secure), self.scope(is_secure));
        let text = format!("{name}={value}; {scope}; Max-Age={}", lasts.as_secs());
        if text.len() > MAX_BYTES {
            let message = "what your issuer says of you is too large for the cookie of a browser: it must name fewer \
                           groups or claims to this client";
            return Err(Refusal::plain(StatusCode::FORBIDDEN, message));
        }
        let invalid = |_| Refusal::plain(StatusCode::INTERNAL_SERVER_ERROR, "the cookie is invalid");
        HeaderValue::try_from(text).map_err(invalid)
    }

    /// Returns the header that removes it.
    pub(super) fn remove(self, head: &Head, is_secure: bool) -> Result<HeaderValue> {
        self.set(head, is_secure, "", Duration::ZERO)
    }

    fn scope(self, is_secure: bool) -> &'static str {
        match (self, is_secure) {
            (Self::Session, true) => "Path=/; Secure; HttpOnly; SameSite=Strict",
            (Self::Session, false) => "Path=/console; HttpOnly; SameSite=Strict",
            (Self::SignIn, true) => "Path=/; Secure; HttpOnly; SameSite=Lax",
            (Self::SignIn, false) => "Path=/console; HttpOnly; SameSite=Lax",
        }
    }

    fn name(self, head: &Head, is_secure: bool) -> String {
        let name = match self {
            Self::Session => "taskbridge",
            Self::SignIn => "taskbridge-sign-in",
        };
        if is_secure {
            return format!("__Host-{name}");
        }
        let port = head.header(header::HOST.as_str()).rsplit_once(':').map(|(_, port)| port);
        match port.filter(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) {
            Some(port) => format!("{name}-{port}"),
            None => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn head(cookies: &[&str]) -> Head {
        let mut request = Request::builder().uri("/console").header("host", "localhost:8808");
        for cookie in cookies {
            request = request.header("cookie", *cookie);
        }
        Head::of(request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn cookie_is_found_once() {
        let found =
            |cookies: &[&str], is_secure| Cookie::Session.get(&head(cookies), is_secure).map(str::to_owned);
        assert_eq!(found(&["a=1; taskbridge-8808=x; b=2"], false).as_deref(), Some("x"));
        assert_eq!(found(&["taskbridge-8809=x", "taskbridge=y"], false), None);
        assert_eq!(found(&["taskbridge-8808=x"], true), None, "plain cookies do not count over TLS");
        assert_eq!(found(&["__Host-taskbridge=x"], true).as_deref(), Some("x"));
        assert_eq!(found(&["taskbridge-8808=x; taskbridge-8808=y"], false), None);
        assert_eq!(found(&["taskbridge-8808=x", "taskbridge-8808=y"], false), None);
        assert_eq!(found(&[&format!("taskbridge-8808={}", "x".repeat(5_000))], false), None);
    }

    #[test]
    fn cookie_is_strict_and_bounded() {
        let set = |is_secure, value: &str| {
            Cookie::Session.set(&head(&[]), is_secure, value, Duration::from_secs(60))
        };
        let plain = set(false, "x").ok().unwrap();
        assert_eq!(plain, "taskbridge-8808=x; Path=/console; HttpOnly; SameSite=Strict; Max-Age=60");
        let secure = set(true, "x").ok().unwrap();
        assert_eq!(secure, "__Host-taskbridge=x; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=60");
        assert!(set(true, &"x".repeat(4_096)).is_err());
    }
}
