//! [`Certificates`]: maps client certificates to principals by the rules of the config. The TLS handshake has
//! already verified the certificate. Nothing but the fields in the rules is used.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::json;
use taskbridge_sdk::Timestamp;

use super::{CallerCredential, Certificate, CredentialKind, Identity, Name, Principal, Unauthorized};
use crate::clock::{Clock, System};
use crate::tasks::task::Owner;

/// Issuer name for principals that a certificate identifies. No token issuer can have it, because it is not a
/// URL.
const CERTIFICATE_ISSUER: &str = "certificate";

/// Conditions on a certificate. All that are set must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateConditions {
    /// Common name of the subject.
    pub common_name: Option<String>,
    /// One of its alternative names: a DNS name.
    pub dns: Option<String>,
    /// One of its alternative names: a URI of a program, such as `spiffe://example.com/nightly`.
    pub uri: Option<String>,
    /// One of its alternative names: a mail address.
    pub email: Option<String>,
    /// SHA-256 of the certificate.
    pub sha256: Option<[u8; 32]>,
    /// Distinguished name of the issuer, in the form of RFC 4514. It identifies no caller on its own.
    pub issuer: Option<String>,
}

impl CertificateConditions {
    /// Returns true if a condition identifies the subject, not only the issuer.
    pub fn identifies_subject(&self) -> bool {
        let Self { common_name, dns, uri, email, sha256, issuer: _ } = self;
        [common_name, dns, uri, email].into_iter().any(Option::is_some) || sha256.is_some()
    }

    fn matches(&self, certificate: &Certificate) -> bool {
        let Self { common_name, dns, uri, email, sha256, issuer } = self;
        // DNS names are case-insensitive (RFC 4343).
        let is_dns = |expected: &String| {
            certificate
                .names
                .iter()
                .any(|name| matches!(name, Name::Dns(dns) if dns.eq_ignore_ascii_case(expected)))
        };
        self.identifies_subject()
            && common_name.as_ref().is_none_or(|name| certificate.common_name.as_ref() == Some(name))
            && dns.as_ref().is_none_or(is_dns)
            && uri.as_ref().is_none_or(|uri| certificate.names.contains(&Name::Uri(uri.clone())))
            && email.as_ref().is_none_or(|email| certificate.names.contains(&Name::Email(email.clone())))
            && sha256.is_none_or(|digest| certificate.sha256 == digest)
            && issuer.as_ref().is_none_or(|issuer| certificate.issuer == *issuer)
    }
}

/// The rules that map certificates to principals. The first rule that matches wins.
#[derive(Clone)]
pub struct Certificates {
    rules: Vec<(CertificateConditions, Arc<Identity>)>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rules.iter().map(|(_, identity)| &identity.name)).finish()
    }
}

impl Certificates {
    /// Creates the map from these rules.
    pub fn new(rules: impl IntoIterator<Item = (CertificateConditions, Identity)>) -> Self {
        let rules =
            rules.into_iter().map(|(conditions, identity)| (conditions, Arc::new(identity))).collect();
        Self { rules, clock: System::clock() }
    }

    /// Returns the identity of this principal of the config.
    pub fn identity(principal: &str, groups: BTreeSet<String>, scopes: BTreeSet<String>) -> Identity {
        let (issuer, subject) = (Some(CERTIFICATE_ISSUER.to_owned()), Some(principal.to_owned()));
        Identity { issuer, subject, groups, scopes, ..Identity::named(principal) }
    }

