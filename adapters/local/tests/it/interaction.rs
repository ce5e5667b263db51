//! Tests of progress, messages, questions and answers of a running job.

use std::fs;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, AnswerOutcome, Ask, JobSpec, JobState, Progress, Question};

use crate::world::{World, output, poll_until, poll_until_ended, script, texts};

/// Script that asks whether to continue, and prints the answer.
const ASK: &str = r#"
    cat > "$TASKBRIDGE_QUESTIONS/go.new" <<'END'
{"message": "Go on?", "schema": {"type": "object", "properties": {"sure": {"type": "boolean"}}}}
END
    mv "$TASKBRIDGE_QUESTIONS/go.new" "$TASKBRIDGE_QUESTIONS/go.json"
    while [ ! -e "$TASKBRIDGE_QUESTIONS/go.answer.json" ]; do sleep 0.02; done
    cat "$TASKBRIDGE_QUESTIONS/go.answer.json"
"#;

fn accept(sure: bool) -> Answer {
    Answer::Accept(Map::from_iter([("sure".to_owned(), json!(sure))]))
}

/// The last progress and message of an ended job stay the same in every poll.
#[tokio::test]
async fn progress_is_seen_during_and_after() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(
        r#"echo "progress 3/9 Hashing src" >> "$TASKBRIDGE_EVENTS"; while [ ! -e go ]; do sleep 0.02; done
           echo "progress 9/9" >> "$TASKBRIDGE_EVENTS"; echo "message All done" >> "$TASKBRIDGE_EVENTS""#,
    );
    let handle = backend.start(&job).await.unwrap().handle;
    let observation = poll_until(&*backend, &handle, "progress", |observation| {
        observation.progress.map(|_| observation.clone())
    })
    .await;
    assert_eq!(observation.progress, Some(Progress { done: 3.0, total: Some(9.0) }));
    assert_eq!(
        (observation.message.as_deref(), &observation.state),
        (Some("Hashing src"), &JobState::Running)
    );

    fs::write(world.job(&job.key).join("work/go"), "").unwrap();
    let end = poll_until_ended(&*backend, &handle).await;
    assert_eq!(end.progress, Some(Progress { done: 9.0, total: Some(9.0) }));
    assert_eq!(end.message.as_deref(), Some("All done"));
    assert!(end.since.unwrap() >= observation.since.unwrap());
    assert_eq!(backend.observe(&handle).await.unwrap(), end, "every poll returns the same end");
}

/// The job reads its answer, and a second answer or an unknown question is too late.
#[tokio::test]
async fn local_question_is_answered_once() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let questions = backend.abilities().questions.unwrap();
    let handle = backend.start(&script(ASK)).await.unwrap().handle;
    let question =
        poll_until(&*backend, &handle, "a question", |observation| observation.questions.first().cloned())
            .await;
    let schema = json!({"type": "object", "properties": {"sure": {"type": "boolean"}}});
    assert_eq!(question, Question::form(&*question.id, "Go on?", schema));
    assert!(question.id.starts_with("go."), "{question:?}");

    for unknown_id in ["stop", "../go", "go.json", "go.1", ""] {
        assert_eq!(
            questions.answer(&handle, unknown_id, &accept(true)).await.unwrap(),
            AnswerOutcome::TooLate,
            "{unknown_id}"
        );
    }
    assert_eq!(
        questions.answer(&handle, &question.id, &accept(true)).await.unwrap(),
        AnswerOutcome::Accepted
    );
    assert!(backend.observe(&handle).await.unwrap().questions.is_empty());
    let end = poll_until_ended(&*backend, &handle).await;
    assert_eq!(texts(output(&end)), ["{\"action\":\"accept\",\"content\":{\"sure\":true}}\n"]);

    assert_eq!(
        questions.answer(&handle, &question.id, &accept(true)).await.unwrap(),
        AnswerOutcome::Accepted,
        "the same answer again"
    );
    assert_eq!(
        questions.answer(&handle, &question.id, &accept(false)).await.unwrap(),
        AnswerOutcome::TooLate,
        "a different answer"
    );
}

/// Returns a job that asks this question and prints the answer, then waits until it may end.
fn job_asking(question: &str) -> JobSpec {
    script(&format!(
        r#"cd "$TASKBRIDGE_QUESTIONS"; cat > new <<'END'
{question}
END
        mv new q.json; while [ ! -e q.answer.json ]; do sleep 0.02; done
        cat q.answer.json; while [ ! -e over ]; do sleep 0.02; done; rm q.json
        while [ ! -e end ]; do sleep 0.02; done"#
    ))
}

