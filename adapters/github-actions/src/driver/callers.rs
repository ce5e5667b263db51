//! Credentials of GitHub requests. With `per_caller`, a request that changes something, and the check whether
//! a person may review, use the token of the person on whose behalf it is made. Reads use the backend's own
//! credential, so that one list reports on the runs of many people. It must never use other credentials in
//! place of a person's.

use std::collections::HashMap;

use octocrab::Octocrab;
use taskbridge_sdk::{OnBehalfOf, Result};

use crate::config::Config;
use crate::driver::client;
use crate::driver::credentials::CredentialKind;
use crate::driver::limits::Limits;

/// Credential and its rate limits.
pub(crate) struct AuthenticatedClient {
    pub(crate) crab: Octocrab,
    pub(crate) limits: Limits,
}

impl AuthenticatedClient {
    pub(crate) fn new(crab: Octocrab) -> Self {
        Self { crab, limits: Limits::default() }
    }
}

/// Credentials of people, by their ids.
pub(crate) struct CallerClients(HashMap<String, (AuthenticatedClient, CredentialKind)>);

impl CallerClients {
    /// Returns `None` if all requests use the backend's own credential.
    pub(crate) fn from_config(config: &Config) -> Result<Option<Self>> {
        let Some(per_caller) = &config.per_caller else { return Ok(None) };
        // This client has no credential of its own, so a request contains the person's and no other.
        let anonymous_client = client::anonymous(config)?;
        let mut clients = HashMap::new();
        for (id, token) in &per_caller.tokens {
            let token = client::token(&format!("per_caller.tokens.{id}"), token)?;
            let kind = CredentialKind::from_token(&token);
            let crab = anonymous_client.user_access_token(token).map_err(client::client_error)?;
            clients.insert(id.clone(), (AuthenticatedClient::new(crab), kind));
        }
        Ok(Some(Self(clients)))
    }

    /// Returns all credentials with their ids.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &AuthenticatedClient, CredentialKind)> {
        self.0.iter().map(|(id, (client, kind))| (id, client, *kind))
    }

    /// Returns the credential of a person, if it is known.
    pub(crate) fn of(&self, on_behalf_of: &OnBehalfOf) -> Option<&AuthenticatedClient> {
        self.0.get(&on_behalf_of.id()).map(|(client, _)| client)
    }
}
