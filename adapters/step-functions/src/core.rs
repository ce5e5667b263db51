//! [`StepFunctions`]: the connection that every ability of this backend shares. All that it keeps about
//! executions may be lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sfn::config::SharedCredentialsProvider;
use parking_lot::Mutex;
use taskbridge_sdk::{ConnectContext, Error, OnBehalfOf, Result};
use tokio::time::Instant;

use crate::config::Config;
use crate::driver::api::{Api, ApiResult};
use crate::driver::budget::Budget;
use crate::driver::callers::{CallerSessions, Signer};
use crate::driver::client::{self, Clients};
use crate::driver::machines::Machines;
use crate::driver::queue::Queue;
use crate::hooks::Hook;
use crate::identity::engine::Account;
use crate::store::delivered_answers::DeliveredAnswers;
use crate::store::discovery_cache::DiscoveryCache;
use crate::store::history::questions::QuestionChannels;
use crate::store::list_cache::ExecutionListCache;
use crate::store::progress::ExecutionTracker;
use crate::store::tokens::Tokens;
use crate::wakeups::{self, Reader, Sources};

/// How long a new execution may be unknown to parts of AWS.
pub(crate) const START_LAG: Duration = Duration::from_secs(60);

/// How long after its first failed read the history of an execution counts as unread.
const UNREAD_HISTORY_TTL: Duration = Duration::from_secs(600);

/// Maximum number of executions with remembered failures. Beyond it, all are forgotten.
const MAX_UNREAD_HISTORIES: usize = 10_000;

/// Step Functions as a backend.
pub(crate) struct StepFunctions {
    pub(crate) api: Arc<Api>,
    pub(crate) region: String,
    pub(crate) account: Account,
    pub(crate) machines: Machines,
    pub(crate) tracker: Arc<ExecutionTracker>,
    pub(crate) list_cache: Arc<ExecutionListCache>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) delivered_answers: DeliveredAnswers,
    pub(crate) sources: Arc<Sources>,
    /// `None` if the config names neither an activity nor a queue.
    pub(crate) reader: Option<Reader>,
    pub(crate) call_timeout: Duration,
    /// How long the server waits for a call.
    pub(crate) call_limit: Duration,
    pub(crate) discovery_cache: DiscoveryCache,
    /// `None` if the config has no hook secret.
    pub(crate) hook: Option<Hook>,
    pub(crate) settings: Settings,
    pub(crate) credentials: SharedCredentialsProvider,
    /// `None` if all calls use the bridge's own credentials.
    pub(crate) caller_sessions: Option<CallerSessions>,
    /// Recent start requests of this process, and their times.
    recent_starts: Mutex<HashMap<String, Instant>>,
    /// Ended executions whose histories could not be read, and since when.
    unread_histories: Mutex<HashMap<String, Instant>>,
}

impl StepFunctions {
    pub(crate) async fn connect(config: Config, context: &ConnectContext) -> Result<Self> {
        let Clients { step_functions, logs, queue, region, account, credentials, caller_sessions } =
            client::connect(&config, context).await?;
        if let Some(problem) =
            wakeups::check_settings(&config, &region).or_else(|| Budget::check(&config.quotas))
        {
            return Err(Error::config(problem));
        }
        let secret = config.hook_secret.clone();
        let settings = Settings::of(&config, &context.name);
        let channels =
            QuestionChannels { activities: config.activities.clone(), queue: config.queue.clone() };
        let has_channels = !channels.is_empty();
        let api =
            Arc::new(Api::new(step_functions, logs, Budget::new(&config.quotas), config.endpoint.is_some()));
        let list_cache = Arc::new(ExecutionListCache::new(config.list_every));
        let tracker =
            Arc::new(ExecutionTracker::new(config.progress_calls_per_minute, channels, list_cache.clone()));
        let tokens = Arc::<Tokens>::default();
        let sources = Arc::new(Sources {
            api: api.clone(),
            queue: config.queue.zip(queue).map(|(url, client)| Queue::new(client, url)),
            activities: config.activities,
            heartbeat: config.heartbeat,
            tokens: tokens.clone(),
            tracker: tracker.clone(),
            logged_errors: Mutex::default(),
        });
        Ok(Self {
            api,
            region,
            account,
            machines: Machines::default(),
            tokens,
            delivered_answers: DeliveredAnswers::default(),
            hook: secret.map(|secret| Hook::new(secret, tracker.clone())),
            settings,
            credentials,
            caller_sessions,
            tracker,
            list_cache,
            reader: has_channels.then(|| Reader::new(&sources)),
            sources,
            call_timeout: config.call_timeout,
            call_limit: context.call_timeout,
            discovery_cache: DiscoveryCache::new(config.discover.unwrap_or_default()),
            recent_starts: Mutex::default(),
            unread_histories: Mutex::default(),
        })
    }