/// Forms, pages, sampling and roots reach the client, and the answers reach the job.
#[tokio::test]
async fn every_question_kind_is_answered() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let request = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "Why?"}}],
        "maxTokens": 100
    });
    let form = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let object = |value: &Value| value.as_object().unwrap().clone();
    for (fields, ask, answer) in [
        (json!({"schema": form}), Ask::Form(form.clone()), json!({"n": 1})),
        (
            json!({"sampling": request}),
            Ask::Sampling(object(&request)),
            json!({"role": "assistant", "model": "m"}),
        ),
        (json!({"roots": {}}), Ask::Roots, json!({"roots": []})),
    ] {
        let mut question = fields;
        question["message"] = "Well?".into();
        let job = job_asking(&question.to_string());
        let handle = backend.start(&job).await.unwrap().handle;
        let received = poll_until(&*backend, &handle, "a question", |observation| {
            observation.questions.first().cloned()
        })
        .await;
        assert_eq!((received.message.as_str(), &received.ask), ("Well?", &ask));
        let acceptance = Answer::Accept(object(&answer));
        assert_eq!(
            backend.abilities().questions.unwrap().answer(&handle, &received.id, &acceptance).await.unwrap(),
            AnswerOutcome::Accepted
        );
        assert!(backend.observe(&handle).await.unwrap().questions.is_empty());
        let questions = world.job(&job.key).join("questions");
        fs::write(questions.join("over"), "").unwrap();
        fs::write(questions.join("end"), "").unwrap();
        let end = poll_until_ended(&*backend, &handle).await;
        let printed: Value = serde_json::from_str(texts(output(&end))[0]).unwrap();
        assert_eq!(printed, json!({"action": "accept", "content": answer}));
    }
}

/// An accepted page stays open until the job ends it, and a declined one is closed at once.
#[tokio::test]
async fn page_question_stays_until_done() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = job_asking(r#"{"message": "Pay", "url": "https://bank.example/pay"}"#);
    let handle = backend.start(&job).await.unwrap().handle;
    let question =
        poll_until(&*backend, &handle, "a question", |observation| observation.questions.first().cloned())
            .await;
    assert_eq!(question.ask, Ask::Url("https://bank.example/pay".into()));
    let acceptance = Answer::Accept(Map::new());
    assert_eq!(
        backend.abilities().questions.unwrap().answer(&handle, &question.id, &acceptance).await.unwrap(),
        AnswerOutcome::Accepted
    );
    assert_eq!(backend.observe(&handle).await.unwrap().questions, [question], "the page is being visited");
    let questions = world.job(&job.key).join("questions");
    fs::write(questions.join("over"), "").unwrap();
    poll_until(&*backend, &handle, "the end of the visit", |observation| {
        observation.questions.is_empty().then_some(())
    })
    .await;
    fs::write(questions.join("end"), "").unwrap();
    assert_eq!(
        texts(output(&poll_until_ended(&*backend, &handle).await)),
        ["{\"action\":\"accept\",\"content\":{}}\n"]
    );

    let job = job_asking(r#"{"message": "Pay", "url": "https://bank.example/pay"}"#);
    let handle = backend.start(&job).await.unwrap().handle;
    poll_until(&*backend, &handle, "a question", |observation| observation.questions.first().cloned()).await;
    let questions = backend.abilities().questions.unwrap();
    assert_eq!(questions.answer(&handle, "q", &Answer::Decline).await.unwrap(), AnswerOutcome::Accepted);
    assert!(backend.observe(&handle).await.unwrap().questions.is_empty(), "a declined page is closed");
}

/// The job reads that its question was declined, and succeeds.
#[tokio::test]
async fn job_decides_after_declined_question() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let handle = backend.start(&script(ASK)).await.unwrap().handle;
    poll_until(&*backend, &handle, "a question", |observation| observation.questions.first().cloned()).await;
    assert_eq!(
        backend.abilities().questions.unwrap().answer(&handle, "go", &Answer::Decline).await.unwrap(),
        AnswerOutcome::Accepted
    );
    assert_eq!(texts(output(&poll_until_ended(&*backend, &handle).await)), ["{\"action\":\"decline\"}\n"]);
}

