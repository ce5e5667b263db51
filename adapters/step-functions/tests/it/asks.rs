//! Tests of state machines that ask, through an activity and through the queue.

use aws_sdk_sfn::types::{HistoryEventType, StateMachineType};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, AnswerOutcome, ErrorKind, JobHandle, JobState, LogRequest, Question, Subject};

use crate::harness::proxy::Fault;
use crate::harness::standin::{Kind, Standin};
use crate::harness::world::{World, failure, output, poll_until, poll_until_ended, start};

const BOTH: [Kind; 2] = [Kind::LocalStack, Kind::MiniStack];
const ACTIVITY: &str = "arn:aws:states:us-east-1:000000000000:activity:";

/// How a machine asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    Activity,
    Queue,
}

/// World with its own activity or queue, so that tests do not receive each other's questions.
pub(crate) struct QuestionWorld {
    pub(crate) world: World,
    /// Additional members of the backend's config.
    extra_config: Value,
    channel: Channel,
    /// ARN of the activity, or URL of the queue.
    address: String,
}

impl QuestionWorld {
    pub(crate) async fn new(kind: Kind, channel: Channel) -> Self {
        Self::with(kind, channel, "1s").await
    }

    async fn with(kind: Kind, channel: Channel, heartbeat: &str) -> Self {
        let name = taskbridge_sdk::suite::fresh_key().to_string();
        let standin = tokio::task::block_in_place(|| Standin::shared(kind));
        let queue = format!("http://127.0.0.1:{}/000000000000/{name}", standin.port);
        let extra_config = match channel {
            Channel::Activity => json!({"activities": [format!("{ACTIVITY}{name}")], "heartbeat": heartbeat}),
            Channel::Queue => json!({"queue": queue, "heartbeat": heartbeat}),
        };
        let temporary = World::new(kind).await;
        let address = match channel {
            Channel::Activity => {
                temporary.aws.create_activity().name(&name).send().await.unwrap().activity_arn
            }
            Channel::Queue => {
                temporary.sqs.create_queue().queue_name(&name).send().await.unwrap().queue_url.unwrap()
            }
        };
        // A test may have only one permit.
        drop(temporary);
        Self { world: World::with(kind, extra_config.clone()).await, extra_config, channel, address }
    }

    /// Returns a state that asks this, with more members.
    fn state(&self, question: &Value, extra: Value) -> Value {
        let mut question = question.clone();
        question["execution.$"] = json!("$$.Execution.Id");
        let mut state = match self.channel {
            Channel::Activity => json!({"Type": "Task", "Resource": self.address, "Parameters": question}),
            Channel::Queue => {
                question["token.$"] = json!("$$.Task.Token");
                json!({
                    "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                    "Parameters": {"QueueUrl": self.address, "MessageBody": question},
                })
            }
        };
        state["HeartbeatSeconds"] = json!(60);
        state["TimeoutSeconds"] = json!(600);
        let retryable = json!(["States.HeartbeatTimeout", "States.Timeout"]);
        state["Retry"] =
            json!([{"ErrorEquals": retryable, "IntervalSeconds": 1, "MaxAttempts": 99, "BackoffRate": 1}]);
        state.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        state
    }

    /// Creates a machine that asks this and returns the answer.
    pub(crate) async fn machine(&self, question: &Value, extra: Value) -> String {
        let mut state = self.state(question, json!({"End": true}));
        state.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        self.world.machine(json!({"First": state})).await
    }

    async fn start(&self, machine: &str) -> JobHandle {
        self.world.backend.start(&start(machine, json!({}))).await.unwrap().handle
    }

    async fn wait_for_question(&self, handle: &JobHandle) -> Question {
        poll_until(&*self.world.backend, handle, "a question", |observation| {
            assert_eq!(
                (&observation.state, observation.questions.len().min(1)),
                (&JobState::Running, observation.questions.len())
            );
            observation.questions.first().cloned()
        })
        .await
    }

