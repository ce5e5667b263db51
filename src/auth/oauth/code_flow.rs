//! [`CodeFlow`]: how a person signs in at an issuer, with a browser: OpenID Connect's code flow with PKCE
//! (OpenID Connect Core, section 3.1; RFC 7636; RFC 9700). It builds the address of the issuer, and exchanges
//! the code that the browser brings back. It must not know cookies, and verifies no token.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::discovery;
use super::fetch::{FetchError, IssuerClient, redacted_url};
use super::keyring::KeySource;
use crate::auth::Unauthorized;
use crate::clock::{self, Entropy};

/// Age from which the issuer's endpoints are looked up again.
const REFRESH_AGE: Duration = Duration::from_secs(10 * 60);

/// Number of random bytes in a state, a nonce and a code verifier.
const RANDOM_BYTES: usize = 32;

/// Maximum length of a code, in bytes.
const MAX_CODE_BYTES: usize = 4 * 1024;

/// This server as a client of an issuer.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInClient {
    /// The client id.
    pub client_id: String,
    /// The client secret; none for a public client.
    pub secret: Option<Zeroizing<String>>,
    /// The scopes that are asked for, besides `openid`.
    pub scopes: Vec<String>,
}

/// Hides the secret.
impl fmt::Debug for SignInClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignInClient").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// A sign-in that has begun: what the browser keeps, sealed, until it comes back.
#[derive(Serialize, Deserialize)]
pub struct PendingSignIn {
    /// The issuer.
    pub issuer: String,
    /// The value that the issuer returns, so that no other site can finish a sign-in.
    state: String,
    /// The value in the ID token, so that no other token counts.
    pub(super) nonce: String,
    /// What proves that the exchange of the code is of the same sign-in (PKCE).
    verifier: String,
}

/// What a browser brings back from the issuer: the fields of the query (RFC 6749, section 4.1.2; RFC 9207).
pub struct Returned<'a> {
    /// `state`.
    pub state: &'a str,
    /// `code`.
    pub code: &'a str,
    /// `iss`.
    pub issuer: Option<&'a str>,
}

/// Why a sign-in at an issuer does not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeFlowError {
    /// The issuer is unavailable, or its metadata lacks what is needed. The log says which.
    #[error("the issuer does not answer as it should; the server's log says why")]
    Issuer,
    /// The browser comes from another sign-in, or from another site.
    #[error("this is not the sign-in that this browser began, or it took too long: sign in again")]
    Foreign,
    /// The issuer refuses the code.
    #[error("the issuer refuses the code: sign in again")]
    Code,
    /// The person is not admitted.
    #[error(transparent)]
    Unauthorized(#[from] Unauthorized),
}

impl PendingSignIn {
    /// Begins a sign-in at an issuer.
    pub fn new(issuer: &str, entropy: &dyn Entropy) -> Self {
        let random = || BASE64URL_NOPAD.encode(&clock::random::<RANDOM_BYTES>(entropy));
        Self { issuer: issuer.to_owned(), state: random(), nonce: random(), verifier: random() }
    }
}

/// The endpoints of an issuer.
#[derive(Clone, Debug)]
struct Endpoints {
    authorization: Url,
    token: Url,
    takes_secret_in_form: bool,
    names_itself: bool,
}

/// Signs persons in at one issuer.
#[derive(Debug)]
pub(super) struct CodeFlow {
    settings: SignInClient,
    issuer: String,
    url: Url,
    client: IssuerClient,
    endpoints: Mutex<Option<(Endpoints, Instant)>>,
}

#[derive(Deserialize)]
struct TokenResponse {
    id_token: Option<String>,
    scope: Option<String>,
}

impl CodeFlow {
    pub(super) fn new(settings: SignInClient, source: &KeySource) -> Result<Self, String> {
        let client = IssuerClient::new(&source.network, source.url.scheme() == "http")?;
        let (issuer, url) = (source.issuer.clone(), source.url.clone());
        Ok(Self { settings, issuer, url, client, endpoints: Mutex::default() })
    }

    pub(super) fn client_id(&self) -> &str {
        &self.settings.client_id
    }

    /// Fetches the metadata, and checks that it has what a sign-in needs.
    pub(super) async fn check_endpoints(&self) -> Result<(), String> {
        self.discover().await.map(|_| ())
    }

    /// Returns the address to which the browser is sent.
    pub(super) async fn authorization_url(
        &self,
        pending: &PendingSignIn,
        redirect_uri: &str,
    ) -> Result<String, CodeFlowError> {
        let mut url = self.endpoints().await?.authorization;
        let challenge = BASE64URL_NOPAD.encode(&Sha256::digest(&pending.verifier));
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("scope", &self.scope())
            .append_pair("state", &pending.state)
            .append_pair("nonce", &pending.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url.into())
    }

