//! Config of this backend and its tools. It only defines shapes, which [`crate::check::target`] validates.
//! The comments below become the descriptions in the config's JSON Schema.

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
    /// A token of a user (fine-grained or classic): the text itself, `{ env = "GITHUB_TOKEN" }`, or `{ file =
    /// "token" }`.
    pub token: Option<Secret>,
    /// A GitHub App to act as, instead of a token.
    pub app: Option<App>,
    /// Dispatch, cancel, rerun and review with a token of the person who asked, so that GitHub names them.
    /// Requests of callers without a token are refused.
    pub per_caller: Option<PerCaller>,
    /// The secret of the webhooks that GitHub posts to `/hooks/NAME` of this server, where NAME is this
    /// backend's name. Give the text itself, `{ env = "NAME" }`, or `{ file = "PATH" }`. Without it, the hook
    /// is off.
    pub webhook_secret: Option<Secret>,
    /// The address of the API, if it is not that of github.com: `https://HOST/api/v3` for a GitHub Enterprise
    /// Server.
    pub api: String,
    /// A proxy for the API, logs and artifacts, such as `http://proxy.example.com:3128`: the text itself, `{
    /// env = "NAME" }`, or `{ file = "PATH" }`. The default is the environment's `HTTPS_PROXY` and
    /// `NO_PROXY`, unless the API is on this machine.
    pub proxy: Option<Secret>,
    /// Timeout of one GitHub call. It must be shorter than half of the server's `reconciler.lease`.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub call_timeout: Duration,
    /// How many times per minute the jobs of watched, running workflows are read, to report their progress.
    /// All runs of this backend share this limit; 0 turns progress off.
    pub progress_calls_per_minute: u16,
    /// How long a run may continue after a cancellation request, before the cancellation is forced.
    #[serde(with = "humantime_serde")]
    #[schemars(with = "String")]
    pub force_cancel_after: Duration,
    /// Offer the workflows of `repository` that can be dispatched as tools, with their inputs as parameters.
    pub discover: Option<Discover>,
}

/// Which workflows are offered as tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "GithubActionsDiscover")]
pub struct Discover {
    /// The files of the workflows, where `*` matches any text: `["release.yml", "test-*"]`. The default is
    /// all of them.
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
    /// The id of the App.
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
    /// The token of each person, such as `{ ann = { env = "GH_ANN" }, bob = { file = "bob.token" } }`. A
    /// person is identified by the name of their API key, by `certificate#NAME` of their certificate, or by
    /// `ISSUER#SUBJECT` of their token (`ISSUER#TENANT#SUBJECT` with a tenant). In each part, `#` and `%` are
    /// written as `%23` and `%25`. A client that acts for itself is `ISSUER#client_id=CLIENT`.
    pub tokens: BTreeMap<String, Secret>,
}

/// The workflow that a tool starts, and its inputs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GithubActionsTarget")]
pub struct Target {
    /// The repository, if it is not the backend's: `owner/name`.
    #[serde(default)]
    pub repository: Option<String>,
    /// The workflow's file in `.github/workflows`, such as `release.yml`.
    pub workflow: String,
    /// The branch or tag to run at, such as `main`, or a template such as `{{ branch }}`. The default is the
    /// repository's default branch.
    #[serde(default, rename = "ref")]
    pub git_ref: Option<String>,
    /// The branches and tags that a template may produce, where `*` matches any text: `["main",
    /// "release/*"]`.
    #[serde(default)]
    pub allowed_refs: Option<Vec<String>>,
    /// The inputs of the workflow, such as `{ version = "{{ version }}", dry_run = "false" }`. The default is
    /// the tool's arguments, each as the input of its name.
    ///
    /// Text is a Jinja template (minijinja) that can use the tool's parameters by name. An input whose
    /// template is a single `{{ .. }}` is omitted if that parameter was not given.
    #[serde(default)]
    pub inputs: Option<BTreeMap<String, String>>,
    /// Start nothing, and follow the run that this template names, by its number or its address: `"{{ run
    /// }}"`. It must belong to the workflow. Cancelling such a task does not stop the run.
    #[serde(default)]
    pub attach: Option<String>,
    /// Rerun what this template names: an ended run of the workflow, by its task (a parameter of `type =
    /// "task"`), its number or its address. A task, or an address that ends with `/attempts/NUMBER` as in
    /// results, is rerun at most once, even if a response is lost.
    #[serde(default)]
    pub rerun: Option<String>,
    /// With `rerun`: only the failed jobs, and those that need them.
    #[serde(default)]
    pub only_failed: bool,
}
