//! Check that the role of `per_caller` can be assumed, and the trust policy for it. The check assumes the
//! role in a session of its own. [`crate::check::permissions`] tries the permissions of people with that
//! session.

use serde_json::{Value, json};
use taskbridge_sdk::Finding;

use crate::check::policy::Policy;
use crate::config::PerCaller;
use crate::driver::callers::{CallerSessions, Signer};

/// Placeholder for the bridge's identity if AWS did not return it.
pub(crate) const UNKNOWN_BRIDGE: &str = "THE ARN OF THE BRIDGE'S OWN USER OR ROLE";

/// Returns the findings, and the session if the role can be assumed.
pub(crate) async fn check_role(sessions: &CallerSessions) -> (Vec<Finding>, Option<Signer>) {
    let (subject, role) = ("per_caller", &sessions.config.role_arn);
    match sessions.checkup_signer().await {
        Ok(signer) => {
            let keys: Vec<&str> = sessions.config.session_tags.keys().map(String::as_str).collect();
            let tags = match keys.is_empty() {
                true => "no tags".to_owned(),
                false => format!("the tags `{}`", keys.join("`, `")),
            };
            let message = format!("`{role}` can be assumed, in a session for each person, with {tags}");
            (vec![Finding::ok(subject, message)], Some(signer))
        }
        Err(error) => {
            let message = format!("`{role}` cannot be assumed: {error}");
            let fix = "create the role with the trust policy below, and allow its actions to the bridge's own credentials";
            let trust = format!("{:#}", trust_policy(&bridge_identity(sessions).await, &sessions.config));
            let trust_finding =
                Finding { fix: Some(trust), ..Finding::ok("trust policy", format!("required by `{role}`")) };
            (vec![Finding::fault(subject, message, fix), trust_finding], None)
        }
    }
}

/// Adds the permissions to assume the role to the policy of the bridge's own credentials.
pub(crate) fn allow(config: &PerCaller, policy: &mut Policy) {
    for action in actions(config) {
        policy.allow(action, config.role_arn.as_str());
    }
}

fn actions(config: &PerCaller) -> Vec<&'static str> {
    let mut actions = vec!["sts:AssumeRole"];
    if !config.session_tags.is_empty() {
        actions.push("sts:TagSession");
    }
    if config.source_identity {
        actions.push("sts:SetSourceIdentity");
    }
    actions
}

pub(crate) fn trust_policy(bridge: &str, config: &PerCaller) -> Value {
    let mut statement = json!({"Effect": "Allow", "Principal": {"AWS": bridge}, "Action": actions(config)});
    if let Some(id) = &config.external_id {
        statement["Condition"] = json!({"StringEquals": {"sts:ExternalId": id}});
    }
    json!({"Version": "2012-10-17", "Statement": [statement]})
}

/// Returns the bridge's identity as a trust policy names it.
async fn bridge_identity(sessions: &CallerSessions) -> String {
    sessions.bridge_arn().await.map_or_else(|| UNKNOWN_BRIDGE.to_owned(), |arn| role_of_session(&arn))
}

/// Returns the ARN of the role that a session assumed. Returns any other ARN unchanged.
fn role_of_session(arn: &str) -> String {
    let parts: Vec<&str> = arn.split([':', '/']).collect();
    match parts[..] {
        ["arn", partition, "sts", "", account, "assumed-role", role, _] => {
            format!("arn:{partition}:iam::{account}:role/{role}")
        }
        _ => arn.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trust policy names the role of an assumed session and the actions that the config needs.
    #[test]
    fn trust_policy_names_role_of_session() {
        let per_caller = |extra: Value| {
            let mut config = json!({"role_arn": "arn:aws:iam::1:role/people"});
            config.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            serde_json::from_value(config).unwrap()
        };
        let bridge = role_of_session("arn:aws-cn:sts::12:assumed-role/bridge/i-07");
        assert_eq!(bridge, "arn:aws-cn:iam::12:role/bridge");
        assert_eq!(role_of_session("arn:aws:iam::12:user/bridge"), "arn:aws:iam::12:user/bridge");
        let plain = trust_policy(&bridge, &per_caller(json!({"source_identity": false})));
        assert_eq!(plain["Statement"][0]["Action"], json!(["sts:AssumeRole"]));
        let all = json!({"external_id": "x-7", "session_tags": {"user": "{{ name }}"}});
        let all = &trust_policy(&bridge, &per_caller(all))["Statement"][0];
        assert_eq!(all["Action"], json!(["sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"]));
        assert_eq!(all["Condition"]["StringEquals"]["sts:ExternalId"], "x-7");
        assert_eq!(all["Principal"]["AWS"], bridge);
    }
}
