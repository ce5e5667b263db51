//! `[server.tls]`: the certificate by which connections are secured, and what is asked of clients. It must not show the key.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::reader::Reader;
use super::secret::Secret;
use crate::mcp::http::{ClientCertificates, Tls, TlsError};

const FIELD: &str = "server.tls";

/// TLS (1.2 and 1.3), by a certificate of the server's own. Files are read again when they change; a certificate that cannot
/// be used leaves the one before in force.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsTable {
    /// The server's certificate, followed by those that vouch for it (PEM): `{ file = "PATH" }` or `{ env = "NAME" }`.
    certificate: Secret,
    /// Its private key (PEM, unencrypted): `{ file = "PATH" }` or `{ env = "NAME" }`.
    key: Secret,
    /// Certificates of authorities (PEM) that clients' certificates are held against. Such a certificate lets somebody
    /// connect; whom it stands for is said by `[[auth.certificates]]`, or else by a key or a token.
    client_ca: Option<Secret>,
    /// Whether a client must show one.
    #[serde(default)]
    client_certificates: Wanted,
}

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    /// One that shows none is served as well, if `[auth]` lets it in by other means. One that shows a wrong one is not.
    Optional,
    /// One that shows none is not served.
    #[default]
    Required,
}

impl TlsTable {
    /// Whether clients' certificates are held against anything.
    pub(super) fn asks_clients(&self) -> bool {
        self.client_ca.is_some()
    }
}

/// What connections are secured by.
pub(super) fn read(reader: &mut Reader<'_>, table: Option<&TlsTable>, dir: &Path) -> Option<Tls> {
    let TlsTable { certificate, key, client_ca, client_certificates } = table?;
    let at = |name: &str| format!("{FIELD}.{name}");
    let certificate = certificate.reveal(reader, &at("certificate"), dir);
    let key = key.reveal(reader, &at("key"), dir);
    let authorities = client_ca.as_ref().map(|ca| ca.reveal(reader, &at("client_ca"), dir));
    let authorities = match authorities {
        // It was found wrong.
        Some(None) => return None,
        Some(read) => read,
        None => None,
    };
    let wanted = match client_certificates {
        Wanted::Optional => ClientCertificates::Optional,
        Wanted::Required => ClientCertificates::Required,
    };
    let clients = authorities.as_deref().map(|ca| (ca.as_bytes(), wanted));
    match Tls::new(certificate?.as_bytes(), key?.as_bytes(), clients) {
        Ok(tls) => Some(tls),
        Err(error) => {
            let field = match &error {
                TlsError::NoCertificate | TlsError::BadCertificate(_) => at("certificate"),
                TlsError::NoKey | TlsError::NotAPair => at("key"),
                TlsError::NoAuthority(_) => at("client_ca"),
                TlsError::Other(_) => FIELD.to_owned(),
            };
            reader.problem(field, error.to_string());
            None
        }
    }
}
