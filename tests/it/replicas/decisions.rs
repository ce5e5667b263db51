//! What can be decided once only, decided at several replicas at the same moment: answers to a question, and whether a
//! task was cancelled or its job was quicker. It has one effect, and whoever comes second is told so.

use futures_util::future::{join, join_all, join3};
use serde_json::{Value, json};
use taskbridge_sdk::{Answer, JobState, Observation};

use super::{moderns, said, sessions, three};
use crate::v2025::bench::Client;

/// A tool whose questions a model may answer.
const MODELLED: &str = "[tools.modelled]\nbackend = \"stage\"\ntarget = {}\nanswer_by_model = true\n\
                        input_schema = { type = \"object\" }\n";

/// How often each race is run.
const ROUNDS: usize = 5;

fn form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
}

fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// The name in the one answer that the job was given.
fn name(answers: &[Answer]) -> String {
    let [Answer::Accept(fields)] = answers else { panic!("not one answer: {answers:?}") };
    fields["name"].as_str().unwrap().to_owned()
}

/// `task_answer`: whether it was taken, and what was said.
async fn by_model(client: &Client, task: &str, name: &str) -> (bool, String) {
    let arguments = json!({"task_id": task, "question": "q1", "content": {"name": name}});
    let told = client.get("tools/call", json!({"name": "task_answer", "arguments": arguments})).await;
    (told["isError"] != true, said(&told).to_owned())
}

#[tokio::test]
async fn of_answers_at_all_replicas_at_once_one_stands() {
    let server = three(MODELLED).await;
    let (clients, [modern, ..]) = (sessions(&server).await, moderns(&server));
    let [a, b, c] = &clients;
    for round in 1..=ROUNDS {
        let id = a.start("modelled", json!({ "n": round })).await;
        let job = server.stage.job(round).await;
        let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
        job.ask("who", "Who?", form());
        let question = waiting.message().await;
        let update = json!({"taskId": id, "inputResponses": {"q1": accept("updated")}});
        let (posted, updated, (model, words)) = join3(
            b.reply(&question, accept("posted")),
            modern.request("tasks/update", update.clone()),
            by_model(c, &id, "by a model"),
        )
        .await;
        // What was asked of a client is taken from it, and what it sends late changes nothing.
        assert_eq!(posted, 202);
        assert_eq!(updated.unwrap()["resultType"], "complete");
        job.answered().await;
        let won = name(&job.answers());
        assert_eq!(model, won == "by a model", "{words}, and the job was told {won:?}");
        if !model {
            assert!(words.contains("no longer open") || words.contains("no open question"), "{words}");
        }

        // Once more at each, while the job has it, and when the job is over.
        for over in [false, true] {
            if over {
                job.succeed("over");
                assert_eq!(said(&c.result(&id).await.unwrap()), "over");
            }
            assert_eq!(c.reply(&question, accept("late")).await, 202);
            assert_eq!(
                modern.request("tasks/update", update.clone()).await.unwrap()["resultType"],
                "complete"
            );
            let (taken, words) = by_model(b, &id, "late").await;
            assert!(!taken && words.contains("no open question"), "{words}");
            assert_eq!(name(&job.answers()), won);
        }
        assert_eq!(said(&waiting.end().await.unwrap()), "over");
    }
}

#[tokio::test]
async fn of_two_models_that_answer_at_once_one_is_told_that_it_was_late() {
    let server = three(MODELLED).await;
    let clients = sessions(&server).await;
    for round in 1..=ROUNDS {
        let id = clients[0].start("modelled", json!({ "n": round })).await;
        let job = server.stage.job(round).await;
        job.ask("who", "Who?", form());
        clients[1].until(&id, "input_required").await;
        let names = ["first", "second", "third"];
        let told = join_all((0..3).map(|n| by_model(&clients[n], &id, names[n]))).await;
        job.answered().await;
        let taken: Vec<&str> = (0..3).filter(|n| told[*n].0).map(|n| names[n]).collect();
        assert_eq!(taken, [name(&job.answers())], "{told:?}");
    }
}

