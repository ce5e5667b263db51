//! [`Certificate`]: what a certificate says of whoever showed it. Whether that is to be believed was decided before, when
//! the connection began. It must not decide who is let in.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use taskbridge_sdk::Timestamp;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Tag, Tagged as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name as Distinguished;

/// The attribute of a name that is its common name (RFC 4519, section 2.3).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whom it is for (RFC 4514: `CN=build,O=Example`); empty if only by other names.
    pub subject: String,
    /// The common name in that; none if there are several, of which none is more it than another.
    pub common_name: Option<String>,
    /// Who issued it, in the same form.
    pub issuer: String,
    /// The other names of whom it is for.
    pub names: Vec<Name>,
    /// The SHA-256 of the whole.
    pub sha256: [u8; 32],
    /// Until when it is good, in seconds since 1970.
    pub good_until: u64,
    /// It and those that vouch for it, as they were shown (DER): other authorities can be asked about it.
    pub chain: Vec<Vec<u8>>,
    /// The digest of the authorities that it was held against, if it was.
    pub authorities: Option<[u8; 32]>,
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
    /// Reads one, as it is sent (DER), with those that vouch for it behind it.
    ///
    /// # Errors
    /// If the first is none.
    pub fn read<'a>(chain: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, x509_cert::der::Error> {
        let chain: Vec<Vec<u8>> = chain.into_iter().map(<[u8]>::to_vec).collect();
        let der = chain.first().map(Vec::as_slice).unwrap_or_default();
        let read = x509_cert::Certificate::from_der(der)?.tbs_certificate;
        let names = read.get::<SubjectAltName>()?.map_or(Vec::new(), |(_, SubjectAltName(names))| names);
        Ok(Self {
            subject: read.subject.to_string(),
            common_name: common_name(&read.subject),
            issuer: read.issuer.to_string(),
            names: names.iter().filter_map(name).collect(),
            sha256: Sha256::digest(der).into(),
            good_until: read.validity.not_after.to_unix_duration().as_secs(),
            authorities: None,
            chain,
        })
    }

    /// The end of its time.
    pub(super) fn until(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(self.good_until).unwrap_or(i64::MAX).saturating_mul(1000))
    }
}

/// The one common name of somebody.
fn common_name(subject: &Distinguished) -> Option<String> {
    let parts = subject.0.iter().flat_map(|part| part.0.iter());
    let mut named = parts.filter(|part| part.oid == COMMON_NAME);
    let (Some(one), None) = (named.next(), named.next()) else { return None };
    let is_text = matches!(one.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    is_text.then(|| String::from_utf8(one.value.value().to_vec()).ok()).flatten()
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
