//! Tests the behaviour suite itself: each planted bug makes its test fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use taskbridge_sdk::sim::{Config, Fault, Mode, Operation, SimEngine};
use taskbridge_sdk::suite::{
    self, ArtifactJob, Claims, DiscoverableTool, Fixture, HookRequest, InjectedFault, KeyHookRequest, LogJob,
    NotesJob, QuestionJob, RefusedJob, RepeatedStart, fresh_key, job,
};
use taskbridge_sdk::{
    Abilities, Answer, AnswerOutcome, ArtifactData, Artifacts, Backend, Checkup, Delivery, DiscoveredTool,
    Discovery, Error, ErrorKind, Finding, GroupKey, HookEvent, Hooks, JobHandle, JobKey, JobSpec, JobState,
    Level, LogRequest, LogText, Logs, Observation, Output, Questions, Result, Started, Subject, ToolTarget,
    Verdict, Wakeups,
};

/// A planted bug of a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    StartsUnderAnotherKey,
    WaitsForTheEnd,
    RepeatsWhatItMayNot,
    ReportsLostReplyAsUnavailable,
    StartsAlthoughUnavailable,
    ReportsRefusalAsUnavailable,
    DropsEngineMessage,
    FindsNothing,
    FindStarts,
    ForgetsTheOutput,
    FailsWithoutAReason,
    ChangesEndedJob,
    LosesTheLastNote,
    RenumbersNotes,
    ReportsGoneAsError,
    ReportsFaultAsGone,
    IgnoresStartLag,
    ReversesBatchResults,
    CancelDoesNothing,
    CancelOfTheEndedFails,
    AsksANewQuestionEachTime,
    AcceptsEveryAnswer,
    RefusesRepeatedAnswer,
    KeepsAsking,
    LogsWithoutLimit,
    LogsWithoutCut,
    IgnoresTheSearch,
    CutsFiles,
    HidesTheSize,
    OpensAnyFile,
    GivesNoHints,
    HidesItsLogs,
    ChangesToolNames,
    ListsToolsTwice,
    KeepsRemovedTools,
    HidesDiscoveryFault,
    MixesUpTargets,
    ReportsNothingAsOk,
    EndsJobsInCheckup,
    NamesNoTool,
    ReportsFaultsAsOk,
    SkipsProofCheck,
    AcceptsProofPrefix,
    NamesNoJob,
    NamesNoKey,
    ForgetsTheNewName,
    PretendsToCancel,
}

/// Shared secret of deliveries.
const SECRET: &str = "only the engine knows";

struct Flawed {
    flaw: Flaw,
    inner: Arc<dyn Backend>,
    engine: SimEngine,
    /// Key of the job that was started last.
    last_key: Mutex<Option<JobKey>>,
}

impl Flawed {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }
}

#[async_trait]
impl Backend for Flawed {
    async fn start(&self, job: &JobSpec) -> Result<Started> {
        let mut job = job.clone();
        *self.last_key.lock() = Some(job.key.clone());
        match self.flaw {
            Flaw::StartsUnderAnotherKey if job.may_exist => job.key = fresh_key(),
            Flaw::RepeatsWhatItMayNot => job.may_exist = false,
            _ => {}
        }
        let result = self.inner.start(&job).await;
        match (self.flaw, &result) {
            (Flaw::WaitsForTheEnd, Ok(started)) => {
                self.engine.finish(&started.handle, JobState::Succeeded(Output::default()));
            }
            (Flaw::ReportsLostReplyAsUnavailable, Err(e)) if e.kind() == ErrorKind::Uncertain => {
                return Err(Error::unavailable("no reply"));
            }
            (Flaw::StartsAlthoughUnavailable, Err(e)) if e.kind() == ErrorKind::Unavailable => {
                self.inner.start(&job).await?;
            }
            (Flaw::ReportsRefusalAsUnavailable, Err(e)) if e.kind() == ErrorKind::Rejected => {
                return Err(Error::unavailable(e.to_string()));
            }
            (Flaw::DropsEngineMessage, Err(e)) => return Err(Error::new(e.kind(), "something went wrong")),
            _ => {}
        }
        result
    }

    async fn find(&self, job: &JobSpec) -> Result<Option<Started>> {
        match self.flaw {
            Flaw::FindsNothing => Ok(None),
            Flaw::FindStarts => self.inner.start(job).await.map(Some),
            _ => self.inner.find(job).await,
        }
    }

