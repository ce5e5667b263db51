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
use super::plan::{ClientAction, ClientKind, Ending, Plan};
use super::world::World;
use crate::support::{Client, Fault, ModernClient, Random, text};

/// Timeout of a response that should arrive at once. The client then drops the connection.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a response that waits for the job.
const RESULT_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for pending work once nothing breaks any more.
pub(super) const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Polling interval.
const POLL: Duration = Duration::from_millis(200);

/// A finished call.
#[derive(Clone, Debug)]
pub(super) struct FinishedCall {
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
pub(super) async fn call_all(world: &Arc<World>, load: &Load) -> Vec<FinishedCall> {
    let first_caller = Caller::connect(world).await;
    let background_caller = first_caller.with_new_session(load.seed).await;
    let plan = Plan::background(load.calls);
    let task = background_caller.start_old(plan).await;
    let mut callers = FuturesUnordered::new();
    for (number, lane) in load.callers().enumerate() {
        let caller = first_caller.with_new_session(load.seed ^ number as u64).await;
        callers.push(async move {
            let mut finished = Vec::new();
            while let Some(plan) = load.next(lane).await {
                let (phase, started_at) = (load.measured_phase(&plan), Instant::now());
                let (task, ending) = caller.run(plan).await;
                let overhead = started_at.elapsed().saturating_sub(plan.job_duration());
                let phase = phase.filter(|_| phase == load.measured_phase(&plan));
                load.record_end(lane, plan);
                finished.push(FinishedCall { plan, task, ending, overhead, phase });
            }
            finished
        });
    }
    let mut finished = Vec::new();
    while let Some(batch) = callers.next().await {
        finished.extend(batch);
    }
    // The server only gives up on a job whose polls make the adapter panic (even a cancelled one) while
    // polls of another job succeed.
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    while world.open_tasks(plan.engine).await > 1 && Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
    let ending = background_caller.follow_old(plan, &task).await;
    finished.push(FinishedCall { plan, task: Some(task), ending, overhead: Duration::ZERO, phase: None });
    finished
}

/// Repeats calls under their keys, and returns what their clients get now.
pub(super) async fn repeat_calls(world: &World, load: &Load, finished: &[FinishedCall]) -> Vec<FinishedCall> {
    let first_caller = Caller::connect(world).await;
    let calls = tokio::sync::Mutex::new(finished.iter());
    let mut callers = FuturesUnordered::new();
    for number in 0..load.callers {
        let (caller, calls) = (first_caller.with_new_session(number as u64).await, &calls);
        callers.push(async move {
            let mut repeated = Vec::new();
            loop {
                let Some(call) = calls.lock().await.next() else { return repeated };
                let plan = call.plan.with_wait();
                let (task, ending) = caller.run(plan).await;
                repeated.push(FinishedCall { plan, task, ending, overhead: Duration::ZERO, phase: None });
            }
        });
    }
    let mut repeated = Vec::new();
    while let Some(batch) = callers.next().await {
        repeated.extend(batch);
    }
    repeated
}

/// One client of each kind.
struct Caller<'a> {
    world: &'a World,
    old: Client,
    new: ModernClient,
    plain: ModernClient,
    random: parking_lot::Mutex<Random>,
}

impl<'a> Caller<'a> {
    async fn connect(world: &'a World) -> Self {
        let old = Client::open(&world.next()).await.unwrap();
        let (new, plain) =
            (ModernClient::with_tasks(&world.next()), ModernClient::without_tasks(&world.next()));
        Self { world, old, new, plain, random: parking_lot::Mutex::new(Random::new(0)) }
    }

    /// Creates a caller with its own session over the same connections.
    async fn with_new_session(&self, seed: u64) -> Self {
        let old = self.old.another().await.unwrap();
        let (new, plain) = (self.new.clone(), self.plain.clone());
        Self { world: self.world, old, new, plain, random: parking_lot::Mutex::new(Random::new(seed)) }
    }

