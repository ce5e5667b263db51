//! The client's commands: list the tools, call one, watch a task, cancel it. Each prints its result. It
//! must not know how anything is drawn or sent.

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::arguments::{arguments, json};
use super::fault::ServerCallError;
use super::follow::{FollowOutcome, FollowedCall, PROGRESS_TOKEN, Signals, TIMED_OUT};
use super::listing::{TaskSupport, Tool, find, listing};
use super::output::{Finished, shown};
use super::screen::{Screen, write_line};
use super::session::{ServerMessageSender, Session};
use super::task::{Status, Task, begin_with, cancel, get_task};
use super::terminal::{Terminal, columns, harmless};
use super::wait::retry_until_reached;
use super::{Call, ClientCommand, FAILURE, Failure, Invocation, SUCCESS, complain, print, save};
use crate::clock::{Clock as _, System, random};
use crate::mcp::jsonrpc::Outcome;

/// The `_meta` key for a call's idempotency key on a taskbridge server.
const IDEMPOTENCY_KEY: &str = "io.taskbridge/idempotency-key";

/// Tools of taskbridge servers that replace the protocol's requests about tasks, for clients without them.
const COMPANIONS: [&str; 5] = ["task_wait", "task_cancel", "task_answer", "task_list", "task_logs"];

/// Text in the error of a taskbridge server for a call that requires consent.
const CANNOT_ASK: &str = "cannot be asked";

/// Minimum length of an id prefix, in characters.
const SHORTEST: usize = 4;

/// Runs the command and returns the exit code.
pub(super) async fn run(
    order: &Invocation,
    session: &Session,
    terminal: Option<&Terminal>,
    signals: &mut Signals,
    input: &[u8],
) -> Result<u8, Failure> {
    let until = order.timeout.map(|timeout| Instant::now() + timeout);
    let mut desk = CommandContext { order, session, terminal, signals, until };
    match &order.errand {
        ClientCommand::List { tool } => desk.list(tool.as_deref()).await,
        ClientCommand::Call(call) => desk.call(call, input).await,
        ClientCommand::Attach { task } => desk.attach(task).await,
        ClientCommand::Cancel { task } => desk.cancel(task).await,
    }
}

/// The context of a command.
struct CommandContext<'a> {
    order: &'a Invocation,
    session: &'a Session,
    terminal: Option<&'a Terminal>,
    signals: &'a mut Signals,
    /// When the timeout expires.
    until: Option<Instant>,
}