    async fn observe(&self, handle: &JobHandle) -> Result<Observation> {
        let result = self.inner.observe(handle).await;
        let mut observation = match (self.flaw, result) {
            (Flaw::ReportsFaultAsGone, Err(_)) => return Ok(Observation::new(JobState::Gone)),
            (_, result) => result?,
        };
        match self.flaw {
            Flaw::ForgetsTheOutput if observation.state.has_ended() => {
                observation.state = JobState::Succeeded(Output::default());
            }
            Flaw::FailsWithoutAReason => observation.message = None,
            Flaw::ForgetsTheNewName if observation.state.has_ended() => observation.renamed_to = None,
            Flaw::LosesTheLastNote => drop(observation.notes.pop()),
            Flaw::RenumbersNotes => observation.notes.iter_mut().for_each(|note| note.n = 7),
            Flaw::ChangesEndedJob => observation.message = Some(fresh_key().to_string()),
            Flaw::ReportsGoneAsError if observation.state == JobState::Gone => {
                return Err(Error::rejected("not found"));
            }
            Flaw::AsksANewQuestionEachTime => {
                for question in &mut observation.questions {
                    question.id = fresh_key().to_string();
                }
            }
            _ => {}
        }
        Ok(observation)
    }

    async fn cancel(&self, handle: &JobHandle) -> Result<()> {
        let ended = self.inner.observe(handle).await?.state.has_ended();
        match self.flaw {
            Flaw::CancelDoesNothing | Flaw::PretendsToCancel => Ok(()),
            Flaw::CancelOfTheEndedFails if ended => Err(Error::rejected("it has ended")),
            _ => self.inner.cancel(handle).await,
        }
    }

    async fn observe_all(&self, group: &GroupKey, jobs: &[Subject]) -> Vec<Result<Observation>> {
        let mut results = self.inner.observe_all(group, jobs).await;
        if self.has(Flaw::ReversesBatchResults) {
            results.reverse();
        }
        results
    }

    fn start_lag(&self) -> Duration {
        if self.has(Flaw::IgnoresStartLag) { Duration::ZERO } else { self.inner.start_lag() }
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            questions: Some(self),
            logs: (!self.has(Flaw::HidesItsLogs)).then_some(self),
            artifacts: Some(self),
            wakeups: if self.has(Flaw::GivesNoHints) { Some(self) } else { self.inner.abilities().wakeups },
            discovery: Some(self),
            checkup: Some(self),
            hooks: Some(self),
        }
    }
}

#[async_trait]
impl Questions for Flawed {
    async fn answer(&self, handle: &JobHandle, question: &str, answer: &Answer) -> Result<AnswerOutcome> {
        let has_question = !self.inner.observe(handle).await?.questions.is_empty();
        match self.flaw {
            Flaw::KeepsAsking => return Ok(AnswerOutcome::Accepted),
            Flaw::RefusesRepeatedAnswer if !has_question => return Ok(AnswerOutcome::TooLate),
            _ => {}
        }
        let questions = self.inner.abilities().questions.expect("the sim has questions");
        let outcome = questions.answer(handle, question, answer).await?;
        Ok(if self.has(Flaw::AcceptsEveryAnswer) { AnswerOutcome::Accepted } else { outcome })
    }
}

#[async_trait]
impl Logs for Flawed {
    async fn tail(&self, handle: &JobHandle, request: &LogRequest) -> Result<LogText> {
        let mut request = request.clone();
        match self.flaw {
            Flaw::LogsWithoutLimit => request.max_bytes = usize::MAX,
            Flaw::IgnoresTheSearch => request.search = None,
            _ => {}
        }
        let mut log = self.inner.abilities().logs.expect("the sim has logs").tail(handle, &request).await?;
        log.cut &= !self.has(Flaw::LogsWithoutCut);
        Ok(log)
    }
}

#[async_trait]
impl Artifacts for Flawed {
    async fn read(&self, handle: &JobHandle, name: &str, max_bytes: u64) -> Result<Option<ArtifactData>> {
        if self.has(Flaw::OpensAnyFile)
            && let Ok(bytes) = std::fs::read(std::path::Path::new("/tmp").join(name))
        {
            return Ok(Some(ArtifactData { bytes, mime_type: None }));
        }
        let artifacts = self.inner.abilities().artifacts.expect("the sim has artifacts");
        match artifacts.read(handle, name, max_bytes).await {
            Ok(Some(mut data)) if self.has(Flaw::CutsFiles) => {
                data.bytes.pop();
                Ok(Some(data))
            }
            Err(e) if self.has(Flaw::HidesTheSize) => Err(Error::new(e.kind(), "too large")),
            result => result,
        }
    }
}

