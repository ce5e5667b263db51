//! Responses: the security headers of every page, redirects, cookies, and refusals. It must not decide who
//! gets which.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::Markup;

use super::html::layout;
use super::request::Visitor;
use crate::tasks::store::StoreError;

/// What a page may load and do: scripts, styles and requests of this origin only, and no frame around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Why a request is not answered with what it asks for.
pub(super) enum Refusal {
    /// A status with a line of text. The person who is signed in gets it as a page.
    Message(StatusCode, String),
    /// A complete response.
    Response(Box<Response>),
}

impl Refusal {
    /// Creates a refusal with a line of text.
    pub(super) fn plain(status: StatusCode, message: impl Into<String>) -> Self {
        Self::Message(status, message.into())
    }

    /// There is no such page, or the person may not see it: they must not learn which.
    pub(super) fn not_found() -> Self {
        Self::plain(StatusCode::NOT_FOUND, "there is no such page, or what it showed has expired")
    }

    /// Returns the refusal as a page for a person who is signed in.
    pub(super) fn page(self, visitor: &Visitor) -> Response {
        match self {
            Self::Message(status, message) => html(status, &layout::refusal(visitor, status, &message)),
            Self::Response(response) => *response,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a page of the console cannot be shown");
        Self::plain(StatusCode::SERVICE_UNAVAILABLE, "the store is unavailable: try again in a moment")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Message(status, message) => (status, format!("{message}\n")).into_response(),
            Self::Response(response) => *response,
        }
    }
}

/// Returns a page.
pub(super) fn html(status: StatusCode, page: &Markup) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, kind, page.0.clone()).into_response()
}

/// Returns a redirect that is followed with a GET.
pub(super) fn redirect(to: &str) -> Response {
    match HeaderValue::try_from(to) {
        Ok(to) => (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Returns bytes of a job as a file to save. A browser neither renders it nor guesses its type.
pub(super) fn attachment(name: &str, bytes: impl Into<Body>) -> Response {
    let plain: String = name
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' })
        .take(100)
        .collect();
    let name = match plain.trim_start_matches('.') {
        "" => "artifact",
        name => name,
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'")),
    ];
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    (headers, [(header::CONTENT_DISPOSITION, disposition)], bytes.into()).into_response()
}

/// Adds a cookie to a response.
pub(super) fn set_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response
}

/// Adds the headers that every response of the console has. Only assets, whose names contain their digest,
/// may be cached.
pub(super) fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let mut add = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    add(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    add(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    add(header::X_FRAME_OPTIONS, "DENY");
    add(header::CACHE_CONTROL, "no-store");
    // With `no-referrer`, browsers would send forms with an opaque origin.
    add(header::REFERRER_POLICY, "same-origin");
    add(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    add(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    add(HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a file cannot add a header or a path.
    #[test]
    fn attachment_name_is_plain() {
        for (name, expected) in [
            ("report.csv", "report.csv"),
            ("a/b/../../etc/passwd", "passwd"),
            ("x\"; filename=\"evil.html\r\nSet-Cookie: a=b", "x___filename__evil.html__Set-Cookie__a_b"),
            ("..", "artifact"),
            ("märz.svg", "m_rz.svg"),
        ] {
            let response = attachment(name, Body::empty());
            let disposition = response.headers()[header::CONTENT_DISPOSITION].to_str().unwrap();
            assert_eq!(disposition, format!("attachment; filename=\"{expected}\""), "{name}");
        }
    }
}
