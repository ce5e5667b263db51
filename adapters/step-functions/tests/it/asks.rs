//! Tests of state machines that ask, through an activity and through the queue.

use aws_sdk_sfn::types::{HistoryEventType, StateMachineType};
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, ErrorKind, JobHandle, JobState, LogRequest, Question, Subject, Taken};

use crate::proxy::Fault;
use crate::standin::{Kind, Standin};
use crate::world::{World, ended, failure, output, start, until};

const BOTH: [Kind; 2] = [Kind::LocalStack, Kind::MiniStack];
const ACTIVITY: &str = "arn:aws:states:us-east-1:000000000000:activity:";

/// How a machine asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Activity,
    Queue,
}

/// World with its own activity or queue, so that tests do not receive each other's questions.
pub(crate) struct Asking {
    pub(crate) world: World,
    /// Additional members of the backend's config.
    more: Value,
    way: Way,
    /// ARN of the activity, or URL of the queue.
    place: String,
}

impl Asking {
    pub(crate) async fn by(kind: Kind, way: Way) -> Self {
        Self::with(kind, way, "1s").await
    }

    async fn with(kind: Kind, way: Way, heartbeat: &str) -> Self {
        let name = taskbridge_sdk::suite::fresh_key().to_string();
        let standin = tokio::task::block_in_place(|| Standin::shared(kind));
        let queue = format!("http://127.0.0.1:{}/000000000000/{name}", standin.port);
        let more = match way {
            Way::Activity => json!({"activities": [format!("{ACTIVITY}{name}")], "heartbeat": heartbeat}),
            Way::Queue => json!({"queue": queue, "heartbeat": heartbeat}),
        };
        let plain = World::new(kind).await;
        let place = match way {
            Way::Activity => plain.aws.create_activity().name(&name).send().await.unwrap().activity_arn,
            Way::Queue => plain.sqs.create_queue().queue_name(&name).send().await.unwrap().queue_url.unwrap(),
        };
        // A test may have only one permit.
        drop(plain);
        Self { world: World::with(kind, more.clone()).await, more, way, place }
    }

    /// Returns a state that asks this, with more members.
    fn state(&self, said: &Value, more: Value) -> Value {
        let mut said = said.clone();
        said["execution.$"] = json!("$$.Execution.Id");
        let mut state = match self.way {
            Way::Activity => json!({"Type": "Task", "Resource": self.place, "Parameters": said}),
            Way::Queue => {
                said["token.$"] = json!("$$.Task.Token");
                json!({
                    "Type": "Task", "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                    "Parameters": {"QueueUrl": self.place, "MessageBody": said},
                })
            }
        };
        state["HeartbeatSeconds"] = json!(60);
        state["TimeoutSeconds"] = json!(600);
        let again = json!(["States.HeartbeatTimeout", "States.Timeout"]);
        state["Retry"] =
            json!([{"ErrorEquals": again, "IntervalSeconds": 1, "MaxAttempts": 99, "BackoffRate": 1}]);
        state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        state
    }

    /// Creates a machine that asks this and returns the answer.
    pub(crate) async fn machine(&self, said: &Value, more: Value) -> String {
        let mut state = self.state(said, json!({"End": true}));
        state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.world.machine(json!({"First": state})).await
    }

    async fn start(&self, machine: &str) -> JobHandle {
        self.world.backend.start(&start(machine, json!({}))).await.unwrap().handle
    }

    async fn asked(&self, handle: &JobHandle) -> Question {
        until(&*self.world.backend, handle, "a question", |seen| {
            assert_eq!(
                (&seen.state, seen.questions.len().min(1)),
                (&JobState::Running, seen.questions.len())
            );
            seen.questions.first().cloned()
        })
        .await
    }

