//! `[auth.issuers.sign_in]`: this server as a client of an issuer, so that persons sign in to the console
//! there. It must not connect to anything, and never prints a secret.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::issuers::check_scope;
use crate::auth::oauth::SignInClient;
use crate::config::reading::reader::Reader;
use crate::config::reading::secret::Secret;

/// Sign-in to the console at an issuer, by OpenID Connect (code flow with PKCE). Its redirect URI is the `url` of
/// `[console]` with `/console/login/callback`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SignIn {
    /// The client id of this server.
    client_id: String,
    /// The client secret: a text, `{ env = "NAME" }` or `{ file = "PATH" }`. A public client has none.
    #[serde(default)]
    client_secret: Option<Secret>,
    /// The scopes to ask for, besides `openid`. Access rules go by those that the issuer grants. Default:
    /// `profile`, and the `required_scopes` of `[auth]`.
    #[serde(default)]
    scopes: Option<Vec<String>>,
}

/// Validates the table and converts it.
pub(super) fn client(
    reader: &mut Reader<'_>,
    field: &str,
    table: &SignIn,
    required_scopes: &[String],
    dir: &Path,
) -> Option<SignInClient> {
    let at = |name: &str| format!("{field}.{name}");
    if table.client_id.trim().is_empty() {
        reader
            .problem(at("client_id"), "must not be empty: write the id that the issuer has for this server");
    }
    for (index, scope) in table.scopes.iter().flatten().enumerate() {
        check_scope(reader, &format!("{field}.scopes[{index}]"), scope);
    }
    let secret = match &table.client_secret {
        None => None,
        Some(secret) => Some(secret.reveal(reader, &at("client_secret"), dir)?.into()),
    };
    let default = || [&["profile".to_owned()], required_scopes].concat();
    let scopes = table.scopes.clone().unwrap_or_else(default);
    Some(SignInClient { client_id: table.client_id.clone(), secret, scopes })
}
