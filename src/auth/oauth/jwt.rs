//! [`Jwt`]: a parsed signed token whose signature is not verified yet (RFC 7515, RFC 7519, RFC 8725). It
//! ignores key locations in the token: `jku`, `x5u`, `jwk` and `x5c`. It must not fetch anything.

use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::algorithm::Algorithm;
use super::token_error::TokenError;

/// The `typ` values of an access token (RFC 9068).
const ACCESS_TOKEN_TYPES: [&str; 2] = ["at+jwt", "application/at+jwt"];

/// The generic `typ`, which ID tokens have as well.
const GENERIC_TYPE: &str = "jwt";

/// Maximum length of a key id.
const MAX_KEY_ID_BYTES: usize = 512;

/// A signed token that is not verified yet.
#[derive(Debug)]
pub(super) struct Jwt<'a> {
    pub(super) algorithm: Algorithm,
    key_id: Option<String>,
    /// True if `typ` marks it as an access token.
    pub(super) is_access_token: bool,
    pub(super) claims: Map<String, Value>,
    /// The signed bytes.
    pub(super) signed_bytes: &'a [u8],
    pub(super) signature: Vec<u8>,
}

/// The header fields that are read. A duplicate field is an error.
#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> Jwt<'a> {
    /// Parses a token. Returns `None` for an opaque token.
    pub(super) fn parse(token: &'a [u8]) -> Option<Result<Self, TokenError>> {
        let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let (first, second) = (dots.next()?, dots.next()?);
        let header = BASE64URL_NOPAD.decode(&token[..first]).ok()?;
        let header: Value = serde_json::from_slice(&header).ok()?;
        header.as_object()?;
        if dots.next().is_some() {
            return Some(Err(TokenError::Malformed));
        }
        Some(Self::parse_parts(token, first, second))
    }

    fn parse_parts(token: &'a [u8], first: usize, second: usize) -> Result<Self, TokenError> {
        let part = |bytes: &[u8]| BASE64URL_NOPAD.decode(bytes).map_err(|_| TokenError::Malformed);
        // Parses the text again, because a JSON value no longer shows duplicate fields.
        let header: Header =
            serde_json::from_slice(&part(&token[..first])?).map_err(|_| TokenError::Malformed)?;
        let algorithm = Algorithm::from_name(&header.alg).ok_or(TokenError::Algorithm)?;
        if header.crit.is_some() {
            return Err(TokenError::Critical);
        }
        let typ = header.typ.map(|typ| typ.to_ascii_lowercase());
        let is_access_token = typ.as_ref().is_some_and(|typ| ACCESS_TOKEN_TYPES.contains(&typ.as_str()));
        if !is_access_token && typ.is_some_and(|typ| typ != GENERIC_TYPE) {
            return Err(TokenError::Type);
        }
        if header.kid.as_ref().is_some_and(|kid| kid.len() > MAX_KEY_ID_BYTES) {
            return Err(TokenError::Malformed);
        }
        let claims =
            serde_json::from_slice(&part(&token[first + 1..second])?).map_err(|_| TokenError::Malformed)?;
        let signature = part(&token[second + 1..])?;
        Ok(Self {
            algorithm,
            key_id: header.kid,
            is_access_token,
            claims,
            signed_bytes: &token[..second],
            signature,
        })
    }

    /// Returns the key id of the header (`kid`).
    pub(super) fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// Returns the unverified issuer (`iss`).
    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str, signature: &str) -> String {
        let part = |text: &str| BASE64URL_NOPAD.encode(text.as_bytes());
        format!("{}.{}.{}", part(header), part(claims), part(signature))
    }

    fn error(header: &str, claims: &str) -> Option<TokenError> {
        let token = token(header, claims, "s");
        Jwt::parse(token.as_bytes()).unwrap().err()
    }

    #[test]
    fn jwt_is_split_into_parts() {
        let text = token(
            r#"{"alg":"ES256","kid":"../k","typ":"at+JWT","jku":"https://evil.example"}"#,
            r#"{"iss":"i"}"#,
            "sig",
        );
        let jwt = Jwt::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!((jwt.key_id(), jwt.issuer(), jwt.algorithm), (Some("../k"), Some("i"), Algorithm::Es256));
        assert_eq!(
            (jwt.signature.as_slice(), jwt.signed_bytes),
            (&b"sig"[..], text.rsplit_once('.').unwrap().0.as_bytes())
        );
    }

    #[test]
    fn invalid_jwt_headers_are_refused() {
        for (header, claims, expected) in [
            (r#"{"alg":"none"}"#, "{}", TokenError::Algorithm),
            (r#"{"alg":"nOnE"}"#, "{}", TokenError::Algorithm),
            (r#"{"alg":"HS256"}"#, "{}", TokenError::Algorithm),
            (r#"{"alg":["RS256"]}"#, "{}", TokenError::Malformed),
            (r#"{"typ":"JWT"}"#, "{}", TokenError::Malformed),
            (r#"{"alg":"RS256","alg":"none"}"#, "{}", TokenError::Malformed),
            (r#"{"alg":"RS256","crit":["exp"]}"#, "{}", TokenError::Critical),
            (r#"{"alg":"RS256","crit":[]}"#, "{}", TokenError::Critical),
            (r#"{"alg":"RS256","crit":["b64"],"b64":false}"#, "{}", TokenError::Critical),
            (r#"{"alg":"RS256","typ":"dpop+jwt"}"#, "{}", TokenError::Type),
            (r#"{"alg":"RS256","typ":"logout+jwt"}"#, "{}", TokenError::Type),
            (r#"{"alg":"RS256","kid":7}"#, "{}", TokenError::Malformed),
            (r#"{"alg":"RS256"}"#, "[]", TokenError::Malformed),
            (r#"{"alg":"RS256"}"#, "nonsense", TokenError::Malformed),
        ] {
            assert_eq!(error(header, claims), Some(expected), "{header} {claims}");
        }
        let long = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(MAX_KEY_ID_BYTES + 1));
        assert_eq!(error(&long, "{}"), Some(TokenError::Malformed));
        let head = BASE64URL_NOPAD.encode(br#"{"alg":"RS256"}"#);
        for token in [format!("{head}.e30=.AA"), format!("{head}.e30.A"), format!("{head}.e30.AA.AA.AA")] {
            assert_eq!(Jwt::parse(token.as_bytes()).unwrap().err(), Some(TokenError::Malformed), "{token}");
        }
    }

    /// A token that is no JWT is left to the introspection of its issuer.
    #[test]
    fn opaque_token_is_no_jwt() {
        for token in ["opaque", "a.b", "a.b.c", "..", "", "W10.e30.AA"] {
            assert!(Jwt::parse(token.as_bytes()).is_none(), "{token}");
        }
    }
}
