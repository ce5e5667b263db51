//! `[server.tls]`: the server certificate, and the policy for client certificates. It must not print the key.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;
use crate::mcp::transport::http::{ClientCertificates, Tls, TlsError};

const FIELD: &str = "server.tls";

/// TLS (1.2 and 1.3) with the server's own certificate. Changed files are reloaded; an invalid certificate
/// leaves the previous one in force.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct TlsTable {
    /// The server certificate, followed by its intermediates (PEM): `{ file = "PATH" }` or
    /// `{ env = "NAME" }`.
    certificate: Secret,
    /// Its private key (PEM, unencrypted): `{ file = "PATH" }` or `{ env = "NAME" }`.
    key: Secret,
    /// CA certificates (PEM) that verify client certificates. A verified certificate only permits the
    /// connection. The caller is identified by `[[auth.certificates]]`, or else by a key or token.
    client_ca: Option<Secret>,
    /// Whether clients must present a certificate.
    #[serde(default)]
    client_certificates: Wanted,
}

/// Whether clients must present a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    /// A client without a certificate is accepted if `[auth]` identifies it by other means. An invalid
    /// certificate is refused.
    Optional,
    /// A client without a certificate is refused.
    #[default]
    Required,
}

impl TlsTable {
    /// Returns true if client certificates are verified.
    pub(in crate::config) fn asks_clients(&self) -> bool {
        self.client_ca.is_some()
    }
}

/// Reads the TLS settings.
pub(in crate::config) fn read(reader: &mut Reader<'_>, table: Option<&TlsTable>, dir: &Path) -> Option<Tls> {
    let TlsTable { certificate, key, client_ca, client_certificates } = table?;
    let at = |name: &str| format!("{FIELD}.{name}");
    let certificate = certificate.reveal(reader, &at("certificate"), dir);
    let key = key.reveal(reader, &at("key"), dir);
    let authorities = client_ca.as_ref().map(|ca| ca.reveal(reader, &at("client_ca"), dir));
    let authorities = match authorities {
        // The reader has recorded the problem.
        Some(None) => return None,
        Some(text) => text,
        None => None,
    };
    let requirement = match client_certificates {
        Wanted::Optional => ClientCertificates::Optional,
        Wanted::Required => ClientCertificates::Required,
    };
    let clients = authorities.as_deref().map(|ca| (ca.as_bytes(), requirement));
    match Tls::new(certificate?.as_bytes(), key?.as_bytes(), clients) {
        Ok(tls) => Some(tls),
        Err(error) => {
            let field = match &error {
                TlsError::NoCertificate | TlsError::BadCertificate(_) => at("certificate"),
                TlsError::NoKey | TlsError::KeyMismatch => at("key"),
                TlsError::NoAuthority(_) => at("client_ca"),
                TlsError::Other(_) => FIELD.to_owned(),
            };
            reader.problem(field, error.to_string());
            None
        }
    }
}
