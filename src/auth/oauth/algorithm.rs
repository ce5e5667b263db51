//! [`Algorithm`]: signature algorithms of tokens, and [`PublicKey`]: keys that verify them. Each algorithm
//! requires one kind of key, so that a token cannot misuse a key of another kind. Shared secrets and unsigned
//! tokens are not supported. This module must not know where keys come from.

use aws_lc_rs::signature::{
    self, EcdsaVerificationAlgorithm, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use data_encoding::BASE64URL_NOPAD;
use schemars::JsonSchema;
use serde::Deserialize;

/// Signature algorithm of a token (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Algorithm {
    /// RSA by PKCS #1 v1.5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA by PKCS #1 v1.5 with SHA-384.
    #[serde(rename = "RS384")]
    Rs384,
    /// RSA by PKCS #1 v1.5 with SHA-512.
    #[serde(rename = "RS512")]
    Rs512,
    /// RSA by PSS with SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// RSA by PSS with SHA-384.
    #[serde(rename = "PS384")]
    Ps384,
    /// RSA by PSS with SHA-512.
    #[serde(rename = "PS512")]
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA on P-384 with SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// ECDSA on P-521 with SHA-512.
    #[serde(rename = "ES512")]
    Es512,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// The algorithms by name.
const NAMES: [(&str, Algorithm); 11] = [
    ("RS256", Algorithm::Rs256),
    ("RS384", Algorithm::Rs384),
    ("RS512", Algorithm::Rs512),
    ("PS256", Algorithm::Ps256),
    ("PS384", Algorithm::Ps384),
    ("PS512", Algorithm::Ps512),
    ("ES256", Algorithm::Es256),
    ("ES384", Algorithm::Es384),
    ("ES512", Algorithm::Es512),
    ("EdDSA", Algorithm::EdDsa),
    // RFC 9864 replaces the previous name with this one.
    ("Ed25519", Algorithm::EdDsa),
];

impl Algorithm {
    /// Returns the algorithm with this name, which is case-sensitive.
    pub fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(candidate, _)| *candidate == name).map(|(_, algorithm)| *algorithm)
    }

    /// Returns all algorithms.
    pub fn all() -> Vec<Self> {
        NAMES[..10].iter().map(|(_, algorithm)| *algorithm).collect()
    }
}

/// An elliptic curve for signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "P-256" => Some(Self::P256),
            "P-384" => Some(Self::P384),
            "P-521" => Some(Self::P521),
            _ => None,
        }
    }

    /// Returns the size of a coordinate in bytes.
    fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }
}

/// The public key of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Ec { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

/// The fields of a JWK that define a key (RFC 7517).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct JwkFields {
    kty: String,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

impl PublicKey {
    /// Returns the key of these fields, if tokens can be verified with it.
    pub(super) fn from_jwk(parts: &JwkFields) -> Option<Self> {
        let bytes =
            |text: &str| BASE64URL_NOPAD.decode(text.as_bytes()).ok().filter(|bytes| !bytes.is_empty());
        // RFC 7518 requires no leading zeros; some issuers write one, as for a signed number.
        let number = |text: &str| {
            let bytes = bytes(text)?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            Some(bytes[zeros..].to_vec()).filter(|bytes| !bytes.is_empty())
        };
        match (parts.kty.as_str(), parts.crv.as_str()) {
            ("RSA", _) => {
                let (n, e) = (number(&parts.n)?, number(&parts.e)?);
                (2048..=8192).contains(&(n.len() * 8)).then_some(Self::Rsa { n, e })
            }
            ("EC", curve) => {
                let curve = Curve::from_name(curve)?;
                let (x, y) = (bytes(&parts.x)?, bytes(&parts.y)?);
                let is_valid_size = x.len() == curve.size() && y.len() == curve.size();
                is_valid_size.then(|| Self::Ec { curve, point: [&[4], x.as_slice(), &y].concat() })
            }
            ("OKP", "Ed25519") => bytes(&parts.x).filter(|x| x.len() == 32).map(Self::Ed25519),
            _ => None,
        }
    }

    /// Returns true if this key can verify signatures of this algorithm.
    pub(super) fn supports(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Es512};
        match self {
            Self::Rsa { .. } => rsa(algorithm).is_some(),
            Self::Ec { curve: Curve::P256, .. } => algorithm == Es256,
            Self::Ec { curve: Curve::P384, .. } => algorithm == Es384,
            Self::Ec { curve: Curve::P521, .. } => algorithm == Es512,
            Self::Ed25519(_) => algorithm == EdDsa,
        }
    }

    /// Returns true if the signature of this message is valid.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.supports(algorithm) {
            return false;
        }
        match self {
            Self::Rsa { n, e } => rsa(algorithm).is_some_and(|parameters| {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }),
            Self::Ec { curve, point } => {
                UnparsedPublicKey::new(ecdsa(*curve), point).verify(message, signature).is_ok()
            }
            Self::Ed25519(key) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature).is_ok()
            }
        }
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::Es512 | Algorithm::EdDsa => None,
    }
}

fn ecdsa(curve: Curve) -> &'static EcdsaVerificationAlgorithm {
    match curve {
        Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED,
        Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED,
        Curve::P521 => &signature::ECDSA_P521_SHA512_FIXED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8037, appendix A.4.
    #[test]
    fn checks_the_signature_of_the_standard() {
        let parts = JwkFields {
            kty: "OKP".to_owned(),
            crv: "Ed25519".to_owned(),
            x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo".to_owned(),
            ..JwkFields::default()
        };
        let key = PublicKey::from_jwk(&parts).unwrap();
        let message = b"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let signature =
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).unwrap();
        assert!(key.verifies(Algorithm::EdDsa, message, &signature));
        assert!(!key.verifies(Algorithm::EdDsa, b"something else", &signature));
        assert!(!key.verifies(Algorithm::Es256, message, &signature), "the key is of another kind");
    }

    /// Symmetric, short, malformed and foreign keys are not usable.
    #[test]
    fn unsuitable_public_keys_are_ignored() {
        let short = BASE64URL_NOPAD.encode(&[0xff; 128]);
        for (kty, crv, n, x) in [
            ("oct", "", "", "AAAA"),
            ("RSA", "", short.as_str(), ""),
            ("EC", "P-256", "", "AAAA"),
            ("EC", "secp256k1", "", "AAAA"),
            ("OKP", "X25519", "", "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"),
        ] {
            let owned = str::to_owned;
            let parts = JwkFields {
                kty: owned(kty),
                crv: owned(crv),
                n: owned(n),
                x: owned(x),
                ..JwkFields::default()
            };
            assert_eq!(
                PublicKey::from_jwk(&JwkFields { e: owned("AQAB"), y: owned(x), ..parts }),
                None,
                "{kty} {crv}"
            );
        }
    }

    /// `none`, HMAC and encryption algorithms have no name here.
    #[test]
    fn only_asymmetric_algorithms_are_known() {
        for name in ["none", "None", "HS256", "HS384", "HS512", "rs256", "ES256K", "RSA-OAEP", ""] {
            assert_eq!(Algorithm::from_name(name), None, "{name}");
        }
        assert_eq!(Algorithm::all().len(), 10);
    }
}
