//! [`Certificate`]: what a certificate says of whoever showed it. Whether that is to be believed was decided before, when
//! the connection began. It must not decide who is let in.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whom it is for (RFC 4514: `CN=build,O=Example`); empty if only by other names.
    pub subject: String,
    /// Who issued it, in the same form.
    pub issuer: String,
    /// The other names of whom it is for.
    pub names: Vec<Name>,
    /// The SHA-256 of the whole.
    pub sha256: [u8; 32],
    /// Until when it is good, in seconds since 1970.
    pub good_until: u64,
}

/// One of the names in a certificate (RFC 5280, section 4.2.1.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Of a machine.
    Dns(String),
    /// An address of mail.
    Email(String),
    /// An address such as `spiffe://example.com/build`.
    Uri(String),
    /// An address of a machine.
    Ip(IpAddr),
}

impl Certificate {
    /// Reads one, as it is sent (DER).
    ///
    /// # Errors
    /// If it is none.
    pub fn read(der: &[u8]) -> Result<Self, x509_cert::der::Error> {
        let read = x509_cert::Certificate::from_der(der)?.tbs_certificate;
        let names = read.get::<SubjectAltName>()?.map_or(Vec::new(), |(_, SubjectAltName(names))| names);
        Ok(Self {
            subject: read.subject.to_string(),
            issuer: read.issuer.to_string(),
            names: names.iter().filter_map(name).collect(),
            sha256: Sha256::digest(der).into(),
            good_until: read.validity.not_after.to_unix_duration().as_secs(),
        })
    }
}

fn name(name: &GeneralName) -> Option<Name> {
    match name {
        GeneralName::DnsName(name) => Some(Name::Dns(name.to_string())),
        GeneralName::Rfc822Name(name) => Some(Name::Email(name.to_string())),
        GeneralName::UniformResourceIdentifier(name) => Some(Name::Uri(name.to_string())),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok().map(Name::Ip)
        }
        _ => None,
    }
}
