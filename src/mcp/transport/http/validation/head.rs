//! Validation of request heads, beyond that of the HTTP library: a proxy and this server must not interpret a
//! head differently. It must not know what the request asks for.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse as _, Response};

use crate::mcp::transport::http::connections::limits::ConnectionLimits;

/// Returns the response to a request with an invalid head, or `None` if the head is valid.
pub(in crate::mcp::transport::http) fn reject_invalid<B>(
    request: &Request<B>,
    limits: &ConnectionLimits,
    has_bare_lf: bool,
) -> Option<Response> {
    let count = |name| request.headers().get_all(name).iter().count();
    let hosts = count(header::HOST);
    let (status, message) = if length(request.uri()) > limits.url_bytes {
        (StatusCode::URI_TOO_LONG, "the address of the request is longer than this server takes\n")
    } else if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        // RFC 9112, section 3.2.
        (StatusCode::BAD_REQUEST, "a request has one Host header\n")
    } else if count(header::ORIGIN) > 1 {
        // RFC 6454, section 7.3. A proxy could evaluate either one.
        (StatusCode::BAD_REQUEST, "a request has one Origin header at most\n")
    } else if !is_coding_known(request.headers()) {
        // RFC 9112, section 6.1: otherwise, an encoded body would be read as plain content.
        (StatusCode::BAD_REQUEST, "the only Transfer-Encoding that is taken is one \"chunked\"\n")
    } else if has_bare_lf {
        // RFC 9112, section 2.2, permits bare LF. A proxy that rejects it would see a different head.
        (StatusCode::BAD_REQUEST, "each line of a request's head ends in CR LF, not in LF alone\n")
    } else {
        return None;
    };
    let mut response = (status, message).into_response();
    close(&mut response);
    Some(response)
}

/// Returns true if the body has no transfer coding, or `chunked` as the only one.
fn is_coding_known(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let first = codings.next();
    first.is_none_or(|first| first.as_bytes().eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

/// Returns true if no further request may use the connection. If a request has both a length and chunks, a
/// proxy may treat the rest of its body as another request (RFC 9112, section 6.1). The HTTP library uses the
/// chunks and hides the length, so this applies to every chunked body.
pub(in crate::mcp::transport::http) fn is_last<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(header::TRANSFER_ENCODING)
}

/// Closes the connection after a response.
pub(in crate::mcp::transport::http) fn close(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// Returns the length of a request target in any form, in bytes.
fn length(target: &Uri) -> usize {
    let authority = target.authority().map_or(0, |authority| authority.as_str().len());
    authority + target.path_and_query().map_or(0, |path| path.as_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: Request<()>) -> Option<u16> {
        let limits = ConnectionLimits { url_bytes: 20, ..ConnectionLimits::default() };
        reject_invalid(&request, &limits, false).map(|response| response.status().as_u16())
    }

    /// A URI that is too long gets 414, and a missing or repeated `Host` gets 400.
    #[test]
    fn request_needs_one_host_short_uri() {
        let get = |uri: &str| Request::get(uri).header("host", "a");
        assert_eq!(status(get("/mcp").body(()).unwrap()), None);
        assert_eq!(status(get("/mcp?0123456789012345").body(()).unwrap()), Some(414));
        assert_eq!(status(get("http://a.example/0123").body(()).unwrap()), None);
        assert_eq!(status(get("http://a.example/0123456789a").body(()).unwrap()), Some(414));
        assert_eq!(status(get("/").header("host", "a").body(()).unwrap()), Some(400));
        assert_eq!(status(Request::get("/").body(()).unwrap()), Some(400));
        assert_eq!(status(Request::get("/").version(Version::HTTP_10).body(()).unwrap()), None);
    }

    #[test]
    fn ambiguous_head_is_refused() {
        let status_with = |headers: &[(&str, &str)]| {
            let request = Request::get("/").header("host", "a");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            status(request.body(()).unwrap())
        };
        assert_eq!(status_with(&[("origin", "http://localhost")]), None);
        assert_eq!(status_with(&[("origin", "http://localhost"), ("origin", "http://localhost")]), Some(400));
        assert_eq!(status_with(&[("transfer-encoding", "Chunked")]), None);
        for coding in ["gzip, chunked", "chunked, chunked", "chunked;q=1", "identity", ""] {
            assert_eq!(status_with(&[("transfer-encoding", coding)]), Some(400), "{coding}");
        }
        assert_eq!(
            status_with(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]),
            Some(400)
        );
        let request = Request::get("/").header("host", "a").body(()).unwrap();
        let response = reject_invalid(&request, &ConnectionLimits::default(), true).unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    }
}