#[async_trait]
impl Wakeups for Flawed {
    async fn next(&self) -> JobHandle {
        std::future::pending().await
    }
}

#[async_trait]
impl Discovery for Flawed {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let result = self.inner.abilities().discovery.expect("the sim has discovery").discover().await;
        let mut tools = match result {
            Err(_) if self.has(Flaw::HidesDiscoveryFault) => Vec::new(),
            other => other?,
        };
        let many = tools.len() > 1;
        match self.flaw {
            // Simulates names that depend on positions in the list: they change when a tool is added.
            Flaw::ChangesToolNames => tools.iter_mut().for_each(|tool| tool.title = Some(many.to_string())),
            Flaw::ListsToolsTwice => tools.extend_from_within(..),
            Flaw::KeepsRemovedTools if tools.is_empty() => tools.push(tool(0)),
            Flaw::MixesUpTargets => tools.iter_mut().for_each(|tool| tool.target = json!({"text": "other"})),
            _ => {}
        }
        Ok(tools)
    }
}

#[async_trait]
impl Checkup for Flawed {
    async fn check_up(&self, tools: &[ToolTarget]) -> Vec<Finding> {
        let mut findings =
            self.inner.abilities().checkup.expect("the sim has a check-up").check_up(tools).await;
        match self.flaw {
            Flaw::ReportsNothingAsOk => findings.retain(|finding| finding.verdict != Verdict::Ok),
            Flaw::EndsJobsInCheckup => {
                let key = self.last_key.lock().clone().expect("a job was started before");
                for handle in self.engine.jobs_of(&key) {
                    self.engine.finish(&handle, JobState::Cancelled(Output::default()));
                }
            }
            Flaw::NamesNoTool => findings.iter_mut().for_each(|finding| finding.what = "a tool".to_owned()),
            Flaw::ReportsFaultsAsOk => findings.iter_mut().for_each(|finding| finding.verdict = Verdict::Ok),
            _ => {}
        }
        findings
    }
}

impl Hooks for Flawed {
    fn read(&self, delivery: &Delivery<'_>) -> Option<HookEvent> {
        let genuine_headers = vec![("x-sim-secret", SECRET)];
        let given = delivery.header("x-sim-secret").unwrap_or_default();
        let headers = match self.flaw {
            Flaw::SkipsProofCheck => genuine_headers,
            Flaw::AcceptsProofPrefix if !given.is_empty() && SECRET.starts_with(given) => genuine_headers,
            _ => delivery.headers.to_vec(),
        };
        let hooks = self.inner.abilities().hooks.expect("the sim has a secret");
        let mut event = hooks.read(&Delivery { headers: &headers, ..*delivery })?;
        if self.has(Flaw::NamesNoJob) {
            event.jobs.clear();
        }
        if self.has(Flaw::NamesNoKey) {
            event.keys.clear();
        }
        Some(event)
    }
}

/// Returns a tool to discover.
fn tool(n: usize) -> DiscoveredTool {
    DiscoveredTool {
        name: format!("run_{n}"),
        input_schema: serde_json::Map::from_iter([("type".to_owned(), json!("object"))]),
        target: json!({"text": format!("run {n}")}),
        ..DiscoveredTool::default()
    }
}

struct FlawedFixture<const UNKEYED: bool>(Arc<Flawed>, AtomicUsize);

impl<const UNKEYED: bool> FlawedFixture<UNKEYED> {
    fn new(flaw: Flaw) -> Self {
        let engine = SimEngine::new(if UNKEYED { Mode::Unkeyed } else { Mode::Keyed });
        let start_lag = Duration::from_secs(60);
        let config = Config { hook_secret: Some(SECRET.into()), start_lag, ..Config::default() };
        Self(
            Arc::new(Flawed { flaw, inner: engine.backend_as(&config), engine, last_key: Mutex::default() }),
            AtomicUsize::new(0),
        )
    }
}