    /// Makes one call, and returns the id and the ending of its task.
    async fn run(&self, plan: Plan) -> (Option<String>, Ending) {
        match plan.client_kind {
            ClientKind::Old => {
                let task = self.start_old(plan).await;
                let ending = self.follow_old(plan, &task).await;
                (Some(task), ending)
            }
            ClientKind::OldPlain => (None, self.call_old(plan).await),
            ClientKind::New => self.call_new(plan).await,
            ClientKind::NewPlain => (None, self.call_plain(plan).await),
        }
    }

    /// Sends a request to one replica after another until one answers.
    async fn request_until_answered<T>(
        &self,
        timeout: Duration,
        request: impl AsyncFn(&str) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        loop {
            let answer = tokio::time::timeout(timeout, request(&self.world.next())).await;
            let reason = match answer {
                Err(_) => "requests given up, for no answer came",
                Ok(Err(fault)) => match retry_reason(&fault) {
                    Some(reason) => reason,
                    None => return Err(fault),
                },
                Ok(Ok(answer)) => return Ok(answer),
            };
            self.world.count(reason);
            let pause = self.random.lock().millis(300);
            tokio::time::sleep(Duration::from_millis(50) + pause).await;
        }
    }

    async fn start_old(&self, plan: Plan) -> String {
        let start =
            async |url: &str| self.old.at(url).start_once(&plan.name(), &plan.tool(), plan.arguments()).await;
        self.request_until_answered(RESPONSE_TIMEOUT, start)
            .await
            .unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"))
    }

    async fn follow_old(&self, plan: Plan, task: &str) -> Ending {
        if plan.client_action == ClientAction::Cancel {
            tokio::time::sleep(Duration::from_millis(plan.cancel_after)).await;
            // An ended task cannot be cancelled, whether this request or one with a lost response cancelled
            // it.
            match self
                .request_until_answered(RESPONSE_TIMEOUT, async |url| self.old.at(url).cancel(task).await)
                .await
            {
                Ok(_) | Err(Fault::Refused { code: -32602, .. }) => {}
                Err(fault) => panic!("{plan:?}: {fault:?}"),
            }
        }
        if plan.client_action != ClientAction::Wait && self.poll_old(plan, task).await == "cancelled" {
            return Ending::Cancelled;
        }
        self.ask_old(plan, "tasks/result", json!({"taskId": task}))
            .await
            .map_or_else(ending_of_fault, |r| ending_of_result(&r))
    }

