//! [`TokenError`]: why a token is invalid, as a message for the caller. The messages contain no content of
//! the token.

/// Why a token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The token is too large.
    #[error("the token is too large")]
    TooLarge,
    /// The token cannot be parsed.
    #[error("the token is not well formed")]
    Malformed,
    /// The token is opaque, and no issuer is configured for introspection.
    #[error("the token is opaque, and this server accepts only signed tokens (JWT)")]
    Opaque,
    /// `alg`.
    #[error("the token's signature algorithm is not accepted")]
    Algorithm,
    /// `crit`.
    #[error("the token has critical header fields (`crit`), which this server does not support")]
    Critical,
    /// `typ`, or claims that only an ID token has.
    #[error("the token is not an access token")]
    Type,
    /// `iss`.
    #[error("the token is not from an issuer that this server trusts")]
    Issuer,
    /// `kid`, or the issuer has no key for the algorithm.
    #[error("the token is signed by a key that its issuer does not publish")]
    Key,
    /// The signature does not match: the token was forged or modified.
    #[error("the token's signature is wrong")]
    Signature,
    /// `aud`.
    #[error("the token is meant for another server")]
    Audience,
    /// The `nonce` of an ID token.
    #[error("the token is of another sign-in")]
    Nonce,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` or `iat` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// A required claim is missing or malformed: `exp`, `sub`, or that of the tenant.
    #[error("the token lacks a claim that this server needs: {0}")]
    MissingClaim(&'static str),
    /// `cnf`: the token is bound to a key that the client must prove to have.
    #[error("the token is bound to a key (`cnf`), which this server does not support")]
    KeyBound,
    /// The issuer does not know the token, or it is no longer active.
    #[error("the token is not active")]
    Inactive,
}
