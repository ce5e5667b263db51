//! The clients. Each sends every request to the next replica in turn, like a load balancer without affinity.
//! It repeats the request at another replica after a lost connection, a timeout, or a temporary error of the
//! server. A repeated call has the same idempotency key. Any other unexpected response fails the run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::load::{Load, Phase};
use super::plan::{Ending, Manner, Plan, Speaker};
use super::world::World;
use crate::support::{Client, Fault, Modern, Random, text};

/// Timeout of a response that should arrive at once. The client then drops the connection.
const PROMPT: Duration = Duration::from_secs(10);

/// Timeout of a response that waits for the job.
const PATIENT: Duration = Duration::from_secs(20);

/// Time limit for pending work once nothing breaks any more.
pub(super) const REST: Duration = Duration::from_secs(120);

/// Polling interval.
const POLL: Duration = Duration::from_millis(200);

/// A finished call.
#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) plan: Plan,
    /// Its task, if the client received one.
    pub(super) task: Option<String>,
    pub(super) ending: Ending,
    /// The duration of the call beyond its job's.
    pub(super) overhead: Duration,
    /// The phase of the call, if it is measured.
    pub(super) phase: Option<Phase>,
}

/// Makes all calls and follows each to its end. One extra call runs alongside them.
pub(super) async fn call_all(world: &Arc<World>, load: &Load) -> Vec<Done> {
    let first = Caller::first(world).await;
    let companion = first.another(load.seed).await;
    let plan = Plan::companion(load.calls);
    let task = companion.start_old(plan).await;
    let mut callers = FuturesUnordered::new();
    for (number, lane) in load.callers().enumerate() {
        let caller = first.another(load.seed ^ number as u64).await;
        callers.push(async move {
            let mut done = Vec::new();
            while let Some(plan) = load.next(lane).await {
                let (phase, began) = (load.phase(&plan), Instant::now());
                let (task, ending) = caller.run(plan).await;
                let overhead = began.elapsed().saturating_sub(plan.length());
                let phase = phase.filter(|_| phase == load.phase(&plan));
                load.ended(lane, plan);
                done.push(Done { plan, task, ending, overhead, phase });
            }
            done
        });
    }
    let mut done = Vec::new();
    while let Some(more) = callers.next().await {
        done.extend(more);
    }
    // The server only gives up on a job whose polls make the adapter panic (even a cancelled one) while
    // polls of another job succeed.
    let until = Instant::now() + REST;
    while world.open_tasks(plan.engine).await > 1 && Instant::now() < until {
        tokio::time::sleep(POLL).await;
    }
    let ending = companion.follow_old(plan, &task).await;
    done.push(Done { plan, task: Some(task), ending, overhead: Duration::ZERO, phase: None });
    done
}

/// Repeats calls under their keys, and returns what their clients get now.
pub(super) async fn call_again(world: &World, load: &Load, done: &[Done]) -> Vec<Done> {
    let first = Caller::first(world).await;
    let calls = tokio::sync::Mutex::new(done.iter());
    let mut callers = FuturesUnordered::new();
    for number in 0..load.callers {
        let (caller, calls) = (first.another(number as u64).await, &calls);
        callers.push(async move {
            let mut again = Vec::new();
            loop {
                let Some(call) = calls.lock().await.next() else { return again };
                let plan = call.plan.waiting();
                let (task, ending) = caller.run(plan).await;
                again.push(Done { plan, task, ending, overhead: Duration::ZERO, phase: None });
            }
        });
    }
    let mut again = Vec::new();
    while let Some(more) = callers.next().await {
        again.extend(more);
    }
    again
}

/// One client of each kind.
struct Caller<'a> {
    world: &'a World,
    old: Client,
    new: Modern,
    plain: Modern,
    random: parking_lot::Mutex<Random>,
}

impl<'a> Caller<'a> {
    async fn first(world: &'a World) -> Self {
        let old = Client::open(&world.next()).await.unwrap();
        let (new, plain) = (Modern::with_tasks(&world.next()), Modern::without_tasks(&world.next()));
        Self { world, old, new, plain, random: parking_lot::Mutex::new(Random::new(0)) }
    }

    /// Creates a caller with its own session over the same connections.
    async fn another(&self, seed: u64) -> Self {
        let old = self.old.another().await.unwrap();
        let (new, plain) = (self.new.clone(), self.plain.clone());
        Self { world: self.world, old, new, plain, random: parking_lot::Mutex::new(Random::new(seed)) }
    }

