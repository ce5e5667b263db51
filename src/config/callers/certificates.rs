//! `[[auth.certificates]]`: maps client certificates to principals. It must not read a certificate.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::auth::{CertificateConditions, Certificates, Identity};
use crate::config::reading::reader::Reader;

/// Maps client certificates to a principal: those that match all conditions of this table. If several tables
/// match, the first one applies.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateRule {
    /// The owner of the tasks that are created with these certificates.
    pub principal: String,
    /// The common name (`CN`) of the subject.
    #[serde(default)]
    pub common_name: Option<String>,
    /// A DNS name in the certificate (subject alternative name, `DNS`).
    #[serde(default)]
    pub dns: Option<String>,
    /// A URI in the certificate (subject alternative name), such as `spiffe://example.com/nightly`.
    #[serde(default)]
    pub uri: Option<String>,
    /// A mail address in the certificate (subject alternative name).
    #[serde(default)]
    pub email: Option<String>,
    /// The SHA-256 of the certificate, in hexadecimal: `openssl x509 -noout -fingerprint -sha256 -in FILE`.
    #[serde(default, deserialize_with = "fingerprint")]
    #[schemars(with = "Option<String>", regex(pattern = "^[0-9a-fA-F]{2}(:?[0-9a-fA-F]{2}){31}$"))]
    pub sha256: Option<[u8; 32]>,
    /// The issuer, if `client_ca` has several: `openssl x509 -noout -issuer -nameopt RFC2253 -in FILE`.
    #[serde(default)]
    pub issuer: Option<String>,
    /// The groups of the principal.
    #[serde(default)]
    pub groups: BTreeSet<String>,
    /// The scopes that the certificates grant.
    #[serde(default)]
    pub scopes: BTreeSet<String>,
}

impl CertificateRule {
    /// Returns the conditions on a certificate.
    pub fn conditions(&self) -> CertificateConditions {
        let Self { principal: _, groups: _, scopes: _, common_name, dns, uri, email, sha256, issuer } =
            self.clone();
        CertificateConditions { common_name, dns, uri, email, sha256, issuer }
    }

    /// Returns the identity of the principal.
    pub fn identity(&self) -> Identity {
        Certificates::identity(&self.principal, self.groups.clone(), self.scopes.clone())
    }

    /// Returns the text conditions by name.
    fn texts(&self) -> [(&'static str, Option<&str>); 5] {
        let Self { common_name, dns, uri, email, issuer, .. } = self;
        [("common_name", common_name), ("dns", dns), ("uri", uri), ("email", email), ("issuer", issuer)]
            .map(|(name, text)| (name, text.as_deref()))
    }
}

/// Parses a digest with or without colons between its bytes.
fn fingerprint<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u8; 32]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let digest = data_encoding::HEXLOWER_PERMISSIVE.decode(text.replace(':', "").as_bytes()).ok();
    digest.and_then(|digest| digest.try_into().ok()).map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!(
            "{text:?} is not a SHA-256 in hexadecimal (64 digits): write the output of `openssl x509 -noout -fingerprint -sha256`"
        ))
    })
}

/// Validates the rules. `is_only_method`: whether certificates are the only authentication method.
pub(super) fn check(
    reader: &mut Reader<'_>,
    rules: &[CertificateRule],
    is_only_method: bool,
    client_ca: bool,
) {
    if !client_ca && (is_only_method || !rules.is_empty()) {
        let (field, given) = match is_only_method {
            true => ("auth.mode", "mode = \"certificates\""),
            false => ("auth.certificates", "[[auth.certificates]]"),
        };
        let message =
            format!("{given} needs an authority for client certificates: add client_ca to [server.tls]");
        reader.problem(field, message);
    }
    for (index, rule) in rules.iter().enumerate() {
        let field = |name: &str| format!("auth.certificates[{index}].{name}");
        if rule.principal.trim().is_empty() {
            reader
                .problem(field("principal"), "must not be empty: write the name of the certificate's owner");
        }
        for (name, text) in rule.texts() {
            let Some(text) = text else { continue };
            let error = match name {
                _ if text.trim().is_empty() => Some("must not be empty: write a value"),
                "uri" if !text.contains(':') => Some("not a URI: write all of it, with `scheme:`"),
                "email" if !text.contains('@') => Some("not a mail address: write all of it"),
                "dns" if text.contains([':', '/', '@', ' ']) => Some("not a host name: correct it"),
                "issuer" if !text.contains('=') => {
                    Some("not an issuer name (RFC 4514): write one such as CN=ca")
                }
                _ => None,
            };
            if let Some(error) = error {
                reader.problem(field(name), format!("{text:?}: {error}, or remove it"));
            }
        }
        let conditions = rule.conditions();
        if !conditions.identifies_subject() {
            let message = format!(
                "every certificate of `client_ca` would authenticate as {:?}: add `common_name`, `dns`, `uri`, `email` or `sha256`",
                rule.principal
            );
            reader.problem(field("principal"), message);
        }
        if let Some(other) = rules[..index].iter().find(|other| other.conditions() == conditions) {
            let message = format!(
                "the same conditions are listed before, for {:?}, and take precedence: remove one of the two",
                other.principal
            );
            reader.problem(field("principal"), message);
        }
    }
}
