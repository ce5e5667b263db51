//! Connected backend that the server calls. All that it keeps about executions may be lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sfn::config::SharedCredentialsProvider;
use parking_lot::Mutex;
use taskbridge_sdk::{
    Backend, Checkup, Connect, Discovery, Error, GroupKey, Hooks, JobHandle, JobSpec, Logs, Observation,
    OnBehalfOf, Questions, Result, Started, Subject, Wakeups, async_trait,
};
use tokio::time::Instant;

use crate::account::Account;
use crate::answer::DeliveredAnswers;
use crate::api::{Api, ApiResult};
use crate::arn::ExecutionArn;
use crate::budget::Budget;
use crate::caller_credentials::{CallerSessions, Signer};
use crate::check;
use crate::checkup::Settings;
use crate::client::{self, Clients};
use crate::config::Config;
use crate::discovery::DiscoveryCache;
use crate::hooks::Hook;
use crate::list_cache::ExecutionListCache;
use crate::machines::Machines;
use crate::progress::ExecutionTracker;
use crate::question_history::QuestionChannels;
use crate::queue::Queue;
use crate::reader::{Reader, Sources};
use crate::state::{STOPPED_CAUSE, STOPPED_ERROR};
use crate::tokens::Tokens;

/// How long a new execution may be unknown to parts of AWS.
const YOUNG: Duration = Duration::from_secs(60);

/// How long after its first failed read the history of an execution counts as unread.
const UNREAD: Duration = Duration::from_secs(600);

/// Maximum number of executions with remembered failures. Beyond it, all are forgotten.
const MOST_UNREAD: usize = 10_000;

/// Step Functions as a backend.
pub(crate) struct StepFunctions {
    pub(crate) api: Arc<Api>,
    pub(crate) region: String,
    pub(crate) account: Account,
    pub(crate) machines: Machines,
    pub(crate) watch: Arc<ExecutionTracker>,
    pub(crate) lists: Arc<ExecutionListCache>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) given: DeliveredAnswers,
    pub(crate) sources: Arc<Sources>,
    /// `None` if the config names neither an activity nor a queue.
    reader: Option<Reader>,
    pub(crate) call_timeout: Duration,
    /// How long the server waits for a call.
    pub(crate) call_limit: Duration,
    pub(crate) offers: DiscoveryCache,
    /// `None` if the config has no hook secret.
    hook: Option<Hook>,
    pub(crate) settings: Settings,
    pub(crate) credentials: SharedCredentialsProvider,
    /// `None` if all calls use the bridge's own credentials.
    pub(crate) persons: Option<CallerSessions>,
    /// Recent start requests of this process, and their times.
    started: Mutex<HashMap<String, Instant>>,
    /// Ended executions whose histories could not be read, and since when.
    unread: Mutex<HashMap<String, Instant>>,
}

impl StepFunctions {
    pub(crate) async fn connect(config: Config, context: &Connect) -> Result<Self> {
        let Clients { steps, logs, queue, region, account, credentials, persons } =
            client::connect(&config, context).await?;
        if let Some(wrong) = check::ways(&config, &region).or_else(|| Budget::check(&config.quotas)) {
            return Err(Error::config(wrong));
        }
        let secret = config.hook_secret.clone();
        let settings = Settings::of(&config, &context.name);
        let ways = QuestionChannels { activities: config.activities.clone(), queue: config.queue.clone() };
        let reads = !ways.are_closed();
        let api = Arc::new(Api::new(steps, logs, Budget::new(&config.quotas), config.endpoint.is_some()));
        let lists = Arc::new(ExecutionListCache::new(config.list_every));
        let watch = Arc::new(ExecutionTracker::new(config.progress_calls_per_minute, ways, lists.clone()));
        let tokens = Arc::<Tokens>::default();
        let sources = Arc::new(Sources {
            api: api.clone(),
            queue: config.queue.zip(queue).map(|(url, client)| Queue::new(client, url)),
            activities: config.activities,
            heartbeat: config.heartbeat,
            tokens: tokens.clone(),
            watch: watch.clone(),
            troubles: Mutex::default(),
        });
        Ok(Self {
            api,
            region,
            account,
            machines: Machines::default(),
            tokens,
            given: DeliveredAnswers::default(),
            hook: secret.map(|secret| Hook::new(secret, watch.clone())),
            settings,
            credentials,
            persons,
            watch,
            lists,
            reader: reads.then(|| Reader::new(&sources)),
            sources,
            call_timeout: config.call_timeout,
            call_limit: context.call_limit,
            offers: DiscoveryCache::new(config.discover.unwrap_or_default()),
            started: Mutex::default(),
            unread: Mutex::default(),
        })
    }