#[async_trait]
impl<const UNKEYED: bool> Fixture for FlawedFixture<UNKEYED> {
    const CLAIMS: Claims = Claims {
        repeated_start: if UNKEYED { RepeatedStart::SearchOnly } else { RepeatedStart::SameJob },
        questions: true,
        notes: true,
        logs: true,
        artifacts: true,
        wakeups: true,
        discovery: true,
        checkup: true,
        hooks: true,
        refuses: true,
        counts_starts: true,
        faults: &[
            InjectedFault::StartReplyLost,
            InjectedFault::StartUnavailable,
            InjectedFault::PollUnavailable,
            InjectedFault::JobUnlisted,
            InjectedFault::DiscoveryUnavailable,
            InjectedFault::CheckupUnavailable,
        ],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.0.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (job(json!({"text": "well"}), json!({})), "well".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        job(json!({"outcome": "fail"}), json!({}))
    }

    fn long_job(&self) -> JobSpec {
        job(json!({"delay_ms": 60_000}), json!({}))
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new("of no job")
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let job = job(json!({"question": {"message": "Go on?"}}), json!({}));
        Some(QuestionJob { job, answer: serde_json::Map::new() })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["one line", "two of them", "three in all"].map(str::to_owned).to_vec();
        Some(LogJob { job: job(json!({"lines": lines}), json!({})), lines })
    }

    fn notes_job(&self) -> Option<NotesJob> {
        let job = job(json!({"notes": ["one", "two"]}), json!({}));
        Some(NotesJob { job, notes: ["one", "two"].map(|text| (Level::Info, json!(text))).to_vec() })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let job = job(json!({"files": {"file": "content"}}), json!({}));
        Some(ArtifactJob { job, name: "file".to_owned(), bytes: "content".into() })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = job(json!({"outcome": "refuse", "text": "not today"}), json!({}));
        Some(RefusedJob { job, message: "not today".to_owned() })
    }

    async fn add_tool(&self) -> Option<DiscoverableTool> {
        let n = self.1.fetch_add(1, Ordering::Relaxed);
        self.0.engine.offer((0..=n).map(tool).collect());
        Some(DiscoverableTool { tool: tool(n).name, arguments: json!({}), text: format!("run {n}") })
    }

    async fn remove_tool(&self, name: &str) {
        let all = (0..self.1.load(Ordering::Relaxed)).map(tool);
        self.0.engine.offer(all.filter(|tool| tool.name != name).collect());
    }

    fn missing_target(&self) -> Option<serde_json::Value> {
        Some(json!({"outcome": "refuse"}))
    }

    fn hook_request(&self, handle: &JobHandle) -> Option<HookRequest> {
        let body = json!({"id": "delivery-1", "jobs": [handle]}).to_string().into_bytes();
        let proof_header = "x-sim-secret".to_owned();
        let headers = vec![(proof_header.clone(), SECRET.to_owned())];
        Some(HookRequest { headers, body, proof_header, signs_body: false })
    }

    fn key_hook_request(&self, key: &JobKey) -> Option<KeyHookRequest> {
        let (body, proof_header) = (json!({"keys": [key]}).to_string(), "x-sim-secret".to_owned());
        let headers = vec![(proof_header.clone(), SECRET.to_owned())];
        Some(KeyHookRequest { headers, body: body.into_bytes(), path: String::new(), proof_header })
    }

    fn renamed_job(&self) -> Option<JobSpec> {
        Some(job(json!({"renames": true}), json!({})))
    }

    fn unstoppable_job(&self) -> Option<JobSpec> {
        Some(job(json!({"delay_ms": 60_000, "cannot_cancel": true}), json!({})))
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        self.0.engine.starts(key)
    }

    async fn inject(&self, injected: InjectedFault) {
        let (operation, fault) = match injected {
            InjectedFault::StartReplyLost => (Operation::Start, Fault::LostReply),
            InjectedFault::StartUnavailable => (Operation::Start, Fault::Outage),
            InjectedFault::StartLimited => (Operation::Start, Fault::Limited(Duration::ZERO)),
            InjectedFault::PollUnavailable | InjectedFault::CheckupUnavailable => {
                (Operation::Observe, Fault::Outage)
            }
            InjectedFault::JobUnlisted => (Operation::Observe, Fault::Unlisted),
            InjectedFault::DiscoveryUnavailable => (Operation::Discover, Fault::Outage),
        };
        self.0.engine.inject(operation, fault);
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(100)
    }
}

/// Evaluates to true if a test of the suite fails for a backend with this bug.
macro_rules! fails {
    ($unkeyed:literal, $flaw:ident, $bullet:ident) => {{
        let test = || {
            suite::run(async { suite::$bullet(&FlawedFixture::<$unkeyed>::new(Flaw::$flaw)).await });
        };
        catch_unwind(AssertUnwindSafe(test)).is_err()
    }};
}

/// Asserts for each bug that its test fails with the bug and passes without it.
macro_rules! caught {
    ($($unkeyed:literal $flaw:ident $bullet:ident)*) => {$({
        assert!(!fails!($unkeyed, None, $bullet), "{} fails without a flaw", stringify!($bullet));
        assert!(fails!($unkeyed, $flaw, $bullet), "{:?} passes {}", Flaw::$flaw, stringify!($bullet));
    })*};
}

#[test]
fn each_flaw_of_starts_is_caught() {
    caught! {
        false StartsUnderAnotherKey start_again_returns_the_same_job
        false StartsUnderAnotherKey start_again_after_the_end_returns_the_same_job
        false StartsUnderAnotherKey starts_at_the_same_time_make_one_job
        true RepeatsWhatItMayNot start_again_returns_the_same_job
        true RepeatsWhatItMayNot start_that_may_exist_never_guesses
        true RepeatsWhatItMayNot starts_at_the_same_time_make_one_job
        true RepeatsWhatItMayNot start_that_was_dropped_makes_one_job_at_most
        false WaitsForTheEnd start_does_not_wait_for_the_end
        false ReportsLostReplyAsUnavailable start_whose_reply_was_lost_is_uncertain
        true StartsAlthoughUnavailable start_that_is_unavailable_starts_nothing
        false ReportsRefusalAsUnavailable start_that_is_refused_says_the_engines_words
        false DropsEngineMessage start_that_is_refused_says_the_engines_words
        false FindsNothing find_sees_a_job_in_any_state
        false FindStarts find_of_an_unknown_key_starts_nothing
    }
}

#[test]
fn each_flaw_of_polls_is_caught() {
    caught! {
        false ForgetsTheOutput success_hands_back_the_output
        false FailsWithoutAReason failure_says_why_in_one_line
        false ChangesEndedJob ended_job_is_seen_the_same_every_time
        false LosesTheLastNote notes_keep_their_numbers_to_the_end
        false RenumbersNotes notes_keep_their_numbers_to_the_end
        false ReportsGoneAsError unknown_job_is_gone
        false ReportsFaultAsGone fault_of_a_look_is_an_error
        false IgnoresStartLag new_job_is_never_gone
        false ReversesBatchResults looks_at_many_answer_in_order
        false CancelDoesNothing cancel_ends_a_running_job
        false CancelOfTheEndedFails cancel_twice_is_harmless
        false CancelOfTheEndedFails cancel_of_an_ended_job_changes_nothing
        false CancelOfTheEndedFails cancel_of_an_unknown_job_is_success
        false PretendsToCancel cancel_of_an_unstoppable_job_says_so
        false ForgetsTheNewName renamed_job_answers_to_both_names
    }
}

#[test]
fn each_flaw_of_abilities_is_caught() {
    caught! {
        false HidesItsLogs abilities_are_as_claimed
        false AsksANewQuestionEachTime question_is_the_same_until_it_is_answered
        false KeepsAsking answer_lets_the_job_go_on
        false RefusesRepeatedAnswer answer_given_again_says_the_same
        false AcceptsEveryAnswer answer_that_came_first_stands
        false KeepsAsking answer_that_says_no_reaches_the_job
        false AcceptsEveryAnswer answer_nobody_asked_for_is_too_late
        false HidesItsLogs log_holds_what_was_printed
        false LogsWithoutLimit log_is_bounded_and_says_so
        false LogsWithoutCut log_is_bounded_and_says_so
        false IgnoresTheSearch log_search_keeps_the_lines_that_match
        false CutsFiles artifact_is_read_whole
        false HidesTheSize artifact_that_is_too_large_is_rejected_with_its_size
        false OpensAnyFile artifact_name_leads_nowhere_else
        false GivesNoHints wakeup_names_the_job_that_ended
        false MixesUpTargets discovered_tool_is_called_as_it_says
        false ChangesToolNames discovered_names_are_unique_and_stay
        false ListsToolsTwice discovered_names_are_unique_and_stay
        false KeepsRemovedTools discovered_tool_that_is_gone_is_left_out
        false HidesDiscoveryFault fault_of_a_discovery_is_an_error
        false ReportsNothingAsOk checkup_tells_what_is_right
        false EndsJobsInCheckup checkup_changes_nothing
        false NamesNoTool checkup_names_the_tool_whose_target_is_missing
        false ReportsFaultsAsOk checkup_of_an_engine_that_is_away_is_a_fault
        false NamesNoJob hook_names_the_job
        false SkipsProofCheck hook_without_proof_is_not_believed
        false AcceptsProofPrefix hook_without_proof_is_not_believed
        false NamesNoKey hook_names_the_key
    }
}
