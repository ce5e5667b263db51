//! [`SignIn`]: what a browser session keeps of the credential that it began with. With each request the
//! caller is derived from it again, by the rules in force, so a removed key or rule ends the session. It must
//! not know how a session is stored or sent.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::oauth::{CodeFlowError, PendingSignIn, Returned, TokenError};
use super::{ApiKeys, Authenticator, Peer, Principal, Unauthorized};

const NO_ISSUER: CodeFlowError = CodeFlowError::Unauthorized(Unauthorized::Token(TokenError::Issuer));

/// The credential of a browser session. It contains no secret that would authenticate another client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignIn {
    /// The single user of the server.
    SingleUser,
    /// An API key, by its SHA-256 in hexadecimal.
    Key(String),
    /// The client certificate of the connection, by its SHA-256 in hexadecimal. Each request must come over
    /// a connection with this certificate.
    Certificate(String),
    /// A sign-in at an issuer.
    Issuer {
        /// The issuer.
        #[serde(rename = "i")]
        name: String,
        /// The claims about the person.
        #[serde(rename = "c")]
        claims: Map<String, Value>,
    },
}

/// Hides the digests, which identify a key, and the claims.
impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SignIn::SingleUser => "SingleUser",
            SignIn::Key(_) => "Key(hidden)",
            SignIn::Certificate(_) => "Certificate(hidden)",
            SignIn::Issuer { .. } => "Issuer(hidden)",
        })
    }
}

/// The ways to sign in that an authenticator offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignInMethods {
    /// The server prints an address for its single user.
    pub printed_address: bool,
    /// An API key is typed once.
    pub key: bool,
    /// The browser presents a client certificate.
    pub certificate: bool,
    /// A person signs in at one of these issuers.
    pub issuers: Vec<String>,
}

impl Authenticator {
    /// Returns the ways to sign in. There are none if callers cannot be distinguished.
    pub fn sign_in_methods(&self) -> SignInMethods {
        match self {
            Authenticator::None { single_user } => {
                SignInMethods { printed_address: *single_user, ..SignInMethods::default() }
            }
            Authenticator::ApiKeys(_) => SignInMethods { key: true, ..SignInMethods::default() },
            Authenticator::OAuth(oauth, keys) => SignInMethods {
                key: !keys.is_empty(),
                issuers: oauth.sign_in_issuers().map(str::to_owned).collect(),
                ..SignInMethods::default()
            },
            Authenticator::Certificates(_, other_method) => {
                let others = other_method.as_ref().map(|other| other.sign_in_methods()).unwrap_or_default();
                SignInMethods { certificate: true, ..others }
            }
        }
    }

    /// Authenticates the holder of an API key. The text is compared with keys only: it is never sent to an
    /// issuer.
    ///
    /// # Errors
    /// If there is no such key, or it has expired.
    pub fn sign_in_with_key(&self, key: &str) -> Result<SignIn, Unauthorized> {
        let digest: [u8; 32] = Sha256::digest(key.trim()).into();
        self.api_keys().ok_or(Unauthorized::UnknownKey)?.principal_by_digest(digest)?;
        Ok(SignIn::Key(HEXLOWER.encode(&digest)))
    }

    /// Authenticates the holder of the connection's client certificate.
    ///
    /// # Errors
    /// If there is no certificate, or no rule matches it.
    pub fn sign_in_with_certificate(&self, peer: &Peer) -> Result<SignIn, Unauthorized> {
        let certificate = peer.certificate.as_ref().ok_or(Unauthorized::NoCertificate)?;
        let sign_in = SignIn::Certificate(HEXLOWER.encode(&certificate.sha256));
        self.signed_in(&sign_in, peer).map(|_| sign_in)
    }

    /// Returns the address to which a browser is sent for a sign-in that begins at an issuer.
    ///
    /// # Errors
    /// If persons do not sign in there, or the issuer is unavailable.
    pub async fn authorization_url(
        &self,
        pending: &PendingSignIn,
        redirect_uri: &str,
    ) -> Result<String, CodeFlowError> {
        self.oauth().ok_or(NO_ISSUER)?.authorization_url(pending, redirect_uri).await
    }