    /// Polls until the task is not `working`, and returns its status.
    async fn poll_old(&self, plan: Plan, task: &str) -> String {
        loop {
            let response = self
                .request_until_answered(RESPONSE_TIMEOUT, async |url| self.old.at(url).get(task).await)
                .await;
            let response = response.unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
            match response["status"].as_str().unwrap() {
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
            self.old.at(url).request_with_reply_via(&other, &method, params.clone(), &answer).await
        };
        self.request_until_answered(RESULT_TIMEOUT, ask).await
    }

    async fn call_old(&self, plan: Plan) -> Ending {
        let meta = json!({"io.taskbridge/idempotency-key": plan.name()});
        let mut params = json!({"name": plan.tool(), "arguments": plan.arguments(), "_meta": meta});
        loop {
            let result = match self.ask_old(plan, "tools/call", params).await {
                Ok(result) => result,
                Err(fault) => return ending_of_fault(fault),
            };
            match handle(&result) {
                Some(task) => params = json!({"name": "task_wait", "arguments": {"task_id": task}}),
                None => return ending_of_result(&result),
            }
        }
    }

    async fn call_new(&self, plan: Plan) -> (Option<String>, Ending) {
        let meta = json!({"_meta": {"io.taskbridge/idempotency-key": plan.name()}});
        let call =
            async |url: &str| self.new.at(url).call(&plan.tool(), &plan.arguments(), meta.clone()).await;
        let result = match self.request_until_answered(RESPONSE_TIMEOUT, call).await {
            Ok(result) if result["resultType"] == "task" => result,
            Ok(result) => return (None, ending_of_result(&result)),
            Err(fault) => return (None, ending_of_fault(fault)),
        };
        let task = result["taskId"].as_str().unwrap().to_owned();
        if plan.client_action == ClientAction::Cancel {
            tokio::time::sleep(Duration::from_millis(plan.cancel_after)).await;
            let params = json!({"taskId": task});
            let cancel = async |url: &str| self.new.at(url).request("tasks/cancel", params.clone()).await;
            self.request_until_answered(RESPONSE_TIMEOUT, cancel)
                .await
                .unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
        }
        let ending = self.follow_new(plan, &task).await;
        (Some(task), ending)
    }

    async fn follow_new(&self, plan: Plan, task: &str) -> Ending {
        loop {
            let params = json!({"taskId": task});
            let get = async |url: &str| self.new.at(url).request("tasks/get", params.clone()).await;
            let response = self
                .request_until_answered(RESPONSE_TIMEOUT, get)
                .await
                .unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
            match response["status"].as_str() {
                Some("completed") => return ending_of_result(&response["result"]),
                Some("failed") => {
                    return ending_of_message(response["error"]["message"].as_str().unwrap_or_default());
                }
                Some("cancelled") => return Ending::Cancelled,
                Some("input_required") => {
                    let params = json!({"taskId": task, "inputResponses": answers(plan, &response)});
                    let update =
                        async |url: &str| self.new.at(url).request("tasks/update", params.clone()).await;
                    self.request_until_answered(RESPONSE_TIMEOUT, update)
                        .await
                        .unwrap_or_else(|fault| panic!("{plan:?}: {fault:?}"));
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    async fn call_plain(&self, plan: Plan) -> Ending {
        let (mut tool, mut arguments) = (plan.tool(), plan.arguments());
        let meta = json!({"_meta": {"io.taskbridge/idempotency-key": plan.name()}});
        let mut extra = meta.clone();
        loop {
            let call = async |url: &str| self.plain.at(url).call(&tool, &arguments, extra.clone()).await;
            let result = match self.request_until_answered(RESULT_TIMEOUT, call).await {
                Ok(result) => result,
                // The database's clock stepped ahead in the meantime. The client follows the error message
                // and starts over.
                Err(Fault::Refused { message, .. })
                    if message.contains("`requestState` has expired") && !extra["requestState"].is_null() =>
                {
                    self.world.count("rounds that began again, since a clock stepped past the state");
                    let extra = extra.as_object_mut().unwrap();
                    extra.retain(|name, _| name == "_meta");
                    continue;
                }
                Err(fault) => return ending_of_fault(fault),
            };
            if result["resultType"] == "input_required" {
                extra["inputResponses"] = answers(plan, &result);
                extra["requestState"] = result["requestState"].clone();
                continue;
            }
            match handle(&result) {
                Some(task) => {
                    (tool, arguments, extra) = ("task_wait".to_owned(), json!({"task_id": task}), json!({}))
                }
                None => return ending_of_result(&result),
            }
        }
    }
}

/// Returns the answers to all requested inputs.
fn answers(plan: Plan, response: &Value) -> Value {
    let keys = response["inputRequests"].as_object().into_iter().flatten().map(|(key, _)| key);
    keys.map(|key| (key.clone(), plan.answer())).collect::<serde_json::Map<_, _>>().into()
}

/// Returns the task of the handle in a call's result.
fn handle(result: &Value) -> Option<String> {
    result["structuredContent"]["task_id"].as_str().map(str::to_owned)
}

/// Returns a name for a failure that the client retries, or `None` for others.
fn retry_reason(fault: &Fault) -> Option<&'static str> {
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

fn ending_of_result(result: &Value) -> Ending {
    let text = text(result);
    match result["isError"] == true {
        false => Ending::Succeeded(text),
        true if text.starts_with("call-") => Ending::Failed(text),
        true => ending_of_message(&text),
    }
}

fn ending_of_fault(fault: Fault) -> Ending {
    match fault {
        Fault::Refused { message, .. } => ending_of_message(&message),
        fault => Ending::Other(format!("{fault:?}")),
    }
}

fn ending_of_message(message: &str) -> Ending {
    match message {
        _ if message.contains("uncertain") => Ending::Uncertain,
        _ if message.contains("times in a row while it polled this job") => Ending::GivenUp,
        _ if message.starts_with("Cancelled") => Ending::Cancelled,
        _ => Ending::Other(message.to_owned()),
    }
}
