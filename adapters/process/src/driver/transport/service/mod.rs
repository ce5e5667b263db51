//! [`Service`]: a program that is reached by HTTP. Each message is one POST, and its reply is the answer. It
//! must not repeat a request or follow a redirect.

mod addresses;
mod post;
mod proof;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt as _;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use reqwest::{Certificate, Client, Url, redirect};
use taskbridge_sdk::{Problem, is_local_address, root_cause};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::connection::{Connection, Transport};
use crate::config::Service as ServiceConfig;
use crate::driver::line::{LineReader, Long, Read};
use crate::driver::wire::MAX_REQUEST;
use addresses::CheckedResolver;
use post::{Delivery, Poster};

pub(crate) use proof::Proof;

/// Maximum time of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept: less than servers keep it (5 s in common ones), so that a request
/// is not sent over a connection that the server closes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes between the host and the requests.
const BUFFER: usize = 64 * 1024;

/// A service that is an adapter.
pub(crate) struct Service {
    poster: Arc<Poster>,
}

impl Service {
    /// Prepares the requests. `limit` is the longest time of a call.
    ///
    /// # Errors
    /// The field that is wrong.
    pub(crate) fn new(config: &ServiceConfig, dir: &Path, limit: Duration) -> Result<Self, Problem> {
        let url = parse_url(&config.url).map_err(in_field("url"))?;
        let proof = Proof::new(&config.auth)?;
        let client = client(config, &url, dir)?;
        Ok(Self { poster: Arc::new(Poster::new(client, url, proof, limit)) })
    }
}

/// Checks what can be checked without a file and without a request.
///
/// # Errors
/// The field that is wrong.
pub(crate) fn check(config: &ServiceConfig) -> Result<(), Problem> {
    parse_url(&config.url).map_err(in_field("url"))?;
    let secrets = [&config.auth.bearer, &config.auth.hmac];
    // A secret that cannot be resolved is empty here, and was reported.
    match secrets.into_iter().flatten().any(|secret| secret.reveal().is_empty()) {
        true => Ok(()),
        false => Proof::new(&config.auth).map(drop),
    }
}

fn in_field(field: &str) -> impl Fn(String) -> Problem {
    move |message| Problem { field: field.to_owned(), message }
}

fn parse_url(text: &str) -> Result<Url, String> {
    let invalid = |problem: &str| format!("{problem}: write one such as https://jobs.example.com/adapter");
    let url = Url::parse(text).map_err(|_| invalid("this is not an address"))?;
    let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
    if !matches!(url.scheme(), "http" | "https") || host.is_empty() {
        return Err(invalid("this is not an address of HTTP"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("it contains a user or a password, which belong in `auth`"));
    }
    if url.fragment().is_some() {
        return Err(invalid("it has a fragment"));
    }
    addresses::check_host(&host)?;
    if url.scheme() == "http" && !is_local_address(&host) {
        return Err(invalid("a service on another machine needs https, because messages contain secrets"));
    }
    Ok(url)
}

fn client(config: &ServiceConfig, url: &Url, dir: &Path) -> Result<Client, Problem> {
    let in_ca_file = in_field("ca_file");
    let mut builder = Client::builder()
        .user_agent(concat!("taskbridge/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_deflate()
        .no_zstd()
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .dns_resolver(Arc::new(CheckedResolver));
    let is_local = url.host_str().is_some_and(is_local_address);
    if is_local {
        builder = builder.no_proxy();
    }
    if let Some(file) = &config.ca_file {
        let path = dir.join(file);
        let pem = std::fs::read(&path)
            .map_err(|error| in_ca_file(format!("{} cannot be read: {error}", path.display())))?;
        let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| {
            in_ca_file(format!("{} has no certificates: {}", path.display(), root_cause(&error)))
        })?;
        builder = builder.tls_certs_only(certificates);
    } else if url.scheme() == "http" {
        // The CA certificates of this machine are not needed, and may not exist.
        builder = builder.tls_certs_only([]);
    }
    let built = builder.build();
    built.map_err(|error| {
        in_field("url")(format!("the HTTP client cannot be created: {}", root_cause(&error)))
    })
}

impl Transport for Service {
    fn connect(&self) -> io::Result<Connection> {
        let ((input, requests), (replies, output)) = (duplex(BUFFER), duplex(BUFFER));
        let carrier = carry(Arc::clone(&self.poster), requests, replies).boxed();
        let (input, output): (Box<dyn AsyncWrite + Send + Unpin>, Box<dyn AsyncRead + Send + Unpin>) =
            (Box::new(input), Box::new(output));
        Ok(Connection { input, output, errors: Box::new(tokio::io::empty()), carrier, process: None })
    }
}

/// Posts each line of `requests`, and writes the answers to `replies`. When the service has ended the
/// session, it closes `replies`. It never returns.
async fn carry(poster: Arc<Poster>, requests: DuplexStream, mut replies: DuplexStream) {
    let (sender, mut lines) = mpsc::channel(1);
    // Apart from the other loop, because a read must not be cancelled in the middle of a line.
    let read = async move {
        let mut reader = LineReader::new(requests, MAX_REQUEST, Long::Fail);
        let mut line = Vec::new();
        while let Ok(Read::Line) = reader.next(&mut line).await {
            if sender.send(std::mem::take(&mut line)).await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let exchange = async {
        let (mut session, mut posts) = (None, FuturesUnordered::new());
        loop {
            let delivery = tokio::select! {
                Some(line) = lines.recv() => {
                    posts.push(poster.post(line, session.clone()));
                    continue;
                }
                Some(delivery) = posts.next() => delivery,
                else => break,
            };
            let Delivery { line, session: named, ends_session } = delivery;
            if replies.write_all(&line).await.is_err() || ends_session {
                break;
            }
            session = session.or(named);
        }
        let _ = replies.shutdown().await;
    };
    tokio::select! {
        () = read => {}
        () = exchange => {}
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_tls_and_no_password() {
        for text in ["https://jobs.example.com/adapter?a=b", "http://127.0.0.1:8700", "http://localhost/x"] {
            assert!(parse_url(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "jobs.example.com",
            "ftp://jobs.example.com",
            "http://jobs.example.com",
            "http://10.0.0.7",
            "https://user:password@jobs.example.com",
            "https://jobs.example.com/#x",
            "https://169.254.169.254/latest",
            "http://[fe80::1]/",
        ] {
            let error = parse_url(text).unwrap_err();
            assert!(!error.contains("password@"), "{error}");
        }
    }
}
