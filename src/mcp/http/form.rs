//! What the head of a request must be like, beyond what the HTTP library holds it to: nothing in it may mean one thing to a
//! proxy and another here. It must not know what is asked.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse as _, Response};

use super::limits::ConnectionLimits;

/// The answer to a request whose form is not taken.
pub(super) fn refused<B>(
    request: &Request<B>,
    limits: &ConnectionLimits,
    has_bare_lf: bool,
) -> Option<Response> {
    let count = |name| request.headers().get_all(name).iter().count();
    let hosts = count(header::HOST);
    let (status, words) = if length(request.uri()) > limits.url_bytes {
        (StatusCode::URI_TOO_LONG, "the address of the request is longer than this server takes\n")
    } else if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        // RFC 9112, section 3.2.
        (StatusCode::BAD_REQUEST, "a request has one Host header\n")
    } else if count(header::ORIGIN) > 1 {
        // RFC 6454, section 7.3. Which of them a proxy goes by is not known.
        (StatusCode::BAD_REQUEST, "a request has one Origin header at most\n")
    } else if !is_coding_known(request.headers()) {
        // RFC 9112, section 6.1: a body in another coding would be taken for its content.
        (StatusCode::BAD_REQUEST, "the only Transfer-Encoding that is taken is one \"chunked\"\n")
    } else if has_bare_lf {
        // RFC 9112, section 2.2, lets a server take them; a proxy that does not would see another head.
        (StatusCode::BAD_REQUEST, "each line of a request's head ends in CR LF, not in LF alone\n")
    } else {
        return None;
    };
    let mut response = (status, words).into_response();
    close(&mut response);
    Some(response)
}

/// True if the body is in no coding, or in chunks and in nothing else.
fn is_coding_known(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let first = codings.next();
    first.is_none_or(|first| first.as_bytes().eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

/// True if nothing may be asked on the connection any more. One who says both how long a body is and that it comes in
/// chunks may have a proxy take the rest of it for another request (RFC 9112, section 6.1). The HTTP library goes by the
/// chunks and hides the length, so that it is so for every body in chunks.
pub(super) fn is_last<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(header::TRANSFER_ENCODING)
}

/// Has the connection closed behind a response.
pub(super) fn close(response: &mut Response<Body>) {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
}

/// The bytes of a target, in whichever form it has.
fn length(target: &Uri) -> usize {
    let authority = target.authority().map_or(0, |authority| authority.as_str().len());
    authority + target.path_and_query().map_or(0, |path| path.as_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: Request<()>) -> Option<u16> {
        let limits = ConnectionLimits { url_bytes: 20, ..ConnectionLimits::default() };
        refused(&request, &limits, false).map(|response| response.status().as_u16())
    }

    #[test]
    fn a_request_has_one_host_and_a_short_address() {
        let at = |uri: &str| Request::get(uri).header("host", "a");
        assert_eq!(status(at("/mcp").body(()).unwrap()), None);
        assert_eq!(status(at("/mcp?0123456789012345").body(()).unwrap()), Some(414));
        assert_eq!(status(at("http://a.example/0123").body(()).unwrap()), None);
        assert_eq!(status(at("http://a.example/0123456789a").body(()).unwrap()), Some(414));
        assert_eq!(status(at("/").header("host", "a").body(()).unwrap()), Some(400));
        assert_eq!(status(Request::get("/").body(()).unwrap()), Some(400));
        assert_eq!(status(Request::get("/").version(Version::HTTP_10).body(()).unwrap()), None);
    }

    #[test]
    fn ambiguous_head_is_refused() {
        let with = |headers: &[(&str, &str)]| {
            let request = Request::get("/").header("host", "a");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            status(request.body(()).unwrap())
        };
        assert_eq!(with(&[("origin", "http://localhost")]), None);
        assert_eq!(with(&[("origin", "http://localhost"), ("origin", "http://localhost")]), Some(400));
        assert_eq!(with(&[("transfer-encoding", "Chunked")]), None);
        for coding in ["gzip, chunked", "chunked, chunked", "chunked;q=1", "identity", ""] {
            assert_eq!(with(&[("transfer-encoding", coding)]), Some(400), "{coding}");
        }
        assert_eq!(with(&[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")]), Some(400));
        let request = Request::get("/").header("host", "a").body(()).unwrap();
        let refused = refused(&request, &ConnectionLimits::default(), true).unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    }
}