    /// Returns the owner of this principal's tasks. It has the form of token owners, so that no API key can
    /// have the same name. It contains the name in the config, not a field of the certificate: certificates
    /// are renewed, and tasks stay.
    pub fn owner(principal: &str) -> Owner {
        Owner::new(json!([CERTIFICATE_ISSUER, principal]).to_string())
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the principal of a certificate that is valid now.
    pub(super) fn principal(&self, certificate: &Arc<Certificate>) -> Result<Principal, Unauthorized> {
        let principal = self.find_principal(certificate).ok_or(Unauthorized::UnknownCertificate)?;
        // A connection can outlive the certificate.
        if certificate.expires_at() <= self.now() {
            Err(Unauthorized::CertificateExpired)
        } else {
            Ok(principal)
        }
    }

    /// Returns the principal of a certificate, even if it has expired.
    pub(super) fn find_principal(&self, certificate: &Arc<Certificate>) -> Option<Principal> {
        let (_, identity) = self.rules.iter().find(|(conditions, _)| conditions.matches(certificate))?;
        let credential = CallerCredential {
            kind: CredentialKind::Certificate(Arc::clone(certificate)),
            expires_at: Some(certificate.expires_at()),
        };
        Some(Principal {
            owner: Self::owner(&identity.name),
            identified: true,
            credential,
            identity: Arc::clone(identity),
            client_address: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{ApiKeys, Key};
    use crate::auth::{Authenticator, Peer, RequestCredentials};

    fn nightly() -> Certificate {
        Certificate {
            subject: "CN=nightly,O=Example".to_owned(),
            common_name: Some("nightly".to_owned()),
            issuer: "CN=authority".to_owned(),
            names: vec![
                Name::Uri("spiffe://example/nightly".to_owned()),
                Name::Dns("build.example".to_owned()),
                Name::Email("nightly@example".to_owned()),
            ],
            sha256: [7; 32],
            not_after: u64::try_from(System.now().as_millis() / 1000).unwrap() + 3600,
            chain: Vec::new(),
            authorities: None,
        }
    }

    fn rules(conditions: CertificateConditions) -> Certificates {
        Certificates::new([(conditions, Certificates::identity("night", BTreeSet::new(), BTreeSet::new()))])
    }

    fn conditions(change: impl FnOnce(&mut CertificateConditions)) -> CertificateConditions {
        let mut says = CertificateConditions::default();
        change(&mut says);
        says
    }

    /// Every condition of a rule must match the certificate.
    #[test]
    fn certificate_maps_to_configured_principal() {
        let text = |text: &str| Some(text.to_owned());
        for (says, expected) in [
            (conditions(|says| says.common_name = text("nightly")), true),
            (conditions(|says| says.dns = text("BUILD.example")), true),
            (conditions(|says| says.uri = text("spiffe://example/nightly")), true),
            (conditions(|says| says.email = text("nightly@example")), true),
            (conditions(|says| says.sha256 = Some([7; 32])), true),
            (
                conditions(|says| (says.common_name, says.issuer) = (text("nightly"), text("CN=authority"))),
                true,
            ),
            (
                conditions(|says| (says.dns, says.email) = (text("build.example"), text("nightly@example"))),
                true,
            ),
            (conditions(|_| ()), false),
            (conditions(|says| says.issuer = text("CN=authority")), false),
            (conditions(|says| says.common_name = text("Nightly")), false),
            (conditions(|says| says.common_name = text("CN=nightly,O=Example")), false),
            (conditions(|says| says.dns = text("example")), false),
            (conditions(|says| says.dns = text("spiffe://example/nightly")), false),
            (conditions(|says| says.uri = text("spiffe://example/nightly/")), false),
            (conditions(|says| says.uri = text("build.example")), false),
            (conditions(|says| says.sha256 = Some([8; 32])), false),
            (conditions(|says| (says.common_name, says.issuer) = (text("nightly"), text("CN=other"))), false),
            (
                conditions(|says| (says.dns, says.email) = (text("build.example"), text("other@example"))),
                false,
            ),
        ] {
            let principal = rules(says.clone()).principal(&Arc::new(nightly()));
            assert_eq!(principal.is_ok(), expected, "{says:?}");
            if let Ok(principal) = principal {
                assert_eq!(principal.owner.as_str(), r#"["certificate","night"]"#);
                assert!(principal.identified);
            }
        }
    }

    /// A principal is not recognized again after its certificate maps to another rule.
    #[test]
    fn first_matching_certificate_rule_applies() {
        let by_common_name = conditions(|says| says.common_name = Some("nightly".to_owned()));
        let rule = |name: &str| {
            let identity = Certificates::identity(name, ["release".to_owned()].into(), BTreeSet::new());
            (by_common_name.clone(), identity)
        };
        let auth = |rules: Certificates| Authenticator::Certificates(rules, None);
        let (one, two) = (Certificates::new([rule("one"), rule("two")]), Certificates::new([rule("two")]));
        let principal = one.principal(&Arc::new(nightly())).unwrap();
        assert_eq!(principal.identity.name, "one");
        assert!(auth(one).still_admits(&principal));
        assert!(!auth(two).still_admits(&principal), "the certificate belongs to another principal now");
        let other_conditions = conditions(|says| says.dns = Some("other.example".to_owned()));
        let identity = Certificates::identity("one", ["release".to_owned()].into(), BTreeSet::new());
        assert!(!auth(Certificates::new([(other_conditions, identity)])).still_admits(&principal));
    }

    /// A certificate that expires on an open connection is not accepted on it any more.
    #[test]
    fn expired_certificate_ends_kept_connection() {
        let expired = Arc::new(Certificate { not_after: 1, ..nightly() });
        let rules = rules(conditions(|says| says.sha256 = Some([7; 32])));
        assert_eq!(rules.principal(&expired).unwrap_err(), Unauthorized::CertificateExpired);
        let principal = rules.find_principal(&expired).unwrap();
        let auth = Authenticator::Certificates(rules, None);
        assert!(auth.time_left(&principal, std::time::Duration::ZERO).unwrap().is_zero());
    }

    /// A request with both is authenticated by its key alone, and fails if the key is wrong.
    #[test]
    fn api_key_overrides_client_certificate() {
        use sha2::{Digest as _, Sha256};
        let key = data_encoding::HEXLOWER.encode(&Sha256::digest("a"));
        let keys = || {
            let keys = ApiKeys::new([Key::new(&key, Identity::named("night"))]).unwrap();
            Some(Box::new(Authenticator::ApiKeys(keys)))
        };
        let by_common_name = || rules(conditions(|says| says.common_name = Some("nightly".to_owned())));
        let (without_keys, with_keys) = (
            Authenticator::Certificates(by_common_name(), None),
            Authenticator::Certificates(by_common_name(), keys()),
        );
        let unknown_certificate = Certificate { common_name: None, ..nightly() };
        let (by_certificate, by_key) = (Ok(r#"["certificate","night"]"#), Ok("night"));
        for (auth, certificate, header, expected) in [
            (&without_keys, Some(nightly()), None, by_certificate.clone()),
            (&without_keys, Some(nightly()), Some("Bearer x"), by_certificate.clone()),
            (&without_keys, Some(unknown_certificate.clone()), None, Err(Unauthorized::UnknownCertificate)),
            (&without_keys, None, Some("Bearer a"), Err(Unauthorized::NoCertificate)),
            (&with_keys, Some(nightly()), None, by_certificate),
            (&with_keys, Some(nightly()), Some("Bearer a"), by_key.clone()),
            (&with_keys, Some(nightly()), Some("Bearer x"), Err(Unauthorized::UnknownKey)),
            (&with_keys, Some(unknown_certificate.clone()), Some("Bearer a"), by_key),
            (&with_keys, Some(unknown_certificate), None, Err(Unauthorized::Missing)),
            (&with_keys, None, None, Err(Unauthorized::Missing)),
        ] {
            let peer = Peer { address: None, certificate: certificate.map(Arc::new) };
            let credentials = RequestCredentials { authorization: header.map(str::as_bytes), peer: &peer };
            let principal = futures_util::FutureExt::now_or_never(auth.authenticate(&credentials)).unwrap();
            let owner = principal.as_ref().map(|principal| principal.owner.as_str());
            assert_eq!(owner, expected.as_ref().map(|owner| *owner), "{auth:?} {header:?}");
        }
    }
}
