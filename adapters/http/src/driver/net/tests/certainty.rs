//! Tests of the difference between "no byte was sent" and "it is unknown".

use std::io;

use super::super::resolver::Lookup;
use super::*;

fn lookup(answer: impl Fn() -> io::Result<Vec<std::net::SocketAddr>> + Send + Sync + 'static) -> Lookup {
    Arc::new(move |_| {
        let answer = answer();
        Box::pin(async move { answer })
    })
}

/// A name with these addresses.
fn named(addresses: &'static [&'static str]) -> Lookup {
    lookup(move || Ok(addresses.iter().map(|text| text.parse().unwrap()).collect()))
}

async fn send_to(base: &str, lookup: Lookup) -> SendError {
    let base = Url::parse(base).unwrap();
    let client = Client::with_lookup(&NetConfig::new(base.clone()), lookup).unwrap();
    client.send(request(Method::POST, base)).await.unwrap_err()
}

#[tokio::test]
async fn refused_connection_sends_nothing() {
    // The port was just free. A listener that another test opens there would answer, so it is kept bound.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let base = format!("http://{}", socket.local_addr().unwrap());
    let error = send_to(&base, named(&[])).await;
    assert!(matches!(error, SendError::NotSent(_)), "{error:?}");
}

#[tokio::test]
async fn unknown_name_sends_nothing() {
    let error = send_to("http://engine.example", lookup(|| Err(io::Error::other("no such name")))).await;
    assert!(matches!(&error, SendError::NotSent(why) if why.contains("no such name")), "{error:?}");
}

/// A server without TLS fails the handshake, before the request.
#[tokio::test]
async fn failed_handshake_sends_nothing() {
    let server = TestServer::start(|_| Step::Close).await;
    // The handshake has no empty line, so the server waits for more. A second listener closes at once.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("https://{}", listener.local_addr().unwrap());
    let close = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    };
    let (error, ()) = tokio::join!(send_to(&base, named(&[])), close);
    assert!(matches!(error, SendError::NotSent(_)), "{error:?}");
    assert!(server.received().is_empty());
}

/// The server read the request and closed the connection.
#[tokio::test]
async fn lost_reply_is_uncertain() {
    let server = TestServer::start(|_| Step::Close).await;
    let error = server.client().send(server.request(Method::POST, "/x?key=s3cret")).await.unwrap_err();
    assert!(matches!(error, SendError::Uncertain(_)), "{error:?}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert_eq!(server.received().len(), 1, "a request is never repeated");
}

#[tokio::test]
async fn broken_reply_is_uncertain() {
    let error = get(|_| Step::Send(b"garbage\r\n\r\n".to_vec())).await.unwrap_err();
    assert!(matches!(error, SendError::Uncertain(_)), "{error:?}");
}

/// A name that resolves to a metadata service is refused, also if another address is fine.
#[tokio::test]
async fn name_of_metadata_service_is_refused() {
    for addresses in [
        &["169.254.169.254:80"][..],
        &["127.0.0.1:80", "169.254.169.254:80"],
        &["[::ffff:169.254.169.254]:80"],
        &["[fd00:ec2::254]:80"],
    ] {
        let error = send_to("http://engine.example", named(addresses)).await;
        assert!(matches!(&error, SendError::Forbidden(why) if why.contains("never requested")), "{error:?}");
    }
}

/// A download host that only a wildcard names must not resolve to a private address.
#[tokio::test]
async fn wildcard_host_with_private_address_is_refused() {
    let base = Url::parse("http://engine.example").unwrap();
    let config =
        NetConfig { download_hosts: vec!["http://*.files.example".to_owned()], ..NetConfig::new(base) };
    let client = Client::with_lookup(&config, named(&["10.0.0.1:80"])).unwrap();
    let mut download = request(Method::GET, Url::parse("http://a.files.example/x").unwrap());
    download.download = true;
    let error = client.send(download).await.unwrap_err();
    assert!(matches!(&error, SendError::Forbidden(why) if why.contains("private")), "{error:?}");
}
