//! What kind of credential the config holds, told by its prefix alone, and what GitHub says that it may. Pure. It must not show
//! the credential.

use http::HeaderMap;
use taskbridge_sdk::{Finding, Timestamp};

use crate::config::Config;
use crate::failure::{date, text};

/// Where tokens are made.
const CLASSIC: &str = "https://github.com/settings/tokens";
/// For how long before its end a token is worth a warning.
const SOON: i64 = 7 * 24 * 60 * 60;
/// What a token that names its permissions needs.
const NEEDED: &str = "it needs Actions (read and write), Contents (read), Checks (read) and Deployments (write), and GitHub does not tell what it has";

/// A kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    Classic,
    OAuth,
    FineGrained,
    UserOfApp,
    Installation,
    App,
    Unknown,
}

impl Credential {
    pub(crate) fn of(config: &Config) -> Self {
        if config.app.is_some() {
            return Self::App;
        }
        Self::of_token(config.token.as_ref().map(|token| token.reveal().trim()).unwrap_or_default())
    }

    /// The kind of a token.
    pub(crate) fn of_token(token: &str) -> Self {
        let prefixes = [
            ("ghp_", Self::Classic),
            ("gho_", Self::OAuth),
            ("github_pat_", Self::FineGrained),
            ("ghu_", Self::UserOfApp),
            ("ghs_", Self::Installation),
        ];
        prefixes.iter().find(|(prefix, _)| token.starts_with(prefix)).map_or(Self::Unknown, |(_, kind)| *kind)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Classic => "a classic token of a user",
            Self::OAuth => "a token of an OAuth app",
            Self::FineGrained => "a fine-grained token of a user",
            Self::UserOfApp => "a token of a user of a GitHub App",
            Self::Installation => "a token of an installation (such as GITHUB_TOKEN), which ends soon",
            Self::App => "a GitHub App, whose tokens are refreshed",
            Self::Unknown => "a token of a kind that this server does not know",
        }
    }

    /// True if it acts for no user, and so gives no reviews.
    pub(crate) fn is_no_user(self) -> bool {
        matches!(self, Self::App | Self::Installation)
    }

    /// True if GitHub tells by scopes what it may.
    pub(crate) fn has_scopes(self) -> bool {
        matches!(self, Self::Classic | Self::OAuth)
    }

    /// What an answer about a repository says of it.
    pub(crate) fn judge(self, headers: &HeaderMap, is_private: bool) -> Finding {
        let what = "credential";
        let words = self.words();
        if self.has_scopes() {
            let listed = text(headers, "x-oauth-scopes").unwrap_or_default();
            let scopes: Vec<&str> =
                listed.split(',').map(str::trim).filter(|scope| !scope.is_empty()).collect();
            let said =
                if scopes.is_empty() { "none".to_owned() } else { format!("`{}`", scopes.join("`, `")) };
            let is_enough = scopes.contains(&"repo") || (!is_private && scopes.contains(&"public_repo"));
            if !is_enough {
                let says = format!("{words} with the scopes {said}: it lacks `repo`");
                return Finding::fault(what, says, format!("give it the scope `repo` at {CLASSIC}"));
            }
            return ending(headers)
                .unwrap_or_else(|| Finding::ok(what, format!("{words} with the scopes {said}")));
        }
        ending(headers).unwrap_or_else(|| Finding::ok(what, format!("{words}: {NEEDED}")))
    }
}

/// A warning if the token ends soon.
fn ending(headers: &HeaderMap) -> Option<Finding> {
    let ends = text(headers, "github-authentication-token-expiration")?;
    let moment = jiff::civil::DateTime::strptime("%Y-%m-%d %H:%M:%S", ends.get(..19)?).ok()?;
    let moment = moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    let left = moment.as_second() - now(headers)?.as_millis() / 1000;
    let soon = Finding::warning(
        "credential",
        format!("the token ends at {ends}"),
        "make a new one, and put it into the config: it is read again while the server runs",
    );
    (left < SOON).then_some(soon)
}

/// GitHub's own time.
pub(crate) fn now(headers: &HeaderMap) -> Option<Timestamp> {
    date(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskbridge_sdk::Verdict;

    fn judged(token: &str, pairs: &[(&'static str, &str)], is_private: bool) -> Finding {
        let config = Config { token: Some(token.into()), ..Config::default() };
        let headers =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Credential::of(&config).judge(&headers, is_private)
    }

    #[test]
    fn a_token_is_told_by_its_kind_and_by_what_it_lacks() {
        let scopes = |scopes: &'static str| [("x-oauth-scopes", scopes)];
        let right = judged("ghp_s3cret", &scopes("repo, workflow"), true);
        assert_eq!(
            right,
            Finding::ok("credential", "a classic token of a user with the scopes `repo`, `workflow`")
        );
        let lacks = judged("ghp_s3cret", &scopes("read:org, public_repo"), true);
        assert_eq!((lacks.verdict, lacks.says.ends_with("lacks `repo`")), (Verdict::Fault, true));
        assert_eq!(judged("ghp_s3cret", &scopes("public_repo"), false).verdict, Verdict::Ok);
        let fine = judged("github_pat_s3cret", &[], true);
        assert!(fine.says.starts_with("a fine-grained token of a user: it needs Actions"), "{fine:?}");
        for finding in [right, lacks, fine, judged("s3cret", &[], false)] {
            assert!(!format!("{finding:?}").contains("s3cret"), "{finding:?}");
        }
    }

    #[test]
    fn a_token_that_ends_soon_is_a_warning() {
        let ends = |at: &'static str| {
            let pairs =
                [("github-authentication-token-expiration", at), ("date", "Sun, 22 Nov 2026 06:00:00 GMT")];
            judged("github_pat_s3cret", &pairs, true).verdict
        };
        assert_eq!(ends("2026-11-25 00:00:00 UTC"), Verdict::Warning);
        assert_eq!(ends("2026-12-25 00:00:00 UTC"), Verdict::Ok);
    }
}
