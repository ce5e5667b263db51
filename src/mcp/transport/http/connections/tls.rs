//! [`Tls`]: the TLS configuration: the server's certificate and the verification of clients. Each connection
//! performs its own handshake, which blocks no other connection. It must not know what requests ask for.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, version};
use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Timestamp;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::timeouts::TimeoutSocket;
use crate::auth::Certificate;
use crate::clock::{Clock as _, System};

/// First byte of a TLS connection: a handshake record (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 0x16;

/// Response to a client that begins without TLS.
const PLAIN_HTTP_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 49\r\n\r\n\
    this server speaks TLS here: begin with https://\n";

/// How long before the expiry of a certificate the server warns.
const EXPIRY_WARNING: Duration = Duration::from_secs(14 * 86_400);

/// The TLS configuration.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    certificate: Certificate,
    clients: Option<ClientVerification>,
}

/// Verification of client certificates.
#[derive(Clone)]
struct ClientVerification {
    verifier: Arc<dyn ClientCertVerifier>,
    requirement: ClientCertificates,
    /// Digest of the trusted authorities.
    authorities: [u8; 32],
}

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients without a certificate are accepted.
    Optional,
    /// Clients without a certificate are refused.
    Required,
}

/// Why a TLS configuration is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate.
    #[error("there is no certificate in it: it must be PEM, with `-----BEGIN CERTIFICATE-----`")]
    NoCertificate,
    /// A certificate cannot be read.
    #[error("a certificate in it cannot be read: {0}")]
    BadCertificate(String),
    /// The key is missing or unusable.
    #[error(
        "there is no private key in it that can be used: it must be PEM, unencrypted, with `-----BEGIN PRIVATE KEY-----`"
    )]
    NoKey,
    /// The key and the certificate do not match.
    #[error(
        "the key does not belong to the certificate: both must be of one pair, and the server's own certificate the first"
    )]
    KeyMismatch,
    /// There is no usable authority.
    #[error("there is no authority in it that clients' certificates can be held against: {0}")]
    NoAuthority(String),
    /// Another error.
    #[error("they cannot be used: {0}")]
    Other(String),
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("subject", &self.certificate.subject).finish_non_exhaustive()
    }
}

