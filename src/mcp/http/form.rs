//! What the head of a request must be like, beyond what the HTTP library holds it to: nothing in it may mean one thing to a
//! proxy and another here. It must not know what is asked.

use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, Uri, Version, header};
use axum::response::{IntoResponse as _, Response};

use super::limits::ConnectionLimits;

/// The answer to a request whose form is not taken.
pub(super) fn refused<B>(request: &Request<B>, limits: &ConnectionLimits) -> Option<Response> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    let (status, words) = if length(request.uri()) > limits.url_bytes {
        (StatusCode::URI_TOO_LONG, "the address of the request is longer than this server takes\n")
    } else if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        // RFC 9112, section 3.2.
        (StatusCode::BAD_REQUEST, "a request has one Host header\n")
    } else {
        return None;
    };
    let mut response = (status, words).into_response();
    close(&mut response);
    Some(response)
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
        refused(&request, &limits).map(|response| response.status().as_u16())
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
}