    /// Sends an answer until it is accepted or too late, as the server does: a question can be reported
    /// before its token arrives.
    async fn send_answer(&self, handle: &JobHandle, question: &Question, answer: &Answer) -> AnswerOutcome {
        let started_at = std::time::Instant::now();
        loop {
            let questions = self.world.backend.abilities().questions.unwrap();
            match questions.answer(handle, &question.id, answer).await {
                Ok(result) => return result,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            assert!(started_at.elapsed().as_secs() < 180, "the answer is not accepted in time");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Returns how many times the step was scheduled.
    async fn schedule_count(&self, handle: &JobHandle) -> usize {
        let history = self.world.aws.get_execution_history().execution_arn(handle.as_str());
        let events = history.max_results(1000).send().await.unwrap().events;
        let scheduled = [HistoryEventType::ActivityScheduled, HistoryEventType::TaskScheduled];
        events.iter().filter(|event| scheduled.contains(&event.r#type)).count()
    }
}

pub(crate) fn sample_question() -> Value {
    json!({
        "message": "Ship it?",
        "schema": {"type": "object", "properties": {"ship": {"type": "boolean"}}, "required": ["ship"]},
    })
}

fn accept_answer() -> Answer {
    Answer::Accept(Map::from_iter([("ship".to_owned(), json!(true))]))
}

/// Every poll reports the question. Its first answer counts, also for another server.
#[tokio::test(flavor = "multi_thread")]
async fn question_is_answered_exactly_once() {
    for (kind, channel) in
        BOTH.into_iter().flat_map(|kind| [(kind, Channel::Activity), (kind, Channel::Queue)])
    {
        let setup = QuestionWorld::new(kind, channel).await;
        let machine = setup.machine(&sample_question(), json!({})).await;
        let handle = setup.start(&machine).await;
        let question = setup.wait_for_question(&handle).await;
        assert_eq!(question.message, "Ship it?", "{kind:?} {channel:?}");
        assert_eq!(question.ask.form(), Some(&sample_question()["schema"]), "{kind:?} {channel:?}");
        let backend = &setup.world.backend;
        let mut jobs = Subject::watched(&[handle.clone(), handle.clone()]);
        // A question is reported to watched and unwatched jobs alike.
        jobs[1].watched = false;
        let results = backend.observe_all(&backend.group(&handle), &jobs).await;
        assert!(
            results
                .iter()
                .all(|result| result.as_ref().unwrap().questions == std::slice::from_ref(&question))
        );

        assert_eq!(
            setup.send_answer(&handle, &question, &accept_answer()).await,
            AnswerOutcome::Accepted,
            "{kind:?} {channel:?}"
        );
        assert_eq!(
            setup.send_answer(&handle, &question, &accept_answer()).await,
            AnswerOutcome::Accepted,
            "{kind:?} {channel:?}"
        );
        assert_eq!(
            setup.send_answer(&handle, &question, &Answer::Decline).await,
            AnswerOutcome::TooLate,
            "{kind:?} {channel:?}"
        );
        let observation = poll_until_ended(&*setup.world.backend, &handle).await;
        assert_eq!(output(&observation).structured, Some(json!({"ship": true})), "{kind:?} {channel:?}");
        // Another server knows the same.
        let other = setup.world.connect_another(setup.extra_config.clone()).await;
        let questions = other.abilities().questions.unwrap();
        if kind == Kind::LocalStack {
            let taken = questions.answer(&handle, &question.id, &accept_answer()).await.unwrap();
            assert_eq!(taken, AnswerOutcome::Accepted, "{channel:?}");
        }
        let taken = questions.answer(&handle, &question.id, &Answer::Cancel).await.unwrap();
        assert_eq!(taken, AnswerOutcome::TooLate, "{kind:?} {channel:?}");
    }
}

/// A declined or dismissed question is an error that the state machine can catch.
#[tokio::test(flavor = "multi_thread")]
async fn decline_is_error_machine_can_catch() {
    for (kind, channel) in [(Kind::LocalStack, Channel::Queue), (Kind::MiniStack, Channel::Activity)] {
        for (answer, error) in
            [(Answer::Decline, "taskbridge.Declined"), (Answer::Cancel, "taskbridge.Dismissed")]
        {
            let setup = QuestionWorld::new(kind, channel).await;
            let catch = json!([{"ErrorEquals": [error], "Next": "Refused"}]);
            let states = json!({
                "First": setup.state(&sample_question(), json!({"Catch": catch, "End": true})),
                "Refused": {"Type": "Pass", "End": true},
            });
            let machine = setup.world.machine(states).await;
            let handle = setup.start(&machine).await;
            let question = setup.wait_for_question(&handle).await;
            assert_eq!(
                setup.send_answer(&handle, &question, &answer).await,
                AnswerOutcome::Accepted,
                "{kind:?}"
            );
            let observation = poll_until_ended(&*setup.world.backend, &handle).await;
            assert_eq!(output(&observation).structured.as_ref().unwrap()["Error"], error, "{kind:?}");
        }
    }
}

/// The step gets heartbeats until the user answers.
/// The execution must not miss a heartbeat and be stopped in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn open_question_sends_heartbeats() {
    for channel in [Channel::Activity, Channel::Queue] {
        let setup = QuestionWorld::new(Kind::LocalStack, channel).await;
        let machine = setup.machine(&sample_question(), json!({"HeartbeatSeconds": 10})).await;
        let handle = setup.start(&machine).await;
        let question = setup.wait_for_question(&handle).await;
        tokio::time::sleep(std::time::Duration::from_secs(22)).await;
        assert_eq!(
            setup.send_answer(&handle, &question, &accept_answer()).await,
            AnswerOutcome::Accepted,
            "{channel:?}"
        );
        poll_until_ended(&*setup.world.backend, &handle).await;
        assert_eq!(setup.schedule_count(&handle).await, 1, "{channel:?}: the step is scheduled once");
    }
}

/// A server that was killed asks the same question after its restart and takes the answer.
/// A server keeps questions only in memory, and Step Functions schedules the step again.
#[tokio::test(flavor = "multi_thread")]
async fn question_survives_server_kill() {
    for channel in [Channel::Activity, Channel::Queue] {
        let mut setup = QuestionWorld::new(Kind::LocalStack, channel).await;
        let machine = setup.machine(&sample_question(), json!({"HeartbeatSeconds": 5})).await;
        let handle = setup.start(&machine).await;
        let question = setup.wait_for_question(&handle).await;
        let extra_config = setup.extra_config.clone();
        setup.world.kill_and_restart(extra_config).await;
        let observation = setup.world.backend.observe(&handle).await.unwrap();
        assert_eq!(
            observation.questions,
            std::slice::from_ref(&question),
            "{channel:?}: the first poll after the restart"
        );
        assert_eq!(
            setup.send_answer(&handle, &question, &accept_answer()).await,
            AnswerOutcome::Accepted,
            "{channel:?}"
        );
        let observation = poll_until_ended(&*setup.world.backend, &handle).await;
        assert_eq!(output(&observation).structured, Some(json!({"ship": true})), "{channel:?}");
    }
}

/// An answer that arrives after the timeout of its step is too late.
#[tokio::test(flavor = "multi_thread")]
async fn answer_after_step_timeout_is_late() {
    for channel in [Channel::Activity, Channel::Queue] {
        let setup = QuestionWorld::new(Kind::LocalStack, channel).await;
        let catch = json!([{"ErrorEquals": ["States.ALL"], "Next": "Nap"}]);
        let extra =
            json!({"HeartbeatSeconds": 2, "TimeoutSeconds": 10, "Retry": [], "Catch": catch, "End": true});
        let states = json!({
            "First": setup.state(&sample_question(), extra), "Nap": {"Type": "Wait", "Seconds": 600, "End": true},
        });
        let machine = setup.world.machine(states).await;
        let handle = setup.start(&machine).await;
        let question = setup.wait_for_question(&handle).await;
        poll_until(&*setup.world.backend, &handle, "no question", |observation| {
            observation.questions.is_empty().then_some(())
        })
        .await;
        assert_eq!(
            setup.send_answer(&handle, &question, &accept_answer()).await,
            AnswerOutcome::TooLate,
            "{channel:?}"
        );
        setup.world.backend.cancel(&handle).await.unwrap();
    }
}

/// An invalid question fails its step with `taskbridge.BadQuestion` and the reason.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_question_fails_step_with_reason() {
    for (kind, channel) in [(Kind::LocalStack, Channel::Queue), (Kind::MiniStack, Channel::Activity)] {
        let setup = QuestionWorld::new(kind, channel).await;
        let machine = setup.machine(&json!({"text": "Ship it?"}), json!({})).await;
        let handle = setup.start(&machine).await;
        let observation = poll_until_ended(&*setup.world.backend, &handle).await;
        let data = failure(&observation).structured.clone().unwrap();
        assert_eq!(data["error"], "taskbridge.BadQuestion", "{kind:?}");
        assert!(data["cause"].as_str().unwrap().contains("no `message`"), "{data}");
    }
}

/// The message of an answered question is deleted from the queue.
#[tokio::test(flavor = "multi_thread")]
async fn answered_queue_message_is_deleted() {
    let setup = QuestionWorld::new(Kind::LocalStack, Channel::Queue).await;
    let machine = setup.machine(&sample_question(), json!({})).await;
    let handle = setup.start(&machine).await;
    let question = setup.wait_for_question(&handle).await;
    assert_eq!(setup.send_answer(&handle, &question, &accept_answer()).await, AnswerOutcome::Accepted);
    let (visible, hidden) = (
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
    );
    let attributes = setup.world.sqs.get_queue_attributes().queue_url(&setup.address);
    let counts =
        attributes.attribute_names(visible.clone()).attribute_names(hidden.clone()).send().await.unwrap();
    let counts = counts.attributes.unwrap();
    assert_eq!((counts[&visible].as_str(), counts[&hidden].as_str()), ("0", "0"));
    poll_until_ended(&*setup.world.backend, &handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_ever_shown() {
    let setup = QuestionWorld::new(Kind::LocalStack, Channel::Queue).await;
    let machine = setup.machine(&sample_question(), json!({})).await;
    let handle = setup.start(&machine).await;
    let question = setup.wait_for_question(&handle).await;
    let history = setup.world.aws.get_execution_history().execution_arn(handle.as_str());
    let events = history.send().await.unwrap().events;
    let scheduled = events.iter().find_map(|event| event.task_scheduled_event_details.as_ref()).unwrap();
    let parameters: Value = serde_json::from_str(&scheduled.parameters).unwrap();
    let token = parameters["MessageBody"]["token"].as_str().unwrap();

    let observation = setup.world.backend.observe(&handle).await.unwrap();
    let log = setup.world.backend.abilities().logs.unwrap();
    let log = log.tail(&handle, &LogRequest { max_bytes: 100_000, search: None }).await.unwrap();
    // A message of AWS about a token can quote it.
    let quoted: &'static str = Box::leak(format!("Value '{token}' at 'taskToken'").into_boxed_str());
    let questions = setup.world.backend.abilities().questions.unwrap();
    let mut shown = format!("{observation:?} {} {log:?}", serde_json::to_string(&observation).unwrap());
    for code in ["ValidationException", "InvalidToken"] {
        setup.world.proxy.inject("SendTaskSuccess", Fault::ErrorResponse(400, code, quoted));
        let error = questions.answer(&handle, &question.id, &accept_answer()).await.unwrap_err();
        shown.push_str(&format!(" {error} {error:?}"));
    }
    assert!(shown.contains("SendTaskSuccess: ValidationException") && !shown.contains(token), "{shown}");
    assert!(log.text.contains("task scheduled"), "{}", log.text);
}

/// A status event of EventBridge on the queue is a hint to poll its execution.
/// The event has the format of EventBridge's documentation.
#[tokio::test(flavor = "multi_thread")]
async fn eventbridge_message_is_wakeup_hint() {
    let setup = QuestionWorld::new(Kind::MiniStack, Channel::Queue).await;
    let arn = "arn:aws:states:us-east-1:000000000000:execution:m:tb-x";
    let event = json!({
        "version": "0", "id": "315c1398-40ff-a850-213b-158f73e60175",
        "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
        "account": "000000000000", "time": "2026-02-26T19:42:21Z", "region": "us-east-1", "resources": [arn],
        "detail": {"executionArn": arn, "name": "tb-x", "status": "FAILED"},
    });
    let other = setup.world.connect_another(setup.extra_config.clone()).await;
    let message = setup.world.sqs.send_message().queue_url(&setup.address).message_body(event.to_string());
    drop(setup);
    message.send().await.unwrap();
    let hints =
        [other.abilities().wakeups.unwrap().next().await, other.abilities().wakeups.unwrap().next().await];
    assert_eq!(hints.map(|hint| hint.to_string()), [arn.to_owned(), format!("attached:{arn}")]);
}

/// The machines of README.md, with the account of the test.
#[tokio::test(flavor = "multi_thread")]
async fn the_machines_of_the_readme_ask() {
    let readme = include_str!("../../README.md");
    let machines: Vec<&str> =
        readme.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    for (channel, text) in [Channel::Activity, Channel::Queue].into_iter().zip(&machines) {
        let setup = QuestionWorld::new(Kind::LocalStack, channel).await;
        let text = text
            .replace("arn:aws:states:eu-central-1:123456789012:activity:ask", &setup.address)
            .replace("https://sqs.eu-central-1.amazonaws.com/123456789012/taskbridge", &setup.address);
        let definition: Value = serde_json::from_str(&text).unwrap();
        let machine = setup.world.define(definition, StateMachineType::Standard).await;
        for (answer, data) in [
            (Answer::Accept(Map::from_iter([("release".to_owned(), json!(true))])), json!({"release": true})),
            (Answer::Decline, json!({"release": false})),
        ] {
            let handle =
                setup.world.backend.start(&start(&machine, json!({"version": "1.2"}))).await.unwrap().handle;
            let question = setup.wait_for_question(&handle).await;
            assert_eq!(question.message, "Release 1.2?", "{channel:?}");
            assert_eq!(
                setup.send_answer(&handle, &question, &answer).await,
                AnswerOutcome::Accepted,
                "{channel:?}"
            );
            let observation = poll_until_ended(&*setup.world.backend, &handle).await;
            assert_eq!(output(&observation).structured, Some(data), "{channel:?}");
        }
    }
    assert_eq!(machines.len(), 2);
}

/// Tests of the sdk's suite about questions. Tests that end with a stop use only MiniStack: in LocalStack, a
/// stop has no effect while a step waits for a token.
mod suite {
    use std::sync::Arc;

    use taskbridge_sdk::suite::{self, Claims, Fixture, RepeatedStart};
    use taskbridge_sdk::{Backend, JobHandle, JobSpec, async_trait};

    use super::*;

    struct QuestionFixture {
        setup: QuestionWorld,
        machine: String,
    }

    impl QuestionFixture {
        async fn at(kind: Kind, channel: Channel) -> Self {
            let setup = QuestionWorld::new(kind, channel).await;
            Self { machine: setup.machine(&sample_question(), json!({})).await, setup }
        }

        fn job(&self) -> JobSpec {
            start(&self.machine, json!({}))
        }
    }

    #[async_trait]
    impl Fixture for QuestionFixture {
        const CLAIMS: Claims = Claims {
            repeated_start: RepeatedStart::SameJob,
            questions: true,
            notes: false,
            logs: true,
            artifacts: false,
            wakeups: true,
            discovery: false,
            checkup: false,
            hooks: false,
            refuses: false,
            counts_starts: false,
            faults: &[],
        };

        fn backend(&self) -> Arc<dyn Backend> {
            self.setup.world.backend.clone()
        }

        fn succeeding_job(&self) -> (JobSpec, String) {
            (self.job(), "ship".to_owned())
        }

        fn failing_job(&self) -> JobSpec {
            self.job()
        }

        fn long_job(&self) -> JobSpec {
            self.job()
        }

        fn unknown_handle(&self) -> JobHandle {
            JobHandle::new(format!(
                "{}:{}",
                self.machine.replacen(":stateMachine:", ":execution:", 1),
                suite::fresh_key()
            ))
        }

        fn question_job(&self) -> Option<suite::QuestionJob> {
            let Answer::Accept(answer) = accept_answer() else { return None };
            Some(suite::QuestionJob { job: self.job(), answer })
        }

        fn timeout(&self) -> std::time::Duration {
            std::time::Duration::from_secs(180)
        }
    }

    mod localstack {
        use super::*;
        taskbridge_sdk::behaviour_suite! { QuestionFixture::at(Kind::LocalStack, Channel::Activity).await;
            answer_lets_the_job_go_on
            answer_given_again_says_the_same
            answer_that_came_first_stands
            answer_that_says_no_reaches_the_job
        }
    }

    mod ministack {
        use super::*;
        taskbridge_sdk::behaviour_suite! { QuestionFixture::at(Kind::MiniStack, Channel::Queue).await;
            question_is_the_same_until_it_is_answered
            answer_lets_the_job_go_on
            answer_given_again_says_the_same
            answer_that_came_first_stands
            answer_that_says_no_reaches_the_job
            answer_nobody_asked_for_is_too_late
        }
    }
}
