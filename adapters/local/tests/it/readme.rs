//! Tests that run the examples of README.md.

use serde_json::{Map, Value, json};
use taskbridge_sdk::suite::job;
use taskbridge_sdk::{Answer, AnswerOutcome, Backend, Observation};

use crate::world::{World, output, poll_until, poll_until_ended, texts};

/// Returns the example in the code block that starts with this info string.
fn example(opening: &str) -> &'static str {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once(&format!("```{opening}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs an example and accepts its question.
async fn run(backend: &dyn Backend, command: Value) -> Observation {
    let handle = backend.start(&job(json!({"command": command}), json!({}))).await.unwrap().handle;
    let question =
        poll_until(backend, &handle, "a question", |observation| observation.questions.first().cloned())
            .await;
    let acceptance = Answer::Accept(Map::from_iter([("sure".to_owned(), json!(true))]));
    assert_eq!(
        backend.abilities().questions.unwrap().answer(&handle, &question.id, &acceptance).await.unwrap(),
        AnswerOutcome::Accepted
    );
    poll_until_ended(backend, &handle).await
}

#[tokio::test]
async fn the_shell_example_packs_a_folder() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let end = run(&*backend, json!(["sh", "-c", example("sh job")])).await;
    assert_eq!(output(&end).structured, Some(json!({"packed": true})));
    assert_eq!(output(&end).artifacts[0].name, "folder.tar.gz");
    assert_eq!(end.message.as_deref(), Some("Packed"));
}

#[tokio::test]
async fn the_python_example_draws_a_dot() {
    let world = World::new();
    let backend = world.connect(json!({})).await;
    let end = run(&*backend, json!(["python3", "-c", example("python job")])).await;
    assert_eq!(output(&end).structured, Some(json!({"answer": "accept"})));
    assert_eq!((texts(output(&end)), output(&end).content.len()), (vec!["A red dot."], 2));
    assert_eq!(output(&end).artifacts[0].mime_type.as_deref(), Some("image/gif"));
}