    /// Authenticates the person whom an issuer sent back.
    ///
    /// # Errors
    /// If it is another sign-in, the issuer is unavailable, or the person is not admitted.
    pub async fn finish_sign_in(
        &self,
        pending: &PendingSignIn,
        returned: &Returned<'_>,
        redirect_uri: &str,
    ) -> Result<SignIn, CodeFlowError> {
        let claims = self.oauth().ok_or(NO_ISSUER)?.finish_sign_in(pending, returned, redirect_uri).await?;
        Ok(SignIn::Issuer { name: pending.issuer.clone(), claims })
    }

    /// Derives the caller of a session again, by these rules.
    ///
    /// # Errors
    /// If these rules no longer admit the caller, or the connection lacks the certificate of the session.
    pub fn signed_in(&self, sign_in: &SignIn, peer: &Peer) -> Result<Principal, Unauthorized> {
        let principal = match (sign_in, self) {
            (SignIn::SingleUser, Authenticator::None { single_user: true }) => Principal::single_user(),
            (SignIn::SingleUser, _) => return Err(Unauthorized::Missing),
            (SignIn::Key(digest), _) => {
                let digest = HEXLOWER.decode(digest.as_bytes()).ok();
                let digest = digest.and_then(|digest| <[u8; 32]>::try_from(digest).ok());
                let keys = self.api_keys().ok_or(Unauthorized::UnknownKey)?;
                keys.principal_by_digest(digest.ok_or(Unauthorized::UnknownKey)?)?
            }
            (SignIn::Certificate(digest), Authenticator::Certificates(certificates, _)) => {
                let presented = peer.certificate.as_ref().ok_or(Unauthorized::NoCertificate)?;
                if HEXLOWER.encode(&presented.sha256) != *digest {
                    return Err(Unauthorized::UnknownCertificate);
                }
                certificates.principal(presented)?
            }
            (SignIn::Certificate(_), _) => return Err(Unauthorized::UnknownCertificate),
            (SignIn::Issuer { name, claims }, _) => {
                self.oauth().ok_or(Unauthorized::Token(TokenError::Issuer))?.signed_in(name, claims)?
            }
        };
        Ok(Principal { client_address: peer.address.map(|address| address.ip()), ..principal })
    }

    fn api_keys(&self) -> Option<&ApiKeys> {
        match self {
            Authenticator::None { .. } => None,
            Authenticator::ApiKeys(keys) | Authenticator::OAuth(_, keys) => Some(keys),
            Authenticator::Certificates(_, other_method) => other_method.as_ref()?.api_keys(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Identity, Key};

    const PEER: Peer = Peer { address: None, certificate: None };

    fn keys(pairs: &[(&str, &str)]) -> Authenticator {
        let key = |(name, key): &(&str, &str)| {
            Key::new(&HEXLOWER.encode(&Sha256::digest(key)), Identity::named(name))
        };
        Authenticator::ApiKeys(ApiKeys::new(pairs.iter().map(key)).unwrap())
    }

    /// A session lasts as long as its key has a principal, and follows a change of that principal.
    #[test]
    fn session_of_key_follows_config() {
        let auth = keys(&[("ann", "a"), ("bob", "b")]);
        let sign_in = auth.sign_in_with_key(" a\n").unwrap();
        assert_eq!(auth.signed_in(&sign_in, &PEER).unwrap().owner.as_str(), "ann");
        assert_eq!(keys(&[("cid", "a")]).signed_in(&sign_in, &PEER).unwrap().owner.as_str(), "cid");
        for other in [keys(&[("bob", "b")]), Authenticator::None { single_user: true }] {
            assert!(other.signed_in(&sign_in, &PEER).is_err());
        }
        assert_eq!(auth.sign_in_with_key("c"), Err(Unauthorized::UnknownKey));
        assert_eq!(format!("{sign_in:?}"), "Key(hidden)");
    }

    /// The single user is signed in only while the server has one.
    #[test]
    fn single_user_needs_single_user_config() {
        let auth = Authenticator::None { single_user: true };
        assert!(auth.signed_in(&SignIn::SingleUser, &PEER).unwrap().identified);
        for other in [Authenticator::None { single_user: false }, keys(&[("ann", "a")])] {
            assert!(other.signed_in(&SignIn::SingleUser, &PEER).is_err());
        }
        assert!(auth.sign_in_with_key("a").is_err());
        assert!(auth.sign_in_with_certificate(&PEER).is_err());
    }
}