#[tokio::test]
async fn answer_after_end_is_too_late() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(r#"echo '{"message": "?"}' > "$TASKBRIDGE_QUESTIONS/q.json""#);
    let handle = backend.start(&job).await.unwrap().handle;
    let end = poll_until_ended(&*backend, &handle).await;
    assert!(end.questions.is_empty());
    assert_eq!(
        backend.abilities().questions.unwrap().answer(&handle, "q", &Answer::Decline).await.unwrap(),
        AnswerOutcome::TooLate
    );
}

/// A question that is invalid is reported with its reason beside the valid ones.
#[tokio::test]
async fn questions_are_listed_oldest_first() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(
        r#"cd "$TASKBRIDGE_QUESTIONS"; echo '{"message": "first"}' > z.json; touch -d 2020-01-01 z.json
           echo '{"message": "second"}' > a.json; echo '{"mesage": "third"}' > wrong.json; exec sleep 600"#,
    );
    let handle = backend.start(&job).await.unwrap().handle;
    let observation = poll_until(&*backend, &handle, "the message about the question", |observation| {
        let has_problem =
            observation.message.as_deref().is_some_and(|message| message.contains("unknown field"));
        has_problem.then(|| observation.clone())
    });
    let observation = observation.await;
    let messages: Vec<&str> =
        observation.questions.iter().map(|question| question.message.as_str()).collect();
    assert_eq!(messages, ["first", "second"]);
    assert_eq!(observation.questions[0].ask, Ask::Form(json!({"type": "object", "properties": {}})));
    assert!(observation.message.unwrap().contains("wrong.json cannot be asked: unknown field `mesage`"));
}

#[tokio::test]
async fn a_question_asks_for_one_thing() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = job_asking(r#"{"message": "Pay", "url": "https://bank.example", "roots": {}}"#);
    let handle = backend.start(&job).await.unwrap().handle;
    let message = poll_until(&*backend, &handle, "the message about the question", |observation| {
        observation.message.clone()
    })
    .await;
    assert!(message.contains("q.json cannot be asked: only one of `schema`, `url`"), "{message}");
}

/// Script that asks twice under one name, and prints both answers.
const TWICE: &str = r#"cd "$TASKBRIDGE_QUESTIONS"
for message in First Second; do
    echo "{\"message\": \"$message?\"}" > new; mv new q.json
    while [ ! -e q.answer.json ]; do sleep 0.02; done
    cat q.answer.json; rm q.json q.answer.json
    while [ ! -e "$message" ]; do sleep 0.02; done
done"#;

#[tokio::test]
async fn reused_name_is_new_question() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let questions = backend.abilities().questions.unwrap();
    let job = script(TWICE);
    let handle = backend.start(&job).await.unwrap().handle;
    let first =
        poll_until(&*backend, &handle, "a question", |observation| observation.questions.first().cloned())
            .await;
    assert_eq!(
        backend.observe(&handle).await.unwrap().questions,
        std::slice::from_ref(&first),
        "the id is stable"
    );
    let (acceptance, refusal) = (Answer::Accept(Map::new()), Answer::Decline);
    assert_eq!(questions.answer(&handle, &first.id, &acceptance).await.unwrap(), AnswerOutcome::Accepted);
    fs::write(world.job(&job.key).join("questions/First"), "").unwrap();
    let is_second = |question: &&Question| question.message == "Second?";
    let second = poll_until(&*backend, &handle, "the second question", |observation| {
        observation.questions.iter().find(is_second).cloned()
    })
    .await;
    assert_ne!(first.id, second.id);
    // The first answer, sent once more, does not answer the second question.
    assert_eq!(questions.answer(&handle, &first.id, &acceptance).await.unwrap(), AnswerOutcome::TooLate);
    assert_eq!(backend.observe(&handle).await.unwrap().questions, std::slice::from_ref(&second));
    assert_eq!(questions.answer(&handle, &second.id, &refusal).await.unwrap(), AnswerOutcome::Accepted);
    fs::write(world.job(&job.key).join("questions/Second"), "").unwrap();
    let end = poll_until_ended(&*backend, &handle).await;
    assert_eq!(texts(output(&end)), ["{\"action\":\"accept\",\"content\":{}}\n{\"action\":\"decline\"}\n"]);
}