    pub(crate) fn record_start(&self, arn: &str) {
        let now = Instant::now();
        let mut recent_starts = self.recent_starts.lock();
        recent_starts.retain(|_, at| now - *at < START_LAG);
        recent_starts.insert(arn.to_owned(), now);
    }

    /// Returns how long this process has failed to read the history of an ended execution, including the
    /// current attempt.
    pub(crate) fn history_unread_for(&self, arn: &str) -> Duration {
        let now = Instant::now();
        let mut unread_histories = self.unread_histories.lock();
        unread_histories.retain(|_, since| now - *since < UNREAD_HISTORY_TTL);
        if unread_histories.len() >= MAX_UNREAD_HISTORIES && !unread_histories.contains_key(arn) {
            unread_histories.clear();
        }
        now - *unread_histories.entry(arn.to_owned()).or_insert(now)
    }

    /// Returns the signer for calls on behalf of a person.
    pub(crate) async fn signer(&self, on_behalf_of: Option<&OnBehalfOf>) -> Result<Signer> {
        match &self.caller_sessions {
            Some(sessions) => sessions.signer(on_behalf_of).await,
            None => Ok(Signer::Bridge),
        }
    }

    /// Checks the result of a signed call. Drops a session that AWS rejected. An expired session becomes
    /// `Unavailable`, so that the next attempt uses another session.
    pub(crate) fn check_signed_result<T>(&self, by: &Signer, result: ApiResult<T>) -> ApiResult<T> {
        let (Some(sessions), Err(failure)) = (&self.caller_sessions, &result) else { return result };
        if failure.is_credentials_error() {
            sessions.forget(by);
        }
        result.map_err(|failure| match by {
            Signer::Person(..) if failure.is_expired_session() => failure.into_retryable(),
            _ => failure,
        })
    }

    /// Returns true if this process requested its start less than `START_LAG` ago.
    pub(crate) fn is_recent_start(&self, arn: &str) -> bool {
        self.recent_starts.lock().get(arn).is_some_and(|at| at.elapsed() < START_LAG)
    }
}

/// Parts of the config that the self-check and the IAM policies need.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) backend: String,
    /// Pattern of the names of discovered state machines, for a policy. `None` without discovery.
    pub(crate) discovery_pattern: Option<String>,
    pub(crate) filters_by_tags: bool,
    pub(crate) asks_questions: bool,
    pub(crate) activities: Vec<String>,
    pub(crate) queue: Option<String>,
    pub(crate) has_hook: bool,
    pub(crate) endpoint: Option<String>,
}

impl Settings {
    /// Returns the settings of the backend with this name.
    pub(crate) fn of(config: &Config, backend: &str) -> Self {
        let discover = config.discover.as_ref();
        Self {
            backend: backend.to_owned(),
            discovery_pattern: discover.map(|discover| format!("{}*", discover.starting_with)),
            filters_by_tags: discover.is_some_and(|discover| !discover.tags.is_empty()),
            asks_questions: !config.activities.is_empty() || config.queue.is_some(),
            activities: config.activities.clone(),
            queue: config.queue.clone(),
            has_hook: config.hook_secret.is_some(),
            endpoint: config.endpoint.clone(),
        }
    }
}