impl CommandContext<'_> {
    /// Runs a short request, unless a signal interrupts it.
    async fn quickly<T>(
        &mut self,
        work: impl Future<Output = Result<T, ServerCallError>>,
    ) -> Result<Result<T, ServerCallError>, Failure> {
        tokio::select! {
            code = self.signals.next() => Err(Failure::of(code, "left before anything was sent")),
            done = work => Ok(done),
        }
    }

    async fn list(&mut self, tool: Option<&str>) -> Result<u8, Failure> {
        let (mut tools, mut entries) = self.tools().await?;
        if let Some(name) = tool {
            find(&tools, name).map_err(Failure::usage)?;
            tools.retain(|tool| tool.name == name);
            entries.retain(|entry| entry["name"] == name);
        } else if self.session.server().is_ours {
            // They are for clients without task support, and this client has it.
            tools.retain(|tool| !COMPANIONS.contains(&&*tool.name));
        }
        match self.order.json {
            true => print(&format!("{:#}\n", Value::Array(entries))),
            false => print(&harmless(&listing(&tools, columns(stdout())))),
        }
        Ok(SUCCESS)
    }

    async fn tools(&mut self) -> Result<(Vec<Tool>, Vec<Value>), Failure> {
        let session = self.session;
        let listed = self.quickly(session.tools()).await?;
        listed.map_err(|fault| Failure::usage(format!("the server does not list its tools: {fault}")))
    }

    async fn call(&mut self, call: &Call, input: &[u8]) -> Result<u8, Failure> {
        let (tools, _) = self.tools().await?;
        let tool = find(&tools, &call.tool).map_err(Failure::usage)?;
        let arguments = read_arguments(tool, call, input)?;
        let server = self.session.server();
        let as_task = server.has_tasks && tool.task_support != TaskSupport::Forbidden;
        if call.detach && !as_task {
            let message =
                format!("--detach: {} cannot run as a task here, and so must be waited for", tool.name);
            return Err(Failure::usage(message));
        }
        let params = self.params(call, arguments, as_task);
        let screen = Screen::new(tool.name.clone(), self.order.quiet || call.detach);
        if as_task {
            self.as_task(call, params, screen).await
        } else {
            self.plainly(tool, params, screen).await
        }
    }

    fn params(&self, call: &Call, arguments: Map<String, Value>, as_task: bool) -> Value {
        let mut params = json!({
            "name": call.tool, "arguments": arguments, "_meta": {"progressToken": PROGRESS_TOKEN},
        });
        if as_task {
            params["task"] = call.ttl.map_or(json!({}), |ttl| json!({"ttl": millis(ttl)}));
        }
        // With a key, a call whose answer was lost can be retried.
        let own = || self.session.server().is_ours.then(random_key);
        if let Some(key) = call.idempotency_key.clone().or_else(own) {
            params["_meta"][IDEMPOTENCY_KEY] = json!(key);
        }
        params
    }

    async fn as_task(&mut self, call: &Call, params: Value, mut screen: Screen) -> Result<u8, Failure> {
        let session = self.session;
        let again = |fault: &ServerCallError| complain(&format!("the call is made again: {fault}"));
        let started = tokio::select! {
            code = self.signals.next() => {
                return Err(Failure::of(code, "left while the call was sent: it may have been started"));
            }
            started = request(session, &params, None, again) => started.map_err(|fault| self.not_run(&call.tool, &fault))?,
        };
        let started = match started {
            Ok(started) => started,
            Err(error) => return Err(self.not_run(&call.tool, &ServerCallError::Refused(error))),
        };
        let Some(task) = started.get("task").and_then(Task::read) else {
            // The tool ran synchronously instead.
            return self.finish(Finished { task: None, outcome: Ok(started) }, &mut screen).await;
        };
        if call.detach {
            match self.order.json {
                true => print(&format!("{:#}\n", task.wire)),
                false => print(&format!("{}\n", task.id)),
            }
            if !self.order.quiet {
                complain(&format!("{} goes on in the background; {}", call.tool, self.again(&task.id)));
            }
            return Ok(SUCCESS);
        }
        screen.note(&format!("{}: task {}", call.tool, task.id));
        self.follow(&call.tool, &task.id, true, screen).await
    }

    /// Watches a task until it ends, and prints its result.
    async fn follow(
        &mut self,
        label: &str,
        id: &str,
        is_ours: bool,
        mut screen: Screen,
    ) -> Result<u8, Failure> {
        let Self { session, terminal, until, .. } = *self;
        let pursuit = FollowedCall { session, label, task: Some(id), is_ours, terminal, until };
        match pursuit.task(id, &mut screen, self.signals).await {
            Ok(FollowOutcome::Answered(outcome)) => {
                let task = get_task(self.session, id).await.ok();
                self.finish(Finished { task, outcome }, &mut screen).await
            }
            Ok(FollowOutcome::Left(code)) => Ok(self.left(label, Some(id), code)),
            Err(ServerCallError::Refused(error)) => Err(Failure::of(
                FAILURE,
                format!("the server does not know task {id} any more: {}", error.message),
            )),
            Err(fault) => {
                Err(Failure::of(FAILURE, format!("{fault}; {label} may go on: {}", self.again(id))))
            }
        }
    }

    async fn plainly(&mut self, tool: &Tool, params: Value, mut screen: Screen) -> Result<u8, Failure> {
        let Self { session, terminal, until, .. } = *self;
        let pursuit = FollowedCall { session, label: &tool.name, task: None, is_ours: true, terminal, until };
        let calling = |ear: ServerMessageSender| {
            let params = &params;
            async move { request(session, params, Some(&ear), |_| {}).await }
        };
        let outcome = match pursuit.plain(calling, &mut screen, self.signals).await {
            Ok(FollowOutcome::Answered(outcome)) => outcome,
            Ok(FollowOutcome::Left(code)) => return Ok(self.left(&tool.name, None, code)),
            Err(fault) => return Err(self.not_run(&tool.name, &fault)),
        };
        match outcome.as_ref().ok().and_then(|result| handle(tool, result)) {
            Some(id) => {
                screen.note(&format!("{}: it takes longer, and goes on as task {id}", tool.name));
                let id = id.to_owned();
                self.follow(&tool.name, &id, false, screen).await
            }
            None => self.finish(Finished { task: None, outcome }, &mut screen).await,
        }
    }

    async fn attach(&mut self, id: &str) -> Result<u8, Failure> {
        let task = self.find_task(id).await?;
        let id = &*task.id;
        let label = format!("task {}", id.chars().take(8).collect::<String>());
        let mut screen = Screen::new(label.clone(), self.order.quiet);
        screen.set_age(task.age(System.now().as_millis()));
        self.follow(&label, id, false, screen).await
    }

    /// Finds the task with this id, or the only listed one with this prefix of at least `SHORTEST`
    /// characters.
    async fn find_task(&mut self, id: &str) -> Result<Task, Failure> {
        if !self.session.server().has_tasks {
            return Err(Failure::usage("this server has no tasks"));
        }
        let session = self.session;
        match self.quickly(get_task(session, id)).await? {
            Ok(task) => return Ok(task),
            Err(ServerCallError::Refused(_)) => {}
            Err(fault) => return Err(Failure::usage(fault.to_string())),
        }
        // Not every caller may list tasks; those who may not need the whole id.
        let mut like_it = match id.len() >= SHORTEST {
            true => self.quickly(begin_with(session, id)).await?.unwrap_or_default(),
            false => Vec::new(),
        };
        let ids: Vec<&str> = like_it.iter().map(|task| &*task.id).collect();
        match ids.as_slice() {
            [] => Err(Failure::usage(format!(
                "the server knows no task {id}: it has expired, or it is somebody else's"
            ))),
            [_] => Ok(like_it.remove(0)),
            several => {
                let several = several.join(", ");
                Err(Failure::usage(format!("several tasks begin with {id}: {several}; write more of the id")))
            }
        }
    }

    async fn cancel(&mut self, id: &str) -> Result<u8, Failure> {
        let task = self.find_task(id).await?;
        let (id, session) = (&*task.id, self.session);
        let cancelled = self.quickly(retry_until_reached(async || cancel(session, id).await, |_| {})).await?;
        let task = cancelled.map_err(|fault| Failure::of(FAILURE, fault.to_string()))?;
        match self.order.json {
            true => print(&format!("{:#}\n", task.wire)),
            false if self.order.quiet => {}
            false => print(&format!("task {id} is {}\n", task.status.words())),
        }
        Ok(SUCCESS)
    }

    fn not_run(&self, tool: &str, fault: &ServerCallError) -> Failure {
        let words = format!("{tool} could not be run: {fault}");
        // The server refuses a call that requires consent first.
        let hint = match self.terminal.is_none() && words.contains(CANNOT_ASK) {
            true => " (standard input is no terminal, so that nobody can be asked here)",
            false => "",
        };
        Failure::of(FAILURE, harmless(&format!("{words}{hint}")))
    }

    /// Returns the command that watches the task again.
    fn again(&self, id: &str) -> String {
        format!("watch it with: {} --task {id}", self.order.again)
    }

    fn left(&self, label: &str, id: Option<&str>, code: u8) -> u8 {
        let why = if code == TIMED_OUT { "the time is over; " } else { "" };
        complain(&match id {
            Some(id) => format!("{why}{label} goes on in the background; {}", self.again(id)),
            None => format!("{why}{label} is not waited for any more; what it started may go on"),
        });
        code
    }

    /// Prints the result of a call.
    async fn finish(&mut self, finished: Finished, screen: &mut Screen) -> Result<u8, Failure> {
        let status = finished.status();
        screen.note(&format!("{} {} after {}", screen.label(), status.words(), screen.elapsed()));
        let mut saved = save::Saved::default();
        if let (Some(folder), Ok(result)) = (&self.order.save, &finished.outcome) {
            let saving = save::save(self.session, result, folder);
            saved = tokio::select! {
                code = self.signals.next() => return Err(Failure::of(code, "left before all was saved")),
                saved = saving => saved,
            };
        }
        let files: Vec<String> = saved.files.iter().map(|file| file.display().to_string()).collect();
        if self.order.json {
            print(&format!("{:#}\n", finished.document(&files)));
        } else {
            match &finished.outcome {
                Ok(result) => {
                    self.show(result, finished.task.as_ref(), status == Status::Completed, &files);
                }
                Err(error) => complain(&harmless(&error.message)),
            }
        }
        saved.problems.iter().for_each(|problem| complain(&harmless(problem)));
        let is_good = status == Status::Completed && saved.problems.is_empty();
        Ok(if is_good { SUCCESS } else { FAILURE })
    }

    fn show(&self, result: &Value, task: Option<&Task>, is_good: bool, saved: &[String]) {
        let shown = shown(result);
        match is_good {
            // If the output is not a terminal, the result is printed unchanged: another program may read
            // it.
            true if stdout().is_terminal() => print(&taskbridge_sdk::harmless(&shown.text)),
            true => print(&shown.text),
            false => complain(taskbridge_sdk::harmless(&shown.text).trim_end()),
        }
        if self.order.quiet {
            return;
        }
        if self.order.save.is_some() {
            saved.iter().for_each(|file| write_line(&harmless(&format!("saved {file}"))));
            return;
        }
        shown.beside.iter().for_each(|line| write_line(&harmless(line)));
        let more_than_a_log = shown.beside.iter().any(|line| !line.starts_with("[log,"));
        if let Some(task) = task.filter(|_| more_than_a_log) {
            write_line(&format!("save with: {} --task {} --save FOLDER", self.order.again, task.id));
        }
    }
}

