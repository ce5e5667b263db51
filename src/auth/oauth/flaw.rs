//! [`Flaw`]: what is wrong with a token, in words that may be told to whoever sent it. They name nothing that the token
//! says.

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// It is too large to be looked at.
    #[error("the token is larger than this server takes")]
    Size,
    /// It cannot be read.
    #[error("the token is not well formed")]
    Form,
    /// Only its issuer could say what it is, and is not asked.
    #[error("the token is of a kind that this server cannot read: it takes signed ones (JWT)")]
    Opaque,
    /// `alg`.
    #[error("the token is signed in a way that is not accepted")]
    Algorithm,
    /// `crit`.
    #[error(
        "the token's header says that something in it must be understood, which this server does not know"
    )]
    Critical,
    /// `typ`, or claims that only an ID token has.
    #[error("the token is not an access token")]
    Type,
    /// `iss`.
    #[error("the token is not from an issuer that this server trusts")]
    Issuer,
    /// `kid`, or no key for its algorithm.
    #[error("the token is signed by a key that its issuer does not publish")]
    Key,
    /// It was forged, or changed.
    #[error("the token's signature is wrong")]
    Signature,
    /// `aud`.
    #[error("the token is meant for another server")]
    Audience,
    /// `exp` is over.
    #[error("the token has expired")]
    Expired,
    /// `nbf` or `iat` lies ahead.
    #[error("the token is not valid yet")]
    Early,
    /// A claim that is needed is missing or has another form: `exp`, `sub`, or that of the tenant.
    #[error("the token lacks a claim that this server needs: {0}")]
    Lacks(&'static str),
    /// `cnf`: only whoever has a certain key may use it.
    #[error("the token is bound to a key that the request does not show")]
    Bound,
    /// The issuer knows it not, or not any more.
    #[error("the token is not active")]
    Inactive,
}
