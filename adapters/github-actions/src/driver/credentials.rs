//! Kind of the configured credential, derived only from its prefix, and its permissions according to GitHub.
//! Pure. It must not reveal the credential.

use http::HeaderMap;
use taskbridge_sdk::{Finding, Timestamp};

use crate::config::Config;
use crate::driver::error::{header_date, header_text};

/// Page on which tokens are created.
const TOKENS_URL: &str = "https://github.com/settings/tokens";
/// How long before its expiry a token causes a warning, in seconds.
const EXPIRY_WARNING_SECONDS: i64 = 7 * 24 * 60 * 60;
/// Permissions that a credential without scopes needs.
const REQUIRED_PERMISSIONS: &str = "it needs Actions (read and write), Contents (read), Checks (read) and Deployments (write); GitHub does not report which of them it has";

/// Kind of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    Classic,
    OAuth,
    FineGrained,
    UserOfApp,
    Installation,
    App,
    Unknown,
}

impl CredentialKind {
    pub(crate) fn from_config(config: &Config) -> Self {
        if config.app.is_some() {
            return Self::App;
        }
        Self::from_token(config.token.as_ref().map(|token| token.reveal().trim()).unwrap_or_default())
    }

    /// Returns the kind of a token.
    pub(crate) fn from_token(token: &str) -> Self {
        let prefixes = [
            ("ghp_", Self::Classic),
            ("gho_", Self::OAuth),
            ("github_pat_", Self::FineGrained),
            ("ghu_", Self::UserOfApp),
            ("ghs_", Self::Installation),
        ];
        prefixes.iter().find(|(prefix, _)| token.starts_with(prefix)).map_or(Self::Unknown, |(_, kind)| *kind)
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Classic => "a classic token of a user",
            Self::OAuth => "a token of an OAuth app",
            Self::FineGrained => "a fine-grained token of a user",
            Self::UserOfApp => "a token of a user of a GitHub App",
            Self::Installation => "a token of an installation (such as GITHUB_TOKEN), which expires soon",
            Self::App => "a GitHub App, whose tokens are refreshed",
            Self::Unknown => "a token of an unknown kind",
        }
    }

    /// Returns true if it certainly acts for no user and therefore cannot review.
    pub(crate) fn has_no_user(self) -> bool {
        matches!(self, Self::App | Self::Installation)
    }

    /// Returns true if GitHub reports its permissions as scopes.
    pub(crate) fn has_scopes(self) -> bool {
        matches!(self, Self::Classic | Self::OAuth)
    }

    /// Judges the credential by GitHub's response about a repository.
    pub(crate) fn evaluate(self, headers: &HeaderMap, is_private: bool) -> Finding {
        let what = "credential";
        let description = self.describe();
        if self.has_scopes() {
            let scope_list = header_text(headers, "x-oauth-scopes").unwrap_or_default();
            let scopes: Vec<&str> =
                scope_list.split(',').map(str::trim).filter(|scope| !scope.is_empty()).collect();
            let scopes_text =
                if scopes.is_empty() { "none".to_owned() } else { format!("`{}`", scopes.join("`, `")) };
            let is_sufficient = scopes.contains(&"repo") || (!is_private && scopes.contains(&"public_repo"));
            if !is_sufficient {
                let message = format!("{description} with the scopes {scopes_text}: it lacks `repo`");
                return Finding::fault(what, message, format!("give it the scope `repo` at {TOKENS_URL}"));
            }
            return expiry_warning(headers).unwrap_or_else(|| {
                Finding::ok(what, format!("{description} with the scopes {scopes_text}"))
            });
        }
        expiry_warning(headers)
            .unwrap_or_else(|| Finding::ok(what, format!("{description}: {REQUIRED_PERMISSIONS}")))
    }
}

/// Returns a warning if the token expires within `EXPIRY_WARNING_SECONDS`.
fn expiry_warning(headers: &HeaderMap) -> Option<Finding> {
    let expiry = header_text(headers, "github-authentication-token-expiration")?;
    let expires_at = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", expiry.get(..19)?).ok()?;
    let expires_at = expires_at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let remaining_seconds = expires_at.as_second() - server_time(headers)?.as_millis() / 1000;
    let warning = Finding::warning(
        "credential",
        format!("the token expires at {expiry}"),
        "create a new one and put it into the config; the running server reads it again",
    );
    (remaining_seconds < EXPIRY_WARNING_SECONDS).then_some(warning)
}

/// Returns the time at GitHub.
pub(crate) fn server_time(headers: &HeaderMap) -> Option<Timestamp> {
    header_date(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskbridge_sdk::Verdict;

    fn evaluate(token: &str, pairs: &[(&'static str, &str)], is_private: bool) -> Finding {
        let config = Config { token: Some(token.into()), ..Config::default() };
        let headers =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        CredentialKind::from_config(&config).evaluate(&headers, is_private)
    }

    /// The finding names the kind of the token and the scopes that it lacks, but not the token.
    #[test]
    fn token_finding_names_kind_and_gaps() {
        let scopes = |scopes: &'static str| [("x-oauth-scopes", scopes)];
        let sufficient = evaluate("ghp_s3cret", &scopes("repo, workflow"), true);
        assert_eq!(
            sufficient,
            Finding::ok("credential", "a classic token of a user with the scopes `repo`, `workflow`")
        );
        let insufficient = evaluate("ghp_s3cret", &scopes("read:org, public_repo"), true);
        assert_eq!(
            (insufficient.verdict, insufficient.says.ends_with("lacks `repo`")),
            (Verdict::Fault, true)
        );
        assert_eq!(evaluate("ghp_s3cret", &scopes("public_repo"), false).verdict, Verdict::Ok);
        let fine_grained = evaluate("github_pat_s3cret", &[], true);
        assert!(
            fine_grained.says.starts_with("a fine-grained token of a user: it needs Actions"),
            "{fine_grained:?}"
        );
        for finding in [sufficient, insufficient, fine_grained, evaluate("s3cret", &[], false)] {
            assert!(!format!("{finding:?}").contains("s3cret"), "{finding:?}");
        }
    }

    /// A token that expires in three days is a warning. One that expires in a month is not.
    #[test]
    fn token_near_expiry_is_warning() {
        let verdict_at = |at: &'static str| {
            let pairs =
                [("github-authentication-token-expiration", at), ("date", "Sun, 22 Nov 2026 06:00:00 GMT")];
            evaluate("github_pat_s3cret", &pairs, true).verdict
        };
        assert_eq!(verdict_at("2026-11-25 00:00:00 UTC"), Verdict::Warning);
        assert_eq!(verdict_at("2026-12-25 00:00:00 UTC"), Verdict::Ok);
    }
}
