//! [`Certificate`]: the fields of a client certificate. The TLS handshake has already verified it. This
//! module must not decide who is admitted.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Timestamp;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Tag, Tagged as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name as Distinguished;

/// Object identifier of the common name (RFC 4519, section 2.3).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The fields of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Distinguished name of the subject (RFC 4514: `CN=build,O=Example`); empty if it only has alternative
    /// names.
    pub subject: String,
    /// Common name of the subject. `None` if there are several, because none of them takes precedence.
    pub common_name: Option<String>,
    /// Distinguished name of the issuer, in the same form.
    pub issuer: String,
    /// Subject alternative names.
    pub names: Vec<Name>,
    /// SHA-256 of the whole certificate.
    pub sha256: [u8; 32],
    /// End of the validity, in seconds since 1970.
    pub not_after: u64,
    /// The certificate and its intermediates as the client sent them (DER), so that other authorities can
    /// verify them later.
    pub chain: Vec<Vec<u8>>,
    /// Digest of the authorities that verified the certificate, if any did.
    pub authorities: Option<[u8; 32]>,
}

/// A subject alternative name (RFC 5280, section 4.2.1.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// A DNS name.
    Dns(String),
    /// A mail address.
    Email(String),
    /// A URI such as `spiffe://example.com/build`.
    Uri(String),
    /// An IP address.
    Ip(IpAddr),
}

impl Certificate {
    /// Parses a certificate in the form of the handshake (DER), followed by its intermediates.
    ///
    /// # Errors
    /// If the first element is not a certificate.
    pub fn parse<'a>(chain: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, x509_cert::der::Error> {
        let chain: Vec<Vec<u8>> = chain.into_iter().map(<[u8]>::to_vec).collect();
        let der = chain.first().map(Vec::as_slice).unwrap_or_default();
        let parsed = x509_cert::Certificate::from_der(der)?.tbs_certificate;
        let names = parsed.get::<SubjectAltName>()?.map_or(Vec::new(), |(_, SubjectAltName(names))| names);
        Ok(Self {
            subject: parsed.subject.to_string(),
            common_name: common_name(&parsed.subject),
            issuer: parsed.issuer.to_string(),
            names: names.iter().filter_map(alternative_name).collect(),
            sha256: Sha256::digest(der).into(),
            not_after: parsed.validity.not_after.to_unix_duration().as_secs(),
            authorities: None,
            chain,
        })
    }

    /// Returns the end of the validity.
    pub(super) fn expires_at(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.not_after).unwrap_or(i64::MAX).saturating_mul(1000))
    }
}

/// Returns the common name, if there is exactly one.
fn common_name(subject: &Distinguished) -> Option<String> {
    let parts = subject.0.iter().flat_map(|part| part.0.iter());
    let mut common_names = parts.filter(|part| part.oid == COMMON_NAME);
    let (Some(attribute), None) = (common_names.next(), common_names.next()) else { return None };
    let is_text = matches!(attribute.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    is_text.then(|| String::from_utf8(attribute.value.value().to_vec()).ok()).flatten()
}

fn alternative_name(name: &GeneralName) -> Option<Name> {
    match name {
        GeneralName::DnsName(name) => Some(Name::Dns(name.to_string())),
        GeneralName::Rfc822Name(name) => Some(Name::Email(name.to_string())),
        GeneralName::UniformResourceIdentifier(name) => Some(Name::Uri(name.to_string())),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let ipv4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            ipv4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok().map(Name::Ip)
        }
        _ => None,
    }
}
