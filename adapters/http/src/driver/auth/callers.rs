//! [`Callers`]: credentials of people. It must never use other credentials in place of a person's.

use std::collections::HashMap;

use taskbridge_sdk::{OnBehalfOf, Secret};

use super::credential::Credential;
use super::fixed::{self, FixedHeader};
use crate::config::auth::{AuthConfig, Header, Invalid, Kind, PerCaller};

/// Credentials of people, by their ids ([`OnBehalfOf::id`]).
pub(super) struct Callers(HashMap<String, FixedHeader>);

impl Callers {
    pub(super) fn new(own: &AuthConfig, per_caller: &PerCaller) -> Result<Self, Invalid> {
        let kind = own.kind()?;
        let mut all = HashMap::new();
        for (id, token) in &per_caller.tokens {
            let field = format!("per_caller.tokens.{id}");
            let credential = match &kind {
                None | Some(Kind::Bearer(_)) => fixed::bearer(&field, token)?,
                Some(Kind::Basic(_)) => user_and_password(&field, token)?,
                Some(Kind::Header(Header { name, .. })) => fixed::header(&field, name, token)?,
                Some(_) => {
                    let message = "needs `auth.bearer`, `auth.basic` or `auth.header`: the other kinds of `auth` have one identity";
                    return Err(Invalid::new("per_caller", message));
                }
            };
            all.insert(id.clone(), credential);
        }
        Ok(Self(all))
    }

    pub(super) fn of(&self, person: &OnBehalfOf) -> Option<&dyn Credential> {
        self.0.get(&person.id()).map(|credential| credential as _)
    }
}

fn user_and_password(field: &str, secret: &Secret) -> Result<FixedHeader, Invalid> {
    let Some((user, password)) = secret.reveal().split_once(':') else {
        return Err(Invalid::new(field, "has no colon: with `auth.basic`, write USER:PASSWORD"));
    };
    fixed::basic(field, user, &Secret::from(password))
}