    /// Makes one call, and returns the id and the ending of its task.
    async fn run(&self, plan: Plan) -> (Option<String>, Ending) {
        match plan.speaker {
            Speaker::Old => {
                let task = self.start_old(plan).await;
                let ending = self.follow_old(plan, &task).await;
                (Some(task), ending)
            }
            Speaker::OldPlain => (None, self.call_old(plan).await),
            Speaker::New => self.call_new(plan).await,
            Speaker::NewPlain => (None, self.call_plain(plan).await),
        }
    }

    /// Sends a request to one replica after another until one answers.
    async fn insist<T>(
        &self,
        patience: Duration,
        request: impl AsyncFn(&str) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        loop {
            let answer = tokio::time::timeout(patience, request(&self.world.next())).await;
            let trouble = match answer {
                Err(_) => "requests given up, for no answer came",
                Ok(Err(fault)) => match passing(&fault) {
                    Some(trouble) => trouble,
                    None => return Err(fault),
                },
                Ok(Ok(answer)) => return Ok(answer),
            };
            self.world.count(trouble);
            let pause = self.random.lock().millis(300);
            tokio::time::sleep(Duration::from_millis(50) + pause).await;
        }
    }

    async fn start_old(&self, plan: Plan) -> String {
        let start =
            async |url: &str| self.old.at(url).start_once(&plan.name(), &plan.tool(), plan.arguments()).await;
        self.insist(PROMPT, start).await.unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"))
    }

    async fn follow_old(&self, plan: Plan, task: &str) -> Ending {
        if plan.manner == Manner::Cancel {
            tokio::time::sleep(Duration::from_millis(plan.cancel_after)).await;
            // An ended task cannot be cancelled, whether this request or one with a lost response cancelled
            // it.
            match self.insist(PROMPT, async |url| self.old.at(url).cancel(task).await).await {
                Ok(_) | Err(Fault::Refused { code: -32602, .. }) => {}
                Err(fault) => panic!("{plan:?}: {fault:?}"),
            }
        }
        if plan.manner != Manner::Wait && self.poll_old(plan, task).await == "cancelled" {
            return Ending::Cancelled;
        }
        self.ask_old(plan, "tasks/result", json!({"taskId": task}))
            .await
            .map_or_else(of_fault, |r| of_result(&r))
    }

    /// Polls until the task is not `working`, and returns its status.
    async fn poll_old(&self, plan: Plan, task: &str) -> String {
        loop {
            let seen = self.insist(PROMPT, async |url| self.old.at(url).get(task).await).await;
            let seen = seen.unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
            match seen["status"].as_str().unwrap() {
                "working" => tokio::time::sleep(POLL).await,
                status => return status.to_owned(),
            }
        }
    }

    /// Sends a request that may raise a question, and answers the question at another replica.
    async fn ask_old(&self, plan: Plan, method: &str, params: Value) -> Result<Value, Fault> {
        let (answer, method) = (plan.answer(), method.to_owned());
        let ask = async |url: &str| {
            let other = self.old.at(&self.world.next());
            self.old.at(url).converse_by(&other, &method, params.clone(), &answer).await
        };
        self.insist(PATIENT, ask).await
    }

    async fn call_old(&self, plan: Plan) -> Ending {
        let meta = json!({"io.taskbridge/idempotency-key": plan.name()});
        let mut params = json!({"name": plan.tool(), "arguments": plan.arguments(), "_meta": meta});
        loop {
            let result = match self.ask_old(plan, "tools/call", params).await {
                Ok(result) => result,
                Err(fault) => return of_fault(fault),
            };
            match handle(&result) {
                Some(task) => params = json!({"name": "task_wait", "arguments": {"task_id": task}}),
                None => return of_result(&result),
            }
        }
    }

    async fn call_new(&self, plan: Plan) -> (Option<String>, Ending) {
        let meta = json!({"_meta": {"io.taskbridge/idempotency-key": plan.name()}});
        let call =
            async |url: &str| self.new.at(url).call(&plan.tool(), &plan.arguments(), meta.clone()).await;
        let result = match self.insist(PROMPT, call).await {
            Ok(result) if result["resultType"] == "task" => result,
            Ok(result) => return (None, of_result(&result)),
            Err(fault) => return (None, of_fault(fault)),
        };
        let task = result["taskId"].as_str().unwrap().to_owned();
        if plan.manner == Manner::Cancel {
            tokio::time::sleep(Duration::from_millis(plan.cancel_after)).await;
            let params = json!({"taskId": task});
            let cancel = async |url: &str| self.new.at(url).request("tasks/cancel", params.clone()).await;
            self.insist(PROMPT, cancel).await.unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
        }
        let ending = self.follow_new(plan, &task).await;
        (Some(task), ending)
    }