impl Tls {
    /// Creates a configuration from a certificate chain, its key and the authorities that vouch for clients.
    /// All are PEM.
    ///
    /// # Errors
    /// See [`TlsError`]. No error contains any part of the key.
    pub fn new(
        certificates: &[u8],
        key: &[u8],
        clients: Option<(&[u8], ClientCertificates)>,
    ) -> Result<Self, TlsError> {
        let chain = parse_certificates(certificates)?;
        let first = chain.first().ok_or(TlsError::NoCertificate)?;
        let certificate =
            Certificate::parse([&**first]).map_err(|error| TlsError::BadCertificate(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|error| TlsError::Other(error.to_string()))?;
        let clients = match clients {
            None => None,
            Some((authorities, requirement)) => Some(ClientVerification {
                verifier: verifier(authorities, requirement, provider)?,
                requirement,
                authorities: Sha256::digest(authorities).into(),
            }),
        };
        let builder = match &clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(Arc::clone(&clients.verifier)),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::KeyMismatch,
            // The error text about an unusable key may contain a part of the key.
            rustls::Error::General(_) => TlsError::NoKey,
            other => TlsError::Other(other.to_string()),
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if clients.is_some() {
            // A resumed TLS session restores the client's certificate without a check of its dates.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { config: Arc::new(config), certificate, clients })
    }

    /// Returns a warning if the server's certificate has expired, or will expire soon.
    pub fn warning(&self, now: Timestamp) -> Option<String> {
        let expires_at = i64::try_from(self.certificate.not_after).unwrap_or(i64::MAX).saturating_mul(1000);
        let expires_at = Timestamp::from_millis(expires_at);
        let subject = &self.certificate.subject;
        let remaining = expires_at.since(now);
        match expires_at > now {
            false => Some(format!("the certificate of {subject:?} has expired: clients refuse it")),
            true if remaining < EXPIRY_WARNING => Some(format!(
                "the certificate of {subject:?} expires in {} days",
                remaining.as_secs() / 86_400
            )),
            true => None,
        }
    }

    /// Returns true if a connection begins with a TLS handshake. A client that sends plain HTTP gets an error
    /// response.
    pub(in crate::mcp::transport::http) async fn starts_with_handshake(
        socket: &TcpStream,
    ) -> io::Result<bool> {
        let mut first = [0];
        if socket.peek(&mut first).await? == 0 {
            return Ok(false);
        }
        if first[0].is_ascii_uppercase() {
            // Either the send buffer has space, or the client does not read.
            let _ = socket.try_write(PLAIN_HTTP_RESPONSE);
        }
        Ok(first[0] == HANDSHAKE)
    }

    /// Performs the TLS handshake, and returns the client's certificate.
    ///
    /// # Errors
    /// If the handshake fails, or the client's certificate is not valid.
    pub(in crate::mcp::transport::http) async fn accept(
        &self,
        socket: TimeoutSocket<TcpStream>,
    ) -> io::Result<(TlsStream<TimeoutSocket<TcpStream>>, Option<Certificate>)> {
        let stream = TlsAcceptor::from(Arc::clone(&self.config)).accept(socket).await?;
        let peer_chain = stream.get_ref().1.peer_certificates();
        let parsed = peer_chain.map(|chain| Certificate::parse(chain.iter().map(|der| &**der)));
        let certificate = parsed.transpose().map_err(io::Error::other)?;
        let authorities = self.clients.as_ref().map(|clients| clients.authorities);
        Ok((stream, certificate.map(|certificate| Certificate { authorities, ..certificate })))
    }

    /// Returns true if a client with this certificate would be accepted.
    pub(in crate::mcp::transport::http) fn would_accept(&self, certificate: Option<&Certificate>) -> bool {
        match (&self.clients, certificate) {
            (None, _) => true,
            (Some(clients), None) => clients.requirement == ClientCertificates::Optional,
            (Some(_), Some(certificate)) => self.trusts(certificate),
        }
    }

    /// Returns true if the authorities vouch for a client's certificate, even if its connection began under
    /// other ones. A certificate that was verified against the same authorities is not verified again.
    pub(in crate::mcp::transport::http) fn trusts(&self, certificate: &Certificate) -> bool {
        let Some(clients) = &self.clients else { return false };
        if certificate.authorities == Some(clients.authorities) {
            return true;
        }
        let now = u64::try_from(System.now().as_millis()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_millis(now));
        let mut chain = certificate.chain.iter().map(|der| CertificateDer::from(der.as_slice()));
        let Some(first) = chain.next() else { return false };
        let intermediates: Vec<CertificateDer<'_>> = chain.collect();
        clients.verifier.verify_client_cert(&first, &intermediates, now).is_ok()
    }
}

/// Parses the certificates in a PEM text.
fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    certificates.map_err(|error| TlsError::BadCertificate(error.to_string()))
}

fn verifier(
    authorities: &[u8],
    requirement: ClientCertificates,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in
        parse_certificates(authorities).map_err(|error| TlsError::NoAuthority(error.to_string()))?
    {
        roots.add(authority).map_err(|error| TlsError::NoAuthority(error.to_string()))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = match requirement {
        ClientCertificates::Optional => builder.allow_unauthenticated(),
        ClientCertificates::Required => builder,
    };
    builder.build().map_err(|error| TlsError::NoAuthority(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply to a client without TLS declares the length of its body.
    #[test]
    fn plain_http_reply_has_correct_length() {
        let text = std::str::from_utf8(PLAIN_HTTP_RESPONSE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }

    /// The error names the certificate or key that cannot be used.
    #[test]
    fn tls_error_hides_private_key() {
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        assert!(matches!(Tls::new(b"", key.as_bytes(), None), Err(TlsError::NoCertificate)));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = Tls::new(broken, key.as_bytes(), None).unwrap_err();
        assert!(matches!(error, TlsError::BadCertificate(_)), "{error}");
    }
}
