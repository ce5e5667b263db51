//! Tests of progress, messages, questions and answers of a running job.

use std::fs;

use serde_json::{Map, Value, json};
use taskbridge_sdk::{Answer, Ask, JobSpec, JobState, Progress, Question, Taken};

use crate::world::{World, ended, output, script, texts, until};

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
    let seen = until(&*backend, &handle, "progress", |seen| seen.progress.map(|_| seen.clone())).await;
    assert_eq!(seen.progress, Some(Progress { done: 3.0, total: Some(9.0) }));
    assert_eq!((seen.message.as_deref(), &seen.state), (Some("Hashing src"), &JobState::Running));

    fs::write(world.job(&job.key).join("work/go"), "").unwrap();
    let end = ended(&*backend, &handle).await;
    assert_eq!(end.progress, Some(Progress { done: 9.0, total: Some(9.0) }));
    assert_eq!(end.message.as_deref(), Some("All done"));
    assert!(end.since.unwrap() >= seen.since.unwrap());
    assert_eq!(backend.observe(&handle).await.unwrap(), end, "an end is seen the same every time");
}

/// The job reads its answer, and a second answer or an unknown question is too late.
#[tokio::test]
async fn local_question_is_answered_once() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let questions = backend.questions().unwrap();
    let handle = backend.start(&script(ASK)).await.unwrap().handle;
    let asked = until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
    let schema = json!({"type": "object", "properties": {"sure": {"type": "boolean"}}});
    assert_eq!(asked, Question::form(&*asked.id, "Go on?", schema));
    assert!(asked.id.starts_with("go."), "{asked:?}");

    for never in ["stop", "../go", "go.json", "go.1", ""] {
        assert_eq!(questions.answer(&handle, never, &accept(true)).await.unwrap(), Taken::TooLate, "{never}");
    }
    assert_eq!(questions.answer(&handle, &asked.id, &accept(true)).await.unwrap(), Taken::Accepted);
    assert!(backend.observe(&handle).await.unwrap().questions.is_empty());
    let end = ended(&*backend, &handle).await;
    assert_eq!(texts(output(&end)), ["{\"action\":\"accept\",\"content\":{\"sure\":true}}\n"]);

    assert_eq!(
        questions.answer(&handle, &asked.id, &accept(true)).await.unwrap(),
        Taken::Accepted,
        "the same again"
    );
    assert_eq!(
        questions.answer(&handle, &asked.id, &accept(false)).await.unwrap(),
        Taken::TooLate,
        "another one"
    );
}

/// Returns a job that asks this question and prints the answer, then waits until it may end.
fn asks_for(question: &str) -> JobSpec {
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
    for (wanted, ask, answer) in [
        (json!({"schema": form}), Ask::Form(form.clone()), json!({"n": 1})),
        (
            json!({"sampling": request}),
            Ask::Sampling(object(&request)),
            json!({"role": "assistant", "model": "m"}),
        ),
        (json!({"roots": {}}), Ask::Roots, json!({"roots": []})),
    ] {
        let mut question = wanted;
        question["message"] = "Well?".into();
        let job = asks_for(&question.to_string());
        let handle = backend.start(&job).await.unwrap().handle;
        let asked = until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
        assert_eq!((asked.message.as_str(), &asked.ask), ("Well?", &ask));
        let given = Answer::Accept(object(&answer));
        assert_eq!(
            backend.questions().unwrap().answer(&handle, &asked.id, &given).await.unwrap(),
            Taken::Accepted
        );
        assert!(backend.observe(&handle).await.unwrap().questions.is_empty());
        let questions = world.job(&job.key).join("questions");
        fs::write(questions.join("over"), "").unwrap();
        fs::write(questions.join("end"), "").unwrap();
        let end = ended(&*backend, &handle).await;
        let told: Value = serde_json::from_str(texts(output(&end))[0]).unwrap();
        assert_eq!(told, json!({"action": "accept", "content": answer}));
    }
}