    /// Sends an answer until it is accepted or too late, as the server does: a question can be reported
    /// before its token arrives.
    async fn give(&self, handle: &JobHandle, question: &Question, answer: &Answer) -> Taken {
        let begun = std::time::Instant::now();
        loop {
            let questions = self.world.backend.questions().unwrap();
            match questions.answer(handle, &question.id, answer).await {
                Ok(taken) => return taken,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
            }
            assert!(begun.elapsed().as_secs() < 180, "the answer is never taken");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Returns how many times the step was scheduled.
    async fn times(&self, handle: &JobHandle) -> usize {
        let history = self.world.aws.get_execution_history().execution_arn(handle.as_str());
        let events = history.max_results(1000).send().await.unwrap().events;
        let scheduled = [HistoryEventType::ActivityScheduled, HistoryEventType::TaskScheduled];
        events.iter().filter(|event| scheduled.contains(&event.r#type)).count()
    }
}

pub(crate) fn well() -> Value {
    json!({
        "message": "Ship it?",
        "schema": {"type": "object", "properties": {"ship": {"type": "boolean"}}, "required": ["ship"]},
    })
}

fn yes() -> Answer {
    Answer::Accept(Map::from_iter([("ship".to_owned(), json!(true))]))
}

/// Every poll reports the question. Its first answer counts, also for another server.
#[tokio::test(flavor = "multi_thread")]
async fn question_is_answered_exactly_once() {
    for (kind, way) in BOTH.into_iter().flat_map(|kind| [(kind, Way::Activity), (kind, Way::Queue)]) {
        let asking = Asking::by(kind, way).await;
        let machine = asking.machine(&well(), json!({})).await;
        let handle = asking.start(&machine).await;
        let question = asking.asked(&handle).await;
        assert_eq!(question.message, "Ship it?", "{kind:?} {way:?}");
        assert_eq!(question.ask.form(), Some(&well()["schema"]), "{kind:?} {way:?}");
        let backend = &asking.world.backend;
        let mut jobs = Subject::watched(&[handle.clone(), handle.clone()]);
        // A question is reported to watched and unwatched jobs alike.
        jobs[1].watched = false;
        let many = backend.observe_all(&backend.group(&handle), &jobs).await;
        assert!(many.iter().all(|seen| seen.as_ref().unwrap().questions == std::slice::from_ref(&question)));

        assert_eq!(asking.give(&handle, &question, &yes()).await, Taken::Accepted, "{kind:?} {way:?}");
        assert_eq!(asking.give(&handle, &question, &yes()).await, Taken::Accepted, "{kind:?} {way:?}");
        assert_eq!(
            asking.give(&handle, &question, &Answer::Decline).await,
            Taken::TooLate,
            "{kind:?} {way:?}"
        );
        let seen = ended(&*asking.world.backend, &handle).await;
        assert_eq!(output(&seen).structured, Some(json!({"ship": true})), "{kind:?} {way:?}");
        // Another server knows the same.
        let other = asking.world.another(asking.more.clone()).await;
        let questions = other.questions().unwrap();
        if kind == Kind::LocalStack {
            let taken = questions.answer(&handle, &question.id, &yes()).await.unwrap();
            assert_eq!(taken, Taken::Accepted, "{way:?}");
        }
        let taken = questions.answer(&handle, &question.id, &Answer::Cancel).await.unwrap();
        assert_eq!(taken, Taken::TooLate, "{kind:?} {way:?}");
    }
}

/// A declined or dismissed question is an error that the state machine can catch.
#[tokio::test(flavor = "multi_thread")]
async fn decline_is_error_machine_can_catch() {
    for (kind, way) in [(Kind::LocalStack, Way::Queue), (Kind::MiniStack, Way::Activity)] {
        for (answer, error) in
            [(Answer::Decline, "taskbridge.Declined"), (Answer::Cancel, "taskbridge.Dismissed")]
        {
            let asking = Asking::by(kind, way).await;
            let catch = json!([{"ErrorEquals": [error], "Next": "Refused"}]);
            let states = json!({
                "First": asking.state(&well(), json!({"Catch": catch, "End": true})),
                "Refused": {"Type": "Pass", "End": true},
            });
            let machine = asking.world.machine(states).await;
            let handle = asking.start(&machine).await;
            let question = asking.asked(&handle).await;
            assert_eq!(asking.give(&handle, &question, &answer).await, Taken::Accepted, "{kind:?}");
            let seen = ended(&*asking.world.backend, &handle).await;
            assert_eq!(output(&seen).structured.as_ref().unwrap()["Error"], error, "{kind:?}");
        }
    }
}

/// The step gets heartbeats until the user answers.
/// The execution must not miss a heartbeat and be stopped in the meantime.
#[tokio::test(flavor = "multi_thread")]
async fn open_question_sends_heartbeats() {
    for way in [Way::Activity, Way::Queue] {
        let asking = Asking::by(Kind::LocalStack, way).await;
        let machine = asking.machine(&well(), json!({"HeartbeatSeconds": 4})).await;
        let handle = asking.start(&machine).await;
        let question = asking.asked(&handle).await;
        tokio::time::sleep(std::time::Duration::from_secs(9)).await;
        assert_eq!(asking.give(&handle, &question, &yes()).await, Taken::Accepted, "{way:?}");
        ended(&*asking.world.backend, &handle).await;
        assert_eq!(asking.times(&handle).await, 1, "{way:?}: the step was handed out once");
    }
}

/// A server that was killed asks the same question after its restart and takes the answer.
/// A server keeps questions only in memory, and Step Functions schedules the step again.
#[tokio::test(flavor = "multi_thread")]
async fn question_survives_server_kill() {
    for way in [Way::Activity, Way::Queue] {
        let mut asking = Asking::by(Kind::LocalStack, way).await;
        let machine = asking.machine(&well(), json!({"HeartbeatSeconds": 5})).await;
        let handle = asking.start(&machine).await;
        let question = asking.asked(&handle).await;
        let more = asking.more.clone();
        asking.world.killed(more).await;
        let seen = asking.world.backend.observe(&handle).await.unwrap();
        assert_eq!(
            seen.questions,
            std::slice::from_ref(&question),
            "{way:?}: the first look of the next one"
        );
        assert_eq!(asking.give(&handle, &question, &yes()).await, Taken::Accepted, "{way:?}");
        let seen = ended(&*asking.world.backend, &handle).await;
        assert_eq!(output(&seen).structured, Some(json!({"ship": true})), "{way:?}");
    }
}

/// An answer that arrives after the timeout of its step is too late.
#[tokio::test(flavor = "multi_thread")]
async fn answer_after_step_timeout_is_late() {
    for way in [Way::Activity, Way::Queue] {
        let asking = Asking::by(Kind::LocalStack, way).await;
        let catch = json!([{"ErrorEquals": ["States.ALL"], "Next": "Nap"}]);
        let more =
            json!({"HeartbeatSeconds": 2, "TimeoutSeconds": 3, "Retry": [], "Catch": catch, "End": true});
        let states = json!({
            "First": asking.state(&well(), more), "Nap": {"Type": "Wait", "Seconds": 600, "End": true},
        });
        let machine = asking.world.machine(states).await;
        let handle = asking.start(&machine).await;
        let question = asking.asked(&handle).await;
        until(&*asking.world.backend, &handle, "no question", |seen| seen.questions.is_empty().then_some(()))
            .await;
        assert_eq!(asking.give(&handle, &question, &yes()).await, Taken::TooLate, "{way:?}");
        asking.world.backend.cancel(&handle).await.unwrap();
    }
}

/// An invalid question fails its step with `taskbridge.BadQuestion` and the reason.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_question_fails_step_with_reason() {
    for (kind, way) in [(Kind::LocalStack, Way::Queue), (Kind::MiniStack, Way::Activity)] {
        let asking = Asking::by(kind, way).await;
        let machine = asking.machine(&json!({"text": "Ship it?"}), json!({})).await;
        let handle = asking.start(&machine).await;
        let seen = ended(&*asking.world.backend, &handle).await;
        let data = failure(&seen).structured.clone().unwrap();
        assert_eq!(data["error"], "taskbridge.BadQuestion", "{kind:?}");
        assert!(data["cause"].as_str().unwrap().contains("no `message`"), "{data}");
    }
}

/// The message of an answered question is deleted from the queue.
#[tokio::test(flavor = "multi_thread")]
async fn answered_queue_message_is_deleted() {
    let asking = Asking::by(Kind::LocalStack, Way::Queue).await;
    let machine = asking.machine(&well(), json!({})).await;
    let handle = asking.start(&machine).await;
    let question = asking.asked(&handle).await;
    assert_eq!(asking.give(&handle, &question, &yes()).await, Taken::Accepted);
    let (shown, hidden) = (
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
    );
    let attributes = asking.world.sqs.get_queue_attributes().queue_url(&asking.place);
    let left =
        attributes.attribute_names(shown.clone()).attribute_names(hidden.clone()).send().await.unwrap();
    let left = left.attributes.unwrap();
    assert_eq!((left[&shown].as_str(), left[&hidden].as_str()), ("0", "0"));
    ended(&*asking.world.backend, &handle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_ever_shown() {
    let asking = Asking::by(Kind::LocalStack, Way::Queue).await;
    let machine = asking.machine(&well(), json!({})).await;
    let handle = asking.start(&machine).await;
    let question = asking.asked(&handle).await;
    let history = asking.world.aws.get_execution_history().execution_arn(handle.as_str());
    let events = history.send().await.unwrap().events;
    let scheduled = events.iter().find_map(|event| event.task_scheduled_event_details.as_ref()).unwrap();
    let parameters: Value = serde_json::from_str(&scheduled.parameters).unwrap();
    let token = parameters["MessageBody"]["token"].as_str().unwrap();

    let seen = asking.world.backend.observe(&handle).await.unwrap();
    let log = asking.world.backend.logs().unwrap();
    let log = log.tail(&handle, &LogRequest { max_bytes: 100_000, search: None }).await.unwrap();
    // A message of AWS about a token can quote it.
    let quoted: &'static str = Box::leak(format!("Value '{token}' at 'taskToken'").into_boxed_str());
    let questions = asking.world.backend.questions().unwrap();
    let mut shown = format!("{seen:?} {} {log:?}", serde_json::to_string(&seen).unwrap());
    for code in ["ValidationException", "InvalidToken"] {
        asking.world.proxy.make("SendTaskSuccess", Fault::Answered(400, code, quoted));
        let error = questions.answer(&handle, &question.id, &yes()).await.unwrap_err();
        shown.push_str(&format!(" {error} {error:?}"));
    }
    assert!(shown.contains("SendTaskSuccess: ValidationException") && !shown.contains(token), "{shown}");
    assert!(log.text.contains("task scheduled"), "{}", log.text);
}

/// A status event of EventBridge on the queue is a hint to poll its execution.
/// The event has the format of EventBridge's documentation.
#[tokio::test(flavor = "multi_thread")]
async fn eventbridge_message_is_wakeup_hint() {
    let asking = Asking::by(Kind::MiniStack, Way::Queue).await;
    let arn = "arn:aws:states:us-east-1:000000000000:execution:m:tb-x";
    let event = json!({
        "version": "0", "id": "315c1398-40ff-a850-213b-158f73e60175",
        "detail-type": "Step Functions Execution Status Change", "source": "aws.states",
        "account": "000000000000", "time": "2026-02-26T19:42:21Z", "region": "us-east-1", "resources": [arn],
        "detail": {"executionArn": arn, "name": "tb-x", "status": "FAILED"},
    });
    let other = asking.world.another(asking.more.clone()).await;
    let sent = asking.world.sqs.send_message().queue_url(&asking.place).message_body(event.to_string());
    drop(asking);
    sent.send().await.unwrap();
    let hints = [other.wakeups().unwrap().next().await, other.wakeups().unwrap().next().await];
    assert_eq!(hints.map(|hint| hint.to_string()), [arn.to_owned(), format!("attached:{arn}")]);
}

/// The machines of README.md, with the account of the test.
#[tokio::test(flavor = "multi_thread")]
async fn the_machines_of_the_readme_ask() {
    let readme = include_str!("../../README.md");
    let machines: Vec<&str> =
        readme.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    for (way, text) in [Way::Activity, Way::Queue].into_iter().zip(&machines) {
        let asking = Asking::by(Kind::LocalStack, way).await;
        let text = text
            .replace("arn:aws:states:eu-central-1:123456789012:activity:ask", &asking.place)
            .replace("https://sqs.eu-central-1.amazonaws.com/123456789012/taskbridge", &asking.place);
        let definition: Value = serde_json::from_str(&text).unwrap();
        let machine = asking.world.define(definition, StateMachineType::Standard).await;
        for (answer, data) in [
            (Answer::Accept(Map::from_iter([("release".to_owned(), json!(true))])), json!({"release": true})),
            (Answer::Decline, json!({"release": false})),
        ] {
            let handle =
                asking.world.backend.start(&start(&machine, json!({"version": "1.2"}))).await.unwrap().handle;
            let question = asking.asked(&handle).await;
            assert_eq!(question.message, "Release 1.2?", "{way:?}");
            assert_eq!(asking.give(&handle, &question, &answer).await, Taken::Accepted, "{way:?}");
            let seen = ended(&*asking.world.backend, &handle).await;
            assert_eq!(output(&seen).structured, Some(data), "{way:?}");
        }
    }
    assert_eq!(machines.len(), 2);
}

/// Tests of the sdk's suite about questions. Tests that end with a stop use only MiniStack: in LocalStack, a
/// stop has no effect while a step waits for a token.
mod suite {
    use std::sync::Arc;

    use taskbridge_sdk::suite::{self, Claims, Fixture, Repeat};
    use taskbridge_sdk::{Backend, JobHandle, JobSpec, async_trait};

    use super::*;

    struct Asker {
        asking: Asking,
        machine: String,
    }

    impl Asker {
        async fn at(kind: Kind, way: Way) -> Self {
            let asking = Asking::by(kind, way).await;
            Self { machine: asking.machine(&well(), json!({})).await, asking }
        }

        fn job(&self) -> JobSpec {
            start(&self.machine, json!({}))
        }
    }

    #[async_trait]
    impl Fixture for Asker {
        const CLAIMS: Claims = Claims {
            repeat: Repeat::SameJob,
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
            troubles: &[],
        };

        fn backend(&self) -> Arc<dyn Backend> {
            self.asking.world.backend.clone()
        }

        fn succeeds(&self) -> (JobSpec, String) {
            (self.job(), "ship".to_owned())
        }

        fn fails(&self) -> JobSpec {
            self.job()
        }

        fn runs_long(&self) -> JobSpec {
            self.job()
        }

        fn unknown(&self) -> JobHandle {
            JobHandle::new(format!(
                "{}:{}",
                self.machine.replacen(":stateMachine:", ":execution:", 1),
                suite::fresh_key()
            ))
        }

        fn asks(&self) -> Option<suite::Asking> {
            let Answer::Accept(answer) = yes() else { return None };
            Some(suite::Asking { job: self.job(), answer })
        }

        fn patience(&self) -> std::time::Duration {
            std::time::Duration::from_secs(180)
        }
    }

    mod localstack {
        use super::*;
        taskbridge_sdk::behaviour_suite! { Asker::at(Kind::LocalStack, Way::Activity).await;
            answer_lets_the_job_go_on
            answer_given_again_says_the_same
            answer_that_came_first_stands
            answer_that_says_no_reaches_the_job
        }
    }

    mod ministack {
        use super::*;
        taskbridge_sdk::behaviour_suite! { Asker::at(Kind::MiniStack, Way::Queue).await;
            question_is_the_same_until_it_is_answered
            answer_lets_the_job_go_on
            answer_given_again_says_the_same
            answer_that_came_first_stands
            answer_that_says_no_reaches_the_job
            answer_nobody_asked_for_is_too_late
        }
    }
}