/// Calls the tool, and retries until the server was reached. After a network error or an HTTP status 5xx, the
/// server may have accepted the request. It is then retried only on a taskbridge server, where the idempotency
/// key prevents a second start. The statuses 408 and 429 are retried on any server.
async fn request(
    session: &Session,
    params: &Value,
    ear: Option<&ServerMessageSender>,
    mut again: impl FnMut(&ServerCallError),
) -> Result<Outcome, ServerCallError> {
    let is_safe = session.server().is_ours;
    let called = retry_until_reached(
        async || match session.request("tools/call", params.clone(), ear).await {
            Err(ServerCallError::Refused(error)) => Ok(Err(error)),
            Err(fault) if !is_safe && fault.may_have_arrived() => {
                let why = format!("{fault}; it is not known whether the server accepted the call");
                Err(ServerCallError::NotMcp(why))
            }
            called => called.map(Ok),
        },
        |fault| again(fault),
    );
    called.await
}

/// Returns the task that continues after a plain call, if the answer names one. Tools about tasks also
/// answer with a task: for them, it is the result.
fn handle<'a>(tool: &Tool, result: &'a Value) -> Option<&'a str> {
    let about_tasks = tool.input_schema.pointer("/properties/task_id").is_some();
    let handle = result.get("structuredContent").filter(|_| !about_tasks)?;
    let status = handle.get("status")?.as_str()?;
    handle.get("poll_after_seconds")?;
    ["working", "input_required"].contains(&status).then(|| handle.get("task_id")?.as_str())?
}