    /// Exchanges a code. Returns the ID token, unverified, and the granted scopes.
    pub(super) async fn exchange(
        &self,
        pending: &PendingSignIn,
        returned: &Returned<'_>,
        redirect_uri: &str,
    ) -> Result<(Zeroizing<String>, String), CodeFlowError> {
        let is_ours = bool::from(returned.state.as_bytes().ct_eq(pending.state.as_bytes()));
        if !is_ours || returned.code.is_empty() || returned.code.len() > MAX_CODE_BYTES {
            return Err(CodeFlowError::Foreign);
        }
        let endpoints = self.endpoints().await?;
        // Another issuer could have sent the browser here, with a code of its own (RFC 9207).
        match returned.issuer {
            Some(issuer) if issuer != self.issuer => return Err(CodeFlowError::Foreign),
            None if endpoints.names_itself => return Err(CodeFlowError::Foreign),
            _ => {}
        }
        let response = self.post_code(&endpoints, pending, returned.code, redirect_uri).await?;
        let response: TokenResponse =
            serde_json::from_slice(&response).map_err(|_| self.failed("its token response is not valid"))?;
        let id_token =
            response.id_token.ok_or_else(|| self.failed("its token response has no `id_token`"))?;
        // Without this member, all scopes that were asked for are granted (RFC 6749, section 5.1).
        Ok((Zeroizing::new(id_token), response.scope.unwrap_or_else(|| self.scope())))
    }

    async fn post_code(
        &self,
        endpoints: &Endpoints,
        pending: &PendingSignIn,
        code: &str,
        redirect_uri: &str,
    ) -> Result<Vec<u8>, CodeFlowError> {
        let SignInClient { client_id, secret, .. } = &self.settings;
        let header = secret.as_deref().filter(|_| !endpoints.takes_secret_in_form);
        let in_form = if header.is_none() { Some((client_id, secret.as_deref())) } else { None };
        let form = token_request(pending, code, redirect_uri, in_form);
        let credentials = header.map(|secret| (client_id.as_str(), secret.as_str()));
        let posted = self.client.post_form(endpoints.token.clone(), credentials, form).await;
        posted.map_err(|error| {
            let refused = self.failed(&format!("{}: {error}", redacted_url(&endpoints.token)));
            match error {
                // A code that was used, or is too old (RFC 6749, section 5.2).
                FetchError::Status(StatusCode::BAD_REQUEST) => CodeFlowError::Code,
                _ => refused,
            }
        })
    }

    /// Returns the scopes that are asked for.
    fn scope(&self) -> String {
        let scopes = self.settings.scopes.iter().filter(|scope| *scope != "openid");
        ["openid"].into_iter().chain(scopes.map(String::as_str)).collect::<Vec<_>>().join(" ")
    }

    async fn endpoints(&self) -> Result<Endpoints, CodeFlowError> {
        let cached = self.endpoints.lock().clone();
        if let Some((endpoints, _)) = cached.filter(|(_, since)| since.elapsed() < REFRESH_AGE) {
            return Ok(endpoints);
        }
        let endpoints = self.discover().await.map_err(|reason| self.failed(&reason))?;
        *self.endpoints.lock() = Some((endpoints.clone(), Instant::now()));
        Ok(endpoints)
    }

    async fn discover(&self) -> Result<Endpoints, String> {
        let metadata = discovery::discover(&self.client, &self.url, &self.issuer).await?;
        Ok(Endpoints {
            authorization: metadata.authorization_endpoint(&self.url)?,
            token: metadata.token_endpoint(&self.url)?,
            takes_secret_in_form: metadata.takes_secret_in_form(),
            names_itself: metadata.authorization_response_iss_parameter_supported,
        })
    }

    /// Logs why the issuer is of no use.
    fn failed(&self, why: &str) -> CodeFlowError {
        tracing::warn!(issuer = self.issuer, why, "a person cannot sign in at the issuer");
        CodeFlowError::Issuer
    }
}

/// Returns the form that exchanges a code, with the client's id and secret if they are not in a header.
fn token_request(
    pending: &PendingSignIn,
    code: &str,
    redirect_uri: &str,
    client: Option<(&String, Option<&String>)>,
) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", redirect_uri)
        .append_pair("code_verifier", &pending.verifier);
    if let Some((id, secret)) = client {
        form.append_pair("client_id", id);
        form.extend_pairs(secret.map(|secret| ("client_secret", secret)));
    }
    form.finish()
}
