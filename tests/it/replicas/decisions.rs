//! Tests for decisions that several replicas make at the same time: answers to a question, and a cancellation
//! against the end of the job. One decision takes effect, and the later caller is informed.

use futures_util::future::{join, join_all, join3};
use serde_json::{Value, json};
use taskbridge_sdk::{Answer, JobState, Observation};

use super::{modern_clients, result_text, sessions, start_three};
use crate::v2025::bench::Client;

/// A tool whose questions a model may answer.
const MODELLED: &str = "[tools.modelled]\nbackend = \"stage\"\ntarget = {}\nanswer_by_model = true\n\
                        input_schema = { type = \"object\" }\n";

/// How many times each race runs.
const ROUNDS: usize = 5;

fn form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
}

fn accept(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

/// Returns the name in the single answer that the job received.
fn name(answers: &[Answer]) -> String {
    let [Answer::Accept(fields)] = answers else { panic!("not one answer: {answers:?}") };
    fields["name"].as_str().unwrap().to_owned()
}

/// Calls `task_answer`; returns whether the answer was accepted, and the text of the result.
async fn answer_by_model(client: &Client, task: &str, name: &str) -> (bool, String) {
    let arguments = json!({"task_id": task, "question": "q1", "content": {"name": name}});
    let result = client.get("tools/call", json!({"name": "task_answer", "arguments": arguments})).await;
    (result["isError"] != true, result_text(&result).to_owned())
}

/// Of the answers that arrive at all replicas at once, one takes effect, and every caller sees the same.
#[tokio::test]
async fn concurrent_answers_apply_once() {
    let server = start_three(MODELLED).await;
    let (clients, [modern, ..]) = (sessions(&server).await, modern_clients(&server));
    let [a, b, c] = &clients;
    for round in 1..=ROUNDS {
        let id = a.start("modelled", json!({ "n": round })).await;
        let job = server.engine.job(round).await;
        let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
        job.ask("who", "Who?", form());
        let question = waiting.message().await;
        let update = json!({"taskId": id, "inputResponses": {"q1": accept("updated")}});
        let (posted, updated, (model_accepted, message)) = join3(
            b.reply(&question, accept("posted")),
            modern.request("tasks/update", update.clone()),
            answer_by_model(c, &id, "by a model"),
        )
        .await;
        // The question to the client is withdrawn, and a late answer of the client changes nothing.
        assert_eq!(posted, 202);
        assert_eq!(updated.unwrap()["resultType"], "complete");
        job.wait_for_answer().await;
        let winner = name(&job.answers());
        assert_eq!(model_accepted, winner == "by a model", "{message}, and the job was told {winner:?}");
        if !model_accepted {
            assert!(message.contains("no longer open") || message.contains("no open question"), "{message}");
        }

        // Each path is tried again while the job has the answer, and after the job has ended.
        for ended in [false, true] {
            if ended {
                job.succeed("over");
                assert_eq!(result_text(&c.result(&id).await.unwrap()), "over");
            }
            assert_eq!(c.reply(&question, accept("late")).await, 202);
            assert_eq!(
                modern.request("tasks/update", update.clone()).await.unwrap()["resultType"],
                "complete"
            );
            let (accepted, message) = answer_by_model(b, &id, "late").await;
            assert!(!accepted && message.contains("no open question"), "{message}");
            assert_eq!(name(&job.answers()), winner);
        }
        assert_eq!(result_text(&waiting.end().await.unwrap()), "over");
    }
}

/// Of three models that answer at once, one is accepted, and the others learn that they were late.
#[tokio::test]
async fn late_model_answer_is_refused() {
    let server = start_three(MODELLED).await;
    let clients = sessions(&server).await;
    for round in 1..=ROUNDS {
        let id = clients[0].start("modelled", json!({ "n": round })).await;
        let job = server.engine.job(round).await;
        job.ask("who", "Who?", form());
        clients[1].wait_for_status(&id, "input_required").await;
        let names = ["first", "second", "third"];
        let results = join_all((0..3).map(|n| answer_by_model(&clients[n], &id, names[n]))).await;
        job.wait_for_answer().await;
        let accepted: Vec<&str> = (0..3).filter(|n| results[*n].0).map(|n| names[n]).collect();
        assert_eq!(accepted, [name(&job.answers())], "{results:?}");
    }
}

#[tokio::test]
async fn answer_to_withdrawn_question_is_ignored() {
    let server = start_three(MODELLED).await;
    let ([a, b, c], [modern, ..]) = (sessions(&server).await, modern_clients(&server));
    let id = a.start("modelled", json!({})).await;
    let job = server.engine.job(1).await;
    let mut waiting = a.open("tasks/result", json!({ "taskId": id })).await;
    job.ask("who", "Who?", form());
    let question = waiting.message().await;
    // The job continues without an answer.
    job.show(Observation::new(JobState::Running));
    c.wait_for_status(&id, "working").await;
    let update = json!({"taskId": id, "inputResponses": {"q1": accept("late")}});
    let (posted, updated) =
        join(b.reply(&question, accept("late")), modern.request("tasks/update", update)).await;
    assert_eq!((posted, updated.unwrap()["resultType"].as_str()), (202, Some("complete")));
    let (accepted, message) = answer_by_model(&c, &id, "late").await;
    assert!(!accepted && message.contains("no open question"), "{message}");
    job.succeed("by itself");
    assert_eq!(result_text(&c.result(&id).await.unwrap()), "by itself");
    assert!(job.answers().is_empty());
}

/// A cancellation races with the end of the job, and all replicas report the same outcome.
#[tokio::test]
async fn first_write_decides_cancel_or_end() {
    let server = start_three("").await;
    let clients = sessions(&server).await;
    let cancel = async |n: usize, id: &str| clients[n].try_get("tasks/cancel", json!({ "taskId": id })).await;
    for round in 1..=ROUNDS {
        let id = clients[round % 3].start("work", json!({ "n": round })).await;
        let job = server.engine.job(round).await;
        let ends = async {
            // The delay varies, so that each side wins some rounds.
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
            Err((code, message)) => {
                let already = "Cannot cancel task: already in terminal status 'completed'";
                assert_eq!((*code, message.as_str()), (-32602, already));
                "completed"
            }
        };
        // All clients see the same result from then on, whichever replica watched the job and whatever the
        // job did later.
        for client in &clients {
            assert_eq!(client.wait_for_status(&id, status).await["status"], status);
            let result = client.result(&id).await;
            match status {
                "completed" => assert_eq!(result_text(&result.unwrap()), "done"),
                _ => assert!(!result.is_ok_and(|result| result_text(&result) == "done")),
            }
        }
        assert!(cancel((round + 1) % 3, &id).await.is_err(), "it has ended");
    }
}

/// Covers a cancellation before the end, one after it, and one that is only a request.
#[tokio::test]
async fn cancel_order_holds_at_all_replicas() {
    let server = start_three("").await;
    let ([a, b, c], [modern, ..]) = (sessions(&server).await, modern_clients(&server));
    let id = |task: &Value| json!({ "taskId": task });
    // Cancelled first: the job's success comes too late, at whichever replica.
    let first = a.start("work", json!({"n": 1})).await;
    assert_eq!(b.get("tasks/cancel", id(&json!(first))).await["status"], "cancelled");
    let job = server.engine.job(1).await;
    job.wait_for_cancel().await;
    job.succeed("too late");
    // Ended first: the cancellation is refused.
    let second = a.start("work", json!({"n": 2})).await;
    server.engine.job(2).await.succeed("in time");
    c.wait_for_status(&second, "completed").await;
    assert!(
        b.expect_error("tasks/cancel", id(&json!(second))).await.1.contains("terminal status 'completed'")
    );
    // In the generation where a cancellation is only a request, the result of the job decides.
    let third = modern.call("work", &json!({"n": 3}), json!({})).await.unwrap()["taskId"].clone();
    assert_eq!(modern.request("tasks/cancel", id(&third)).await.unwrap()["resultType"], "complete");
    let job = server.engine.job(3).await;
    job.wait_for_cancel().await;
    assert_eq!(c.task(third.as_str().unwrap()).await["status"], "working");
    job.succeed("all the same");
    assert_eq!(c.wait_for_status(third.as_str().unwrap(), "completed").await["status"], "completed");
    for client in [&a, &b, &c] {
        assert_eq!(client.task(&first).await["status"], "cancelled");
        assert_eq!(result_text(&client.result(&second).await.unwrap()), "in time");
    }
}
