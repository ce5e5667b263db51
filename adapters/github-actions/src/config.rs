//! What a config file may say about this backend and its tools. Shapes only: [`crate::check`] checks them. The comments
//! below become the config's JSON Schema.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use taskbridge_sdk::Secret;

/// Starts workflows of GitHub Actions, on github.com or a GitHub Enterprise Server.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "GithubActionsConfig")]
pub struct Config {
    /// The repository of all tools that name none themselves: `owner/name`.
    pub repository: Option<String>,
    /// A token of a user (fine-grained or classic), as it is, `{ env = "GITHUB_TOKEN" }`, or `{ file = "token" }`.
    pub token: Option<Secret>,
    /// A GitHub App to act as, in place of a token.
    pub app: Option<App>,
    /// Dispatch, cancel, run again and review with a token of the person who asked, so that GitHub names them. Nothing is done for
    /// callers of whom there is none.
    pub per_caller: Option<PerCaller>,
    /// The secret of the webhooks that GitHub posts to `/hooks/NAME` of this server, NAME being this backend's: as it is,
    /// `{ env = "NAME" }`, or `{ file = "PATH" }`. Without it, nothing is taken there.
    pub webhook_secret: Option<Secret>,
    /// The address of the API, where it is not github.com's: `https://HOST/api/v3` for a GitHub Enterprise Server.
    pub api: String,
    /// A proxy for the API, logs and artifacts, such as `http://proxy.example.com:3128`. Without it, the environment's `HTTPS_PROXY`
    /// and `NO_PROXY` are followed, unless the API is on this machine. As it is, `{ env = "NAME" }`, or `{ file = "PATH" }`.
    pub proxy: Option<Secret>,
    /// How long one call of GitHub may take. It must be shorter than half of the server's `reconciler.lease`.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub call_timeout: Duration,
    /// How often in a minute the jobs of running workflows are read, to tell how far they are. All runs of this backend
    /// share it; 0 turns progress off.
    pub progress_calls_per_minute: u16,
    /// How long a run may go on after it was asked to be cancelled, before its cancellation is forced.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub force_cancel_after: Duration,
    /// Offer the workflows of `repository` that can be dispatched as tools, whose parameters are their inputs.
    pub discover: Option<Discover>,
}

/// Which workflows are offered as tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "GithubActionsDiscover")]
pub struct Discover {
    /// The workflows' files, where `*` stands for any text: `["release.yml", "test-*"]`. Without it, all of them.
    pub workflows: Option<Vec<String>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            repository: None,
            token: None,
            app: None,
            per_caller: None,
            webhook_secret: None,
            api: "https://api.github.com".to_owned(),
            proxy: None,
            call_timeout: Duration::from_secs(6),
            progress_calls_per_minute: 30,
            force_cancel_after: Duration::from_secs(120),
            discover: None,
        }
    }
}

/// A GitHub App that is installed where the repositories are.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GithubActionsApp")]
pub struct App {
    /// The App's id.
    pub id: u64,
    /// The id of its installation: the number at the end of the installation's address.
    pub installation: u64,
    /// The App's private key in PEM: `{ file = "app.pem" }`.
    pub private_key: Secret,
}

/// The tokens of people.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GithubActionsPerCaller")]
pub struct PerCaller {
    /// Each person's, such as `{ ann = { env = "GH_ANN" }, bob = { file = "bob.token" } }`. A person is known by the name of their API
    /// key, by `certificate#NAME` of their certificate, or by `ISSUER#SUBJECT` of their token (`ISSUER#TENANT#SUBJECT` with a tenant),
    /// where `#` and `%` within a part are written as `%23` and `%25`; a client that acts for nobody else is `ISSUER#client_id=CLIENT`.
    pub tokens: BTreeMap<String, Secret>,
}

/// The workflow that a tool starts, and what it is given.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GithubActionsTarget")]
pub struct Target {
    /// The repository, where it is not the backend's: `owner/name`.
    #[serde(default)]
    pub repository: Option<String>,
    /// The workflow's file in `.github/workflows`, such as `release.yml`.
    pub workflow: String,
    /// The branch or tag to run at, such as `main`, or a template such as `{{ branch }}`. Without it, the repository's
    /// default branch.
    #[serde(default, rename = "ref")]
    pub git_ref: Option<String>,
    /// The branches and tags that a template may give, where `*` stands for any text: `["main", "release/*"]`.
    #[serde(default)]
    pub allowed_refs: Option<Vec<String>>,
    /// What the workflow's inputs are given, such as `{ version = "{{ version }}", dry_run = "false" }`. Without it, that is
    /// the tool's arguments, each to the input of its name.
    ///
    /// Text is a Jinja template (minijinja) that sees the tool's parameters by name. An input whose template is nothing but
    /// one `{{ .. }}` is left out if that parameter was not given.
    #[serde(default)]
    pub inputs: Option<BTreeMap<String, String>>,
    /// Start nothing, and follow the run that this template names, by its number or its address: `"{{ run }}"`. It must be
    /// one of the workflow. To cancel such a task leaves the run alone.
    #[serde(default)]
    pub attach: Option<String>,
    /// Run again what this template names: a run of the workflow that has ended, by its task (a parameter of `type = "task"`), its
    /// number or its address. A task, and an address that ends with `/attempts/NUMBER`, as results have it, is run again once at
    /// most, whatever is lost.
    #[serde(default)]
    pub rerun: Option<String>,
    /// With `rerun`: only the jobs that failed, and those that need them.
    #[serde(default)]
    pub only_failed: bool,
}
