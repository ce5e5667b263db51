//! Tests of redirects: which are followed, and with which headers.

use http::HeaderValue;
use http::header::{ACCEPT, AUTHORIZATION};

use super::*;

fn redirect(status: u16, to: &str) -> Step {
    reply(status, &format!("location: {to}\r\n"), "")
}

fn with_credentials(mut request: Request) -> Request {
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer s3cret"));
    request.headers.insert("private-token", HeaderValue::from_static("s3cret"));
    request.headers.insert(ACCEPT, HeaderValue::from_static("text/plain"));
    request
}

/// A GET follows a redirect below `base` with its credentials.
#[tokio::test]
async fn get_follows_redirect_below_base() {
    let server = TestServer::start(|received| match received.line.as_str() {
        "GET /a" => redirect(302, "/b?x=1"),
        _ => reply(200, "", "there"),
    })
    .await;
    let sent = server.client().send(with_credentials(server.request(Method::GET, "/a"))).await.unwrap();
    assert_eq!((&sent.body[..], sent.url.path()), (&b"there"[..], "/b"));
    let received = server.received();
    assert_eq!(received[1].line, "GET /b?x=1");
    assert_eq!(received[1].header("authorization").as_deref(), Some("Bearer s3cret"));
}

/// The redirect of a POST is its reply.
#[tokio::test]
async fn post_follows_no_redirect() {
    for status in [301, 302, 303, 307, 308] {
        let server = TestServer::start(move |_| redirect(status, "/b")).await;
        let sent = server.client().send(server.request(Method::POST, "/a")).await.unwrap();
        assert_eq!((sent.status.as_u16(), server.received().len()), (status, 1));
    }
}

/// A request that does not follow redirects gets them as replies.
#[tokio::test]
async fn redirect_is_reply_if_not_followed() {
    let server = TestServer::start(|_| redirect(302, "/b")).await;
    let request = Request { follow: false, ..server.request(Method::GET, "/a") };
    assert_eq!(server.client().send(request).await.unwrap().status.as_u16(), 302);
}

/// A redirect to any other host is refused, and nothing is sent there.
#[tokio::test]
async fn redirect_to_other_host_is_refused() {
    let other = TestServer::start(|_| reply(200, "", "")).await;
    let target = other.url.clone();
    let targets =
        [target.to_string(), "http://169.254.169.254/latest".to_owned(), "file:///etc/passwd".to_owned()];
    for target in targets {
        let server = TestServer::start(move |_| redirect(302, &target)).await;
        let request = Request { download: true, ..server.request(Method::GET, "/a") };
        let error = server.client().send(request).await.unwrap_err();
        assert!(matches!(error, SendError::Forbidden(_)), "{error:?}");
    }
    assert!(other.received().is_empty());
}

/// A download follows a redirect to a named host, without credentials.
#[tokio::test]
async fn download_goes_to_named_host_without_credentials() {
    let storage = TestServer::start(|_| reply(200, "", "content")).await;
    let target = storage.url.join("/file?sig=1").unwrap();
    let server = TestServer::start(move |_| redirect(302, target.as_str())).await;
    let named = storage.url.as_str().trim_end_matches('/').to_owned();
    let config = NetConfig { download_hosts: vec![named], ..NetConfig::new(server.url.clone()) };
    let client = Client::new(&config).unwrap();
    let request = with_credentials(server.request(Method::GET, "/a"));
    let error = client.send(request.clone()).await.unwrap_err();
    assert!(matches!(error, SendError::Forbidden(_)), "only downloads may go there: {error:?}");
    let sent = client.send(Request { download: true, ..request }).await.unwrap();
    assert_eq!(&sent.body[..], b"content");
    let received = &storage.received()[0];
    assert_eq!(
        (received.line.as_str(), received.header("accept").as_deref()),
        ("GET /file?sig=1", Some("text/plain"))
    );
    assert_eq!((received.header("authorization"), received.header("private-token")), (None, None));
}

#[tokio::test]
async fn endless_redirects_are_refused() {
    let server = TestServer::start(|_| redirect(302, "/a")).await;
    let error = server.client().send(server.request(Method::GET, "/a")).await.unwrap_err();
    assert!(matches!(&error, SendError::Forbidden(why) if why.contains("redirects")), "{error:?}");
    assert_eq!(server.received().len(), 6);
}
