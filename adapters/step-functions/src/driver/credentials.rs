//! Kind and expiry of the credentials in use. It must not reveal the credentials.

use aws_credential_types::Credentials;
use aws_credential_types::credential_feature::AwsCredentialFeature as Kind;
use taskbridge_sdk::{Finding, Timestamp};

/// Reports the kind and the expiry of the credentials.
pub(crate) fn describe_credentials(credentials: &Credentials, now: Timestamp) -> Finding {
    let kinds = credentials.get_property::<Vec<Kind>>().into_iter().flatten();
    let mut kinds: Vec<&str> = kinds.filter_map(source_name).collect();
    kinds.dedup();
    let kind = if kinds.is_empty() { "from AWS's default chain".to_owned() } else { kinds.join(", then ") };
    let duration = if credentials.session_token().is_some() { "temporary" } else { "long-term" };
    let expiry = credentials.expiry().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let expiry = expiry.map(|at| Timestamp::from_millis(i64::try_from(at.as_millis()).unwrap_or(i64::MAX)));
    let message = match expiry {
        Some(at) => format!("{kind}; {duration}, until {at}"),
        None => format!("{kind}; {duration}"),
    };
    match expiry {
        Some(at) if at <= now => Finding::fault(
            "credentials",
            format!("{message}: they have expired"),
            "get new credentials (`aws sso login`)",
        ),
        _ => Finding::ok("credentials", message),
    }
}

fn source_name(kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::CredentialsEnvVars => "from the environment",
        Kind::CredentialsEnvVarsStsWebIdToken | Kind::CredentialsProfileStsWebIdToken => {
            "from a web identity"
        }
        Kind::CredentialsStsAssumeRole => "from an assumed role",
        Kind::CredentialsStsAssumeRoleWebId => "from a role assumed by a web identity",
        Kind::CredentialsProfile => "from a profile",
        Kind::CredentialsProfileSourceProfile => "from a profile's source profile",
        Kind::CredentialsProfileNamedProvider => "from the provider that a profile names",
        Kind::CredentialsProfileSso | Kind::CredentialsSso => "from single sign-on",
        Kind::CredentialsProfileProcess | Kind::CredentialsProcess => "from a program",
        Kind::CredentialsHttp => "from the container",
        Kind::CredentialsImds => "from the machine",
        Kind::CredentialsProfileLogin | Kind::CredentialsLogin => "from a login",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use taskbridge_sdk::Verdict;

    use super::*;

    /// The finding names the source and the expiry of the credentials, but no secret.
    #[test]
    fn credentials_are_described_without_secret() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let mut credentials =
            Credentials::new("AKIAID", "S3CRET", Some("T0KEN".to_owned()), Some(at(60)), "tests");
        credentials.get_property_mut_or_default::<Vec<Kind>>().push(Kind::CredentialsImds);
        let finding = describe_credentials(&credentials, Timestamp::from_millis(59_000));
        assert_eq!(
            finding,
            Finding::ok("credentials", "from the machine; temporary, until 1970-01-01T00:01:00.000Z")
        );
        let late = describe_credentials(&credentials, Timestamp::from_millis(60_000));
        assert!(late.verdict == Verdict::Fault && late.says.ends_with("they have expired"), "{late:?}");
        assert!(!format!("{finding:?}{late:?}").contains("S3CRET") && !format!("{late:?}").contains("T0KEN"));
    }
}