#[tokio::test]
async fn an_answer_to_what_the_job_no_longer_asks_has_no_effect() {
    let server = three(MODELLED).await;
    let ([a, b, c], [modern, ..]) = (sessions(&server).await, moderns(&server));
    let id = a.start("modelled", json!({})).await;
    let job = server.stage.job(1).await;
    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let question = waiting.message().await;
    // The job goes on by itself.
    job.show(Observation::new(JobState::Running));
    c.until(&id, "working").await;
    let update = json!({"taskId": id, "inputResponses": {"q1": accept("late")}});
    let (posted, updated) =
        join(b.reply(&question, accept("late")), modern.request("tasks/update", update)).await;
    assert_eq!((posted, updated.unwrap()["resultType"].as_str()), (202, Some("complete")));
    let (taken, words) = by_model(&c, &id, "late").await;
    assert!(!taken && words.contains("no open question"), "{words}");
    job.succeed("by itself");
    assert_eq!(said(&c.result(&id).await.unwrap()), "by itself");
    assert!(job.answers().is_empty());
}

#[tokio::test]
async fn a_cancel_and_the_end_of_the_job_are_settled_by_what_was_written_first() {
    let server = three("").await;
    let clients = sessions(&server).await;
    let cancel = async |n: usize, id: &str| clients[n].ask("tasks/cancel", json!({ "taskId": id })).await;
    for round in 1..=ROUNDS {
        let id = clients[round % 3].start("work", json!({ "n": round })).await;
        let job = server.stage.job(round).await;
        let ends = async {
            // Sooner and later, so that now the one is first and now the other.
            for _ in 1..round * 40 {
                tokio::task::yield_now().await;
            }
            job.succeed("done");
        };
        let (cancelled, ()) = join(cancel(round % 3, &id), ends).await;
        let status = match &cancelled {
            Ok(task) => {
                assert_eq!(task["status"], "cancelled");
                "cancelled"
            }
            Err((code, words)) => {
                let already = "Cannot cancel task: already in terminal status 'completed'";
                assert_eq!((*code, words.as_str()), (-32602, already));
                "completed"
            }
        };
        // Nobody is ever told anything else, whoever watched the job and whatever it did then.
        for client in &clients {
            assert_eq!(client.until(&id, status).await["status"], status);
            let result = client.result(&id).await;
            match status {
                "completed" => assert_eq!(said(&result.unwrap()), "done"),
                _ => assert!(!result.is_ok_and(|result| said(&result) == "done")),
            }
        }
        assert!(cancel((round + 1) % 3, &id).await.is_err(), "it has ended");
    }
}

#[tokio::test]
async fn either_order_of_a_cancel_and_an_end_holds_at_all_replicas() {
    let server = three("").await;
    let ([a, b, c], [modern, ..]) = (sessions(&server).await, moderns(&server));
    let id = |task: &Value| json!({ "taskId": task });
    // Cancelled first: the job's success, seen by whichever replica, comes too late.
    let first = a.start("work", json!({"n": 1})).await;
    assert_eq!(b.get("tasks/cancel", id(&json!(first))).await["status"], "cancelled");
    let job = server.stage.job(1).await;
    job.cancelled().await;
    job.succeed("too late");
    // Ended first: cancelling is refused.
    let second = a.start("work", json!({"n": 2})).await;
    server.stage.job(2).await.succeed("in time");
    c.until(&second, "completed").await;
    assert!(b.refused("tasks/cancel", id(&json!(second))).await.1.contains("terminal status 'completed'"));
    // Where a client only asks for it, the job has the last word.
    let third = modern.call("work", &json!({"n": 3}), json!({})).await.unwrap()["taskId"].clone();
    assert_eq!(modern.request("tasks/cancel", id(&third)).await.unwrap()["resultType"], "complete");
    let job = server.stage.job(3).await;
    job.cancelled().await;
    assert_eq!(c.task(third.as_str().unwrap()).await["status"], "working");
    job.succeed("all the same");
    assert_eq!(c.until(third.as_str().unwrap(), "completed").await["status"], "completed");
    for client in [&a, &b, &c] {
        assert_eq!(client.task(&first).await["status"], "cancelled");
        assert_eq!(said(&client.result(&second).await.unwrap()), "in time");
    }
}
