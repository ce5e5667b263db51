//! Identity of this backend: the account and the region. All sources report the same account, so it does not
//! matter which one answers first. It must not call AWS.

use std::sync::OnceLock;

use crate::config::Config;

/// Region, with the account or, for an AWS emulator, its address.
pub(crate) struct Account {
    region: String,
    /// Host of an endpoint without TLS. AWS has no such endpoints, and emulators all use the same account
    /// number.
    emulator_host: Option<String>,
    id: OnceLock<String>,
}

impl Account {
    /// Derives the account from the config. `endpoint` is the address of Step Functions, unless it is the
    /// region's default.
    pub(crate) fn new(config: &Config, region: &str, endpoint: Option<&str>) -> Self {
        let host = |url: &str| {
            let host = url.strip_prefix("http://")?.split('/').next().unwrap_or_default();
            Some(host.rsplit('@').next().unwrap_or_default().to_owned())
        };
        let account =
            Self { region: region.to_owned(), emulator_host: endpoint.and_then(host), id: OnceLock::new() };
        // A queue may belong to another account; these cannot.
        let role = config.assume_role.as_ref().map(|role| &role.role_arn);
        let caller_role = config.per_caller.as_ref().map(|per_caller| &per_caller.role_arn);
        role.into_iter()
            .chain(caller_role)
            .chain(&config.activities)
            .for_each(|arn| account.learn_from_arn(arn));
        account
    }

    /// Stores the account in an ARN. The first account stays.
    pub(crate) fn learn_from_arn(&self, arn: &str) {
        if let Some(id) = arn.strip_prefix("arn:").and_then(|rest| rest.split(':').nth(3)) {
            self.learn(id);
        }
    }

    /// Stores the account id. The first id stays.
    pub(crate) fn learn(&self, id: &str) {
        if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
            let _ = self.id.set(id.to_owned());
        }
    }

    /// Returns the identity, or `None` until the account is known.
    pub(crate) fn identity(&self) -> Option<String> {
        let location = self.emulator_host.as_ref().or_else(|| self.id.get())?;
        Some(format!("step-functions {location}/{}", self.region))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn account(config: Value, endpoint: Option<&str>) -> Account {
        Account::new(&serde_json::from_value(config).unwrap(), "eu-west-1", endpoint)
    }

    fn identity(config: Value) -> Option<String> {
        account(config, None).identity()
    }

    #[test]
    fn identity_is_account_and_region() {
        let expected = "step-functions 123456789012/eu-west-1";
        for config in [
            json!({"assume_role": {"role_arn": "arn:aws:iam::123456789012:role/a"}}),
            json!({"assume_role": {"role_arn": "arn:aws:iam::123456789012:role/b", "external_id": "S3CRET"}, "profile": "p"}),
            json!({"per_caller": {"role_arn": "arn:aws:iam::123456789012:role/people"}}),
            json!({"activities": ["arn:aws:states:eu-west-1:123456789012:activity:ask"]}),
        ] {
            assert_eq!(identity(config).as_deref(), Some(expected));
        }
        let other = json!({"assume_role": {"role_arn": "arn:aws:iam::210987654321:role/a"}});
        assert_eq!(identity(other).as_deref(), Some("step-functions 210987654321/eu-west-1"));
    }

    /// The URL of a queue does not determine the account, because a queue may belong to another account.
    #[test]
    fn unknown_account_is_learned_once() {
        let account = account(json!({"queue": "https://sqs.eu-west-1.amazonaws.com/5/q"}), None);
        assert_eq!(account.identity(), None);
        account.learn_from_arn("arn:aws:states:eu-west-1:123456789012:execution:m:n");
        account.learn("5");
        assert_eq!(account.identity().unwrap(), "step-functions 123456789012/eu-west-1");
    }

    #[test]
    fn standin_is_known_by_address() {
        let activity = json!({"activities": ["arn:aws:states:eu-west-1:1:activity:ask"]});
        let emulator = account(activity.clone(), Some("http://id:S3CRET@localhost:4566/"));
        assert_eq!(emulator.identity().unwrap(), "step-functions localhost:4566/eu-west-1");
        let endpoint = account(activity, Some("https://vpce-1.states.eu-west-1.vpce.amazonaws.com"));
        assert_eq!(endpoint.identity().unwrap(), "step-functions 1/eu-west-1");
    }
}