    pub(crate) fn note_start(&self, arn: &str) {
        let now = Instant::now();
        let mut started = self.started.lock();
        started.retain(|_, at| now - *at < YOUNG);
        started.insert(arn.to_owned(), now);
    }

    /// Returns how long this process has failed to read the history of an ended execution, including the
    /// current attempt.
    pub(crate) fn history_unread_for(&self, arn: &str) -> Duration {
        let now = Instant::now();
        let mut unread = self.unread.lock();
        unread.retain(|_, since| now - *since < UNREAD);
        if unread.len() >= MOST_UNREAD && !unread.contains_key(arn) {
            unread.clear();
        }
        now - *unread.entry(arn.to_owned()).or_insert(now)
    }

    /// Returns the signer for calls on behalf of a person.
    pub(crate) async fn signer(&self, whom: Option<&OnBehalfOf>) -> Result<Signer> {
        match &self.persons {
            Some(persons) => persons.signer(whom).await,
            None => Ok(Signer::Own),
        }
    }

    /// Checks the result of a signed call. Drops a session that AWS rejected. An expired session becomes
    /// `Unavailable`, so that the next attempt uses another session.
    pub(crate) fn signed<T>(&self, by: &Signer, answer: ApiResult<T>) -> ApiResult<T> {
        let (Some(persons), Err(failure)) = (&self.persons, &answer) else { return answer };
        if failure.is_of_credentials() {
            persons.forget(by);
        }
        answer.map_err(|failure| match by {
            Signer::Person(..) if failure.is_of_an_ended_session() => failure.until_the_next_session(),
            _ => failure,
        })
    }

    /// Returns true if this process requested its start less than `YOUNG` ago.
    pub(crate) fn is_young(&self, arn: &str) -> bool {
        self.started.lock().get(arn).is_some_and(|at| at.elapsed() < YOUNG)
    }
}

#[async_trait]
impl Backend for StepFunctions {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        self.begin(job).await
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        self.find_job(job).await
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        self.poll_execution(handle, true).await
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        self.cancel_for(handle, None).await
    }

    async fn cancel_for(&self, handle: &JobHandle, whom: Option<&OnBehalfOf>) -> Result<()> {
        let stoppable = |arn: &ExecutionArn<'_>| !arn.is_express() && !arn.is_attached();
        let Some(arn) = ExecutionArn::parse(handle).filter(stoppable) else { return Ok(()) };
        let by = self.signer(whom).await?;
        self.lists.mark_changed(arn.as_str(), Instant::now());
        let asked = self.api.stop(&by, arn.as_str(), STOPPED_ERROR, STOPPED_CAUSE).await;
        match self.signed(&by, asked) {
            Ok(()) => Ok(()),
            Err(failure) if failure.is("ExecutionDoesNotExist") => Ok(()),
            // Step Functions may refuse to stop an execution that has ended.
            Err(failure) if failure.is("ValidationException") && self.has_ended(&arn).await => Ok(()),
            Err(failure) => Err(failure.into()),
        }
    }

    fn start_lag(&self) -> Duration {
        YOUNG
    }

    /// Groups executions by state machine: one list reports on all of them.
    fn group(&self, handle: &JobHandle) -> GroupKey {
        GroupKey::new(ExecutionArn::parse(handle).map(|arn| arn.machine()).unwrap_or_default())
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        self.poll_group(group, jobs).await
    }

    fn questions(&self) -> Option<&dyn Questions> {
        self.reader.as_ref().map(|_| self as &dyn Questions)
    }

    fn logs(&self) -> Option<&dyn Logs> {
        Some(self)
    }

    fn discovery(&self) -> Option<&dyn Discovery> {
        Some(self)
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        Some(self)
    }

    fn identity(&self) -> Option<String> {
        self.account.identity()
    }

    fn budgets(&self) -> Vec<taskbridge_sdk::Budget> {
        self.api.budgets()
    }

    fn hooks(&self) -> Option<&dyn Hooks> {
        self.hook.as_ref().map(|hook| hook as &dyn Hooks)
    }

    fn wakeups(&self) -> Option<&dyn Wakeups> {
        self.reader.as_ref().map(|reader| reader as &dyn Wakeups)
    }
}

impl StepFunctions {
    async fn has_ended(&self, arn: &ExecutionArn<'_>) -> bool {
        let seen = self.api.describe(arn.as_str()).await;
        seen.is_ok_and(|seen| crate::state::Facts::from(seen).have_ended())
    }
}