    async fn follow_new(&self, plan: Plan, task: &str) -> Ending {
        loop {
            let params = json!({"taskId": task});
            let get = async |url: &str| self.new.at(url).request("tasks/get", params.clone()).await;
            let seen = self.insist(PROMPT, get).await.unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
            match seen["status"].as_str() {
                Some("completed") => return of_result(&seen["result"]),
                Some("failed") => return of_words(seen["error"]["message"].as_str().unwrap_or_default()),
                Some("cancelled") => return Ending::Cancelled,
                Some("input_required") => {
                    let params = json!({"taskId": task, "inputResponses": answers(plan, &seen)});
                    let update =
                        async |url: &str| self.new.at(url).request("tasks/update", params.clone()).await;
                    self.insist(PROMPT, update).await.unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    async fn call_plain(&self, plan: Plan) -> Ending {
        let (mut tool, mut arguments) = (plan.tool(), plan.arguments());
        let meta = json!({"_meta": {"io.taskbridge/idempotency-key": plan.name()}});
        let mut more = meta.clone();
        loop {
            let call = async |url: &str| self.plain.at(url).call(&tool, &arguments, more.clone()).await;
            let result = match self.insist(PATIENT, call).await {
                Ok(result) => result,
                // The database's clock stepped ahead in the meantime. The client follows the error message
                // and starts over.
                Err(Fault::Refused { message, .. })
                    if message.contains("`requestState` has expired") && !more["requestState"].is_null() =>
                {
                    self.world.count("rounds that began again, since a clock stepped past the state");
                    let more = more.as_object_mut().unwrap();
                    more.retain(|name, _| name == "_meta");
                    continue;
                }
                Err(fault) => return of_fault(fault),
            };
            if result["resultType"] == "input_required" {
                more["inputResponses"] = answers(plan, &result);
                more["requestState"] = result["requestState"].clone();
                continue;
            }
            match handle(&result) {
                Some(task) => {
                    (tool, arguments, more) = ("task_wait".to_owned(), json!({"task_id": task}), json!({}))
                }
                None => return of_result(&result),
            }
        }
    }
}

/// Returns the answers to all requested inputs.
fn answers(plan: Plan, asked: &Value) -> Value {
    let keys = asked["inputRequests"].as_object().into_iter().flatten().map(|(key, _)| key);
    keys.map(|key| (key.clone(), plan.answer())).collect::<serde_json::Map<_, _>>().into()
}

/// Returns the task of the handle in a call's result.
fn handle(result: &Value) -> Option<String> {
    result["structuredContent"]["task_id"].as_str().map(str::to_owned)
}

/// Returns a name for a failure that the client retries, or `None` for others.
fn passing(fault: &Fault) -> Option<&'static str> {
    match fault {
        Fault::Lost(_) => Some("connections lost"),
        Fault::Status(StatusCode::SERVICE_UNAVAILABLE, _) => Some("requests refused for a time (503)"),
        Fault::Refused { code: -32603, message }
            if message.contains("fault=") || message.contains("database does not answer") =>
        {
            Some("requests that failed by the store")
        }
        // A replica that does not have this backend, or not yet.
        Fault::Refused { code: -32602, message } if message.contains("Unknown tool: \"added_") => {
            Some("requests to a replica that does not offer the tool")
        }
        _ => None,
    }
}

fn of_result(result: &Value) -> Ending {
    let text = text(result);
    match result["isError"] == true {
        false => Ending::Succeeded(text),
        true if text.starts_with("call-") => Ending::Failed(text),
        true => of_words(&text),
    }
}

fn of_fault(fault: Fault) -> Ending {
    match fault {
        Fault::Refused { message, .. } => of_words(&message),
        fault => Ending::Other(format!("{fault:?}")),
    }
}

fn of_words(words: &str) -> Ending {
    match words {
        _ if words.contains("uncertain") => Ending::Uncertain,
        _ if words.contains("times in a row while it looked at this job") => Ending::GivenUp,
        _ if words.starts_with("Cancelled") => Ending::Cancelled,
        _ => Ending::Other(words.to_owned()),
    }
}
