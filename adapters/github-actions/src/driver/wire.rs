//! Responses of GitHub, as far as they are used. Statuses and conclusions are plain text that may be missing
//! or new, so an unknown one causes no error. Plain data.

use serde::Deserialize;
use taskbridge_sdk::Timestamp;

/// Run of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) status: Option<String>,
    pub(crate) conclusion: Option<String>,
    pub(crate) run_attempt: Option<u64>,
    pub(crate) display_title: Option<String>,
    pub(crate) head_branch: Option<String>,
    pub(crate) html_url: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) run_started_at: Option<String>,
    pub(crate) updated_at: Option<String>,
}

/// Page of runs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Runs {
    pub(crate) workflow_runs: Vec<Run>,
}

/// Job of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) status: Option<String>,
    pub(crate) conclusion: Option<String>,
    pub(crate) html_url: Option<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) steps: Option<Vec<Step>>,
}

impl Job {
    pub(crate) fn steps(&self) -> &[Step] {
        self.steps.as_deref().unwrap_or_default()
    }
}

/// Step of a job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) status: Option<String>,
    pub(crate) conclusion: Option<String>,
}

/// Page of jobs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Jobs {
    pub(crate) total_count: usize,
    pub(crate) jobs: Vec<Job>,
}

/// Annotation of a file by a job.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Annotation {
    pub(crate) path: Option<String>,
    pub(crate) start_line: Option<u64>,
    pub(crate) annotation_level: Option<String>,
    pub(crate) message: Option<String>,
}

/// Artifact of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Artifact {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) size_in_bytes: u64,
    #[serde(default)]
    pub(crate) expired: bool,
    #[serde(default)]
    pub(crate) created_at: Option<String>,
}

/// Page of artifacts.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Artifacts {
    pub(crate) artifacts: Vec<Artifact>,
}

/// Environment that a run waits for.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PendingDeployment {
    pub(crate) environment: Environment,
    #[serde(default)]
    pub(crate) wait_timer: u64,
    #[serde(default)]
    pub(crate) wait_timer_started_at: Option<String>,
    #[serde(default)]
    pub(crate) current_user_can_approve: bool,
    #[serde(default)]
    pub(crate) reviewers: Vec<Reviewer>,
}

/// Environment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Environment {
    pub(crate) id: u64,
    pub(crate) name: String,
}

/// Permitted reviewer: a user or a team.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Reviewer {
    #[serde(default)]
    pub(crate) reviewer: UserOrTeam,
}

/// User by login, or team by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserOrTeam {
    pub(crate) login: Option<String>,
    pub(crate) name: Option<String>,
}

/// Review that was given.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Review {
    pub(crate) state: String,
    pub(crate) comment: Option<String>,
    pub(crate) user: Option<UserOrTeam>,
    #[serde(default)]
    pub(crate) environments: Vec<Environment>,
}

/// File in a repository.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) content: String,
}

/// Workflow in the list of a repository.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ListedWorkflow {
    pub(crate) path: String,
    pub(crate) state: String,
}

/// Page of workflows.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Workflows {
    pub(crate) workflows: Vec<ListedWorkflow>,
}

/// Repository.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Repository {
    pub(crate) id: u64,
    #[serde(default)]
    pub(crate) full_name: String,
    pub(crate) default_branch: String,
    #[serde(default)]
    pub(crate) private: bool,
    /// Permissions of the token's user.
    #[serde(default)]
    pub(crate) permissions: Option<RepositoryPermissions>,
}

/// Permissions of a user in a repository.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RepositoryPermissions {
    #[serde(default)]
    pub(crate) push: bool,
}

/// Environment with its protection rules.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ProtectedEnvironment {
    #[serde(default)]
    pub(crate) protection_rules: Vec<Rule>,
}

impl ProtectedEnvironment {
    pub(crate) fn requires_review(&self) -> bool {
        self.protection_rules.iter().any(|rule| rule.kind == "required_reviewers")
    }
}

/// Protection rule of an environment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rule {
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// Webhook of a repository.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Webhook {
    pub(crate) active: bool,
    pub(crate) events: Vec<String>,
    pub(crate) config: WebhookConfig,
    pub(crate) last_response: LastResponse,
}

/// Address and format of a webhook.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WebhookConfig {
    pub(crate) url: Option<String>,
    pub(crate) content_type: Option<String>,
}

/// Result of a webhook's last delivery.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LastResponse {
    pub(crate) code: Option<u16>,
}

/// Response to a dispatch, if GitHub returns the run id.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct DispatchResponse {
    pub(crate) workflow_run_id: u64,
}

/// Error response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorResponse {
    pub(crate) message: String,
}

/// Parses a time of GitHub.
pub(crate) fn parse_time(text: Option<&str>) -> Option<Timestamp> {
    let time: jiff::Timestamp = text?.parse().ok()?;
    Some(Timestamp::from_millis(time.as_millisecond()))
}