fn read_arguments(tool: &Tool, call: &Call, input: &[u8]) -> Result<Map<String, Value>, Failure> {
    let mut read = |path: &str| match path {
        "-" => Ok(input.to_vec()),
        path => std::fs::read(path),
    };
    let base = match &call.arguments {
        None => Map::new(),
        Some(from) => {
            let wrong = |why: String| Failure::usage(format!("--args {from}: {why}"));
            let path = if from == "-" { Some("-") } else { from.strip_prefix('@') };
            let text = match path {
                None => from.clone(),
                Some(path) => {
                    let bytes = read(path).map_err(|error| wrong(format!("it cannot be read: {error}")))?;
                    String::from_utf8(bytes).map_err(|_| wrong("its content is no UTF-8 text".to_owned()))?
                }
            };
            match json(&text).map_err(wrong)? {
                Value::Object(base) => base,
                _ => return Err(wrong("it must be a JSON object: {\"NAME\": VALUE, ...}".to_owned())),
            }
        }
    };
    arguments(tool, base, &call.words, &mut read)
        .map_err(|problems| Failure::usage(problems.join("\ntaskbridge: ")))
}

fn random_key() -> String {
    let bytes: [u8; 20] = random(&System);
    data_encoding::BASE32_NOPAD.encode(&bytes).to_ascii_lowercase()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