/// An accepted page stays open until the job ends it, and a declined one is closed at once.
#[tokio::test]
async fn page_question_stays_until_done() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = asks_for(r#"{"message": "Pay", "url": "https://bank.example/pay"}"#);
    let handle = backend.start(&job).await.unwrap().handle;
    let asked = until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
    assert_eq!(asked.ask, Ask::Url("https://bank.example/pay".into()));
    let yes = Answer::Accept(Map::new());
    assert_eq!(backend.questions().unwrap().answer(&handle, &asked.id, &yes).await.unwrap(), Taken::Accepted);
    assert_eq!(backend.observe(&handle).await.unwrap().questions, [asked], "somebody is at the page");
    let questions = world.job(&job.key).join("questions");
    fs::write(questions.join("over"), "").unwrap();
    until(&*backend, &handle, "the end of the visit", |seen| seen.questions.is_empty().then_some(())).await;
    fs::write(questions.join("end"), "").unwrap();
    assert_eq!(texts(output(&ended(&*backend, &handle).await)), ["{\"action\":\"accept\",\"content\":{}}\n"]);

    let job = asks_for(r#"{"message": "Pay", "url": "https://bank.example/pay"}"#);
    let handle = backend.start(&job).await.unwrap().handle;
    until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
    let questions = backend.questions().unwrap();
    assert_eq!(questions.answer(&handle, "q", &Answer::Decline).await.unwrap(), Taken::Accepted);
    assert!(backend.observe(&handle).await.unwrap().questions.is_empty(), "nobody goes there");
}

/// The job reads that its question was declined, and succeeds.
#[tokio::test]
async fn job_decides_after_declined_question() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let handle = backend.start(&script(ASK)).await.unwrap().handle;
    until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
    assert_eq!(
        backend.questions().unwrap().answer(&handle, "go", &Answer::Decline).await.unwrap(),
        Taken::Accepted
    );
    assert_eq!(texts(output(&ended(&*backend, &handle).await)), ["{\"action\":\"decline\"}\n"]);
}

#[tokio::test]
async fn answer_after_end_is_too_late() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = script(r#"echo '{"message": "?"}' > "$TASKBRIDGE_QUESTIONS/q.json""#);
    let handle = backend.start(&job).await.unwrap().handle;
    let end = ended(&*backend, &handle).await;
    assert!(end.questions.is_empty());
    assert_eq!(
        backend.questions().unwrap().answer(&handle, "q", &Answer::Decline).await.unwrap(),
        Taken::TooLate
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
    let seen = until(&*backend, &handle, "a complaint", |seen| {
        let complains = seen.message.as_deref().is_some_and(|message| message.contains("unknown field"));
        complains.then(|| seen.clone())
    });
    let seen = seen.await;
    let messages: Vec<&str> = seen.questions.iter().map(|question| question.message.as_str()).collect();
    assert_eq!(messages, ["first", "second"]);
    assert_eq!(seen.questions[0].ask, Ask::Form(json!({"type": "object", "properties": {}})));
    assert!(seen.message.unwrap().contains("wrong.json cannot be asked: unknown field `mesage`"));
}

#[tokio::test]
async fn a_question_asks_for_one_thing() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let job = asks_for(r#"{"message": "Pay", "url": "https://bank.example", "roots": {}}"#);
    let handle = backend.start(&job).await.unwrap().handle;
    let message = until(&*backend, &handle, "a complaint", |seen| seen.message.clone()).await;
    assert!(message.contains("q.json cannot be asked: it must have one of `schema`, `url`"), "{message}");
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
    let questions = backend.questions().unwrap();
    let job = script(TWICE);
    let handle = backend.start(&job).await.unwrap().handle;
    let first = until(&*backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
    assert_eq!(
        backend.observe(&handle).await.unwrap().questions,
        std::slice::from_ref(&first),
        "the id is stable"
    );
    let (yes, no) = (Answer::Accept(Map::new()), Answer::Decline);
    assert_eq!(questions.answer(&handle, &first.id, &yes).await.unwrap(), Taken::Accepted);
    fs::write(world.job(&job.key).join("questions/First"), "").unwrap();
    let is_second = |question: &&Question| question.message == "Second?";
    let second = until(&*backend, &handle, "the second question", |seen| {
        seen.questions.iter().find(is_second).cloned()
    })
    .await;
    assert_ne!(first.id, second.id);
    // The first answer, sent once more, does not answer the second question.
    assert_eq!(questions.answer(&handle, &first.id, &yes).await.unwrap(), Taken::TooLate);
    assert_eq!(backend.observe(&handle).await.unwrap().questions, std::slice::from_ref(&second));
    assert_eq!(questions.answer(&handle, &second.id, &no).await.unwrap(), Taken::Accepted);
    fs::write(world.job(&job.key).join("questions/Second"), "").unwrap();
    let end = ended(&*backend, &handle).await;
    assert_eq!(texts(output(&end)), ["{\"action\":\"accept\",\"content\":{}}\n{\"action\":\"decline\"}\n"]);
}
