//! The client's commands: list the tools, call one, watch a task, cancel it. Each prints its result. It
//! must not know how anything is drawn or sent.

mod call;

use std::io::{IsTerminal as _, stdout};

use serde_json::Value;
use taskbridge_wire::COMPANION_TOOLS;
use tokio::time::Instant;

use self::call::{background_task_id, read_arguments, send_call};
use super::error::ServerCallError;
use super::follow::{FollowOutcome, FollowedCall, Signals, TIMED_OUT};
use super::listing::{TaskSupport, Tool, find_tool, format_tools};
use super::output::{FinishedCall, format_result};
use super::session::{OpenedStream, ServerMessageSender, Session};
use super::task::{Status, Task, cancel, get_task, list_with_prefix};
use super::terminal::screen::{Screen, write_line};
use super::terminal::{Terminal, columns, sanitize_for_terminal};
use super::wait::retry_until_reached;
use super::{Call, ClientCommand, FAILURE, Failure, Invocation, SUCCESS, history, print, print_error, save};

/// Text in the error of a taskbridge server for a call that requires consent.
const CONSENT_ERROR_TEXT: &str = "cannot be asked";

/// What an interrupted request about a task has done that only reads it.
const NO_EFFECT: &str = "nothing was changed";

/// Minimum length of an id prefix, in characters.
const MIN_PREFIX_CHARS: usize = 4;

/// Runs the command and returns the exit code.
pub(super) async fn run(
    invocation: &Invocation,
    session: &Session,
    terminal: Option<&Terminal>,
    signals: &mut Signals,
    input: &[u8],
) -> Result<u8, Failure> {
    let deadline = invocation.timeout.map(|timeout| Instant::now() + timeout);
    let mut context = CommandContext { invocation, session, terminal, signals, deadline };
    match &invocation.command {
        ClientCommand::List { tool } => context.list(tool.as_deref()).await,
        ClientCommand::Call(call) => context.call(call, input).await,
        ClientCommand::Attach { task } => context.attach(task).await,
        ClientCommand::Cancel { task } => context.cancel(task).await,
    }
}

/// The context of a command.
struct CommandContext<'a> {
    invocation: &'a Invocation,
    session: &'a Session,
    terminal: Option<&'a Terminal>,
    signals: &'a mut Signals,
    /// When the timeout expires.
    deadline: Option<Instant>,
}

impl CommandContext<'_> {
    /// Runs a short request, unless a signal interrupts it. `effect` says what the request has done by then.
    async fn run_interruptible<T>(
        &mut self,
        effect: &str,
        work: impl Future<Output = Result<T, ServerCallError>>,
    ) -> Result<Result<T, ServerCallError>, Failure> {
        tokio::select! {
            code = self.signals.next() => Err(Failure::new(code, format!("interrupted; {effect}"))),
            result = work => Ok(result),
        }
    }

    async fn list(&mut self, tool: Option<&str>) -> Result<u8, Failure> {
        let (mut tools, mut entries) = self.tools().await?;
        if let Some(name) = tool {
            find_tool(&tools, name).map_err(Failure::usage)?;
            tools.retain(|tool| tool.name == name);
            entries.retain(|entry| entry["name"] == name);
        } else if self.session.server().is_taskbridge {
            // They are for clients without task support, and this client has it.
            tools.retain(|tool| !COMPANION_TOOLS.contains(&&*tool.name));
        }
        match self.invocation.json {
            true => print(&format!("{:#}\n", Value::Array(entries))),
            false => print(&sanitize_for_terminal(&format_tools(&tools, columns(stdout())))),
        }
        Ok(SUCCESS)
    }

    async fn tools(&mut self) -> Result<(Vec<Tool>, Vec<Value>), Failure> {
        let session = self.session;
        let result = self.run_interruptible("nothing was started", session.tools()).await?;
        result.map_err(|error| Failure::usage(format!("the server does not list its tools: {error}")))
    }

    async fn call(&mut self, call: &Call, input: &[u8]) -> Result<u8, Failure> {
        let (tools, _) = self.tools().await?;
        let tool = find_tool(&tools, &call.tool).map_err(Failure::usage)?;
        let arguments = read_arguments(tool, call, input)?;
        let server = self.session.server();
        let as_task = server.has_tasks && tool.task_support != TaskSupport::Forbidden;
        if call.detach && !as_task {
            let message =
                format!("--detach: {} cannot run as a task on this server; omit --detach", tool.name);
            return Err(Failure::usage(message));
        }
        let params = self.params(call, arguments, as_task);
        let screen = Screen::new(tool.name.clone(), self.invocation.quiet || call.detach);
        if as_task {
            self.call_as_task(call, params, screen).await
        } else {
            self.call_blocking(tool, params, screen).await
        }
    }

    async fn call_as_task(&mut self, call: &Call, params: Value, mut screen: Screen) -> Result<u8, Failure> {
        let session = self.session;
        let stream = match call.detach {
            true => None,
            false => {
                let opening = async { Ok(session.open_stream().await) };
                self.run_interruptible("nothing was started", opening).await?.unwrap_or_default()
            }
        };
        let log_retry =
            |call_error: &ServerCallError| print_error(&format!("retrying the call: {call_error}"));
        let response = tokio::select! {
            code = self.signals.next() => {
                return Err(Failure::new(code, "interrupted while sending the call; it may have started"));
            }
            response = send_call(session, &params, None, log_retry) => response.map_err(|call_error| self.start_failure(&call.tool, &call_error))?,
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => return Err(self.start_failure(&call.tool, &ServerCallError::JsonRpc(error))),
        };
        let Some(task) = response.get("task").and_then(Task::parse) else {
            // The tool ran synchronously instead.
            return self.finish(FinishedCall { task: None, outcome: Ok(response) }, &mut screen).await;
        };
        if let Some(file) = &self.invocation.history {
            let _ = history::record(file, &self.invocation.url, &call.tool, &task.id);
        }
        if call.detach {
            match self.invocation.json {
                true => print(&format!("{:#}\n", task.raw)),
                false => print(&format!("{}\n", task.id)),
            }
            if !self.invocation.quiet {
                print_error(&format!(
                    "{} continues in the background; {}",
                    call.tool,
                    self.watch_command(&task.id)
                ));
            }
            return Ok(SUCCESS);
        }
        screen.print_line(&format!("{}: task {}", call.tool, task.id));
        self.follow(&call.tool, &task.id, stream, true, screen).await
    }

    /// Watches a task until it ends, and prints its result.
    async fn follow(
        &mut self,
        label: &str,
        id: &str,
        stream: Option<OpenedStream>,
        is_ours: bool,
        mut screen: Screen,
    ) -> Result<u8, Failure> {
        let Self { session, terminal, deadline, .. } = *self;
        let followed_call =
            FollowedCall { session, label, task: Some(id), receives_progress: is_ours, terminal, deadline };
        match followed_call.follow_task(id, stream, &mut screen, self.signals).await {
            Ok(FollowOutcome::Answered(outcome)) => {
                let task = get_task(self.session, id).await.ok();
                self.finish(FinishedCall { task, outcome }, &mut screen).await
            }
            Ok(FollowOutcome::Detached(code)) => Ok(self.report_detached(label, Some(id), code)),
            Err(ServerCallError::JsonRpc(error)) => Err(Failure::new(
                FAILURE,
                format!("task {id} no longer exists on the server: {}", error.message),
            )),
            Err(call_error) => Err(Failure::new(
                FAILURE,
                format!("{call_error}; {label} may still be running: {}", self.watch_command(id)),
            )),
        }
    }

    async fn call_blocking(&mut self, tool: &Tool, params: Value, mut screen: Screen) -> Result<u8, Failure> {
        let Self { session, terminal, deadline, .. } = *self;
        let followed_call = FollowedCall {
            session,
            label: &tool.name,
            task: None,
            receives_progress: true,
            terminal,
            deadline,
        };
        let start_call = |message_sender: ServerMessageSender| {
            let params = &params;
            async move { send_call(session, params, Some(&message_sender), |_| {}).await }
        };
        let outcome = match followed_call.follow_call(start_call, &mut screen, self.signals).await {
            Ok(FollowOutcome::Answered(outcome)) => outcome,
            Ok(FollowOutcome::Detached(code)) => return Ok(self.report_detached(&tool.name, None, code)),
            Err(error) => return Err(self.start_failure(&tool.name, &error)),
        };
        match outcome.as_ref().ok().and_then(|result| background_task_id(tool, result)) {
            Some(id) => {
                screen.print_line(&format!("{}: still running; continues as task {id}", tool.name));
                let id = id.to_owned();
                self.follow(&tool.name, &id, None, false, screen).await
            }
            None => self.finish(FinishedCall { task: None, outcome }, &mut screen).await,
        }
    }

    async fn attach(&mut self, id: &str) -> Result<u8, Failure> {
        let task = self.find_task(id).await?;
        let id = &*task.id;
        let label = format!("task {}", id.chars().take(8).collect::<String>());
        let mut screen = Screen::new(label.clone(), self.invocation.quiet);
        screen.set_age(task.age(jiff::Timestamp::now().as_millisecond()));
        self.follow(&label, id, None, false, screen).await
    }

    /// Finds the task with this id, or the only listed one with this prefix of at least
    /// `MIN_PREFIX_CHARS` characters.
    async fn find_task(&mut self, id: &str) -> Result<Task, Failure> {
        if !self.session.server().has_tasks {
            return Err(Failure::usage("this server does not support tasks"));
        }
        let session = self.session;
        match self.run_interruptible(NO_EFFECT, get_task(session, id)).await? {
            Ok(task) => return Ok(task),
            Err(ServerCallError::JsonRpc(_)) => {}
            Err(error) => return Err(Failure::usage(error.to_string())),
        }
        // Not every caller may list tasks; those who may not need the whole id.
        let mut candidates = match id.len() >= MIN_PREFIX_CHARS {
            true => {
                self.run_interruptible(NO_EFFECT, list_with_prefix(session, id)).await?.unwrap_or_default()
            }
            false => Vec::new(),
        };
        let ids: Vec<&str> = candidates.iter().map(|task| &*task.id).collect();
        match ids.as_slice() {
            [] => {
                Err(Failure::usage(format!("task {id} not found: it has expired or belongs to another user")))
            }
            [_] => Ok(candidates.remove(0)),
            several => {
                let several = several.join(", ");
                Err(Failure::usage(format!("several tasks begin with {id}: {several}; use a longer prefix")))
            }
        }
    }

    async fn cancel(&mut self, id: &str) -> Result<u8, Failure> {
        let task = self.find_task(id).await?;
        let (id, session) = (&*task.id, self.session);
        let cancellation = retry_until_reached(async || cancel(session, id).await, |_| {});
        let result = self.run_interruptible("the task may have been cancelled", cancellation).await?;
        let task = result.map_err(|error| Failure::new(FAILURE, error.to_string()))?;
        match self.invocation.json {
            true => print(&format!("{:#}\n", task.raw)),
            false if self.invocation.quiet => {}
            false => print(&format!("task {id} is {}\n", task.status.text())),
        }
        Ok(SUCCESS)
    }

    fn start_failure(&self, tool: &str, error: &ServerCallError) -> Failure {
        let message = format!("{tool} could not be run: {error}");
        // The server refuses a call that requires consent first.
        let hint = match self.terminal.is_none() && message.contains(CONSENT_ERROR_TEXT) {
            true => " (standard input is not a terminal, so no question can be asked)",
            false => "",
        };
        Failure::new(FAILURE, sanitize_for_terminal(&format!("{message}{hint}")))
    }

    /// Returns the command that watches the task again.
    fn watch_command(&self, id: &str) -> String {
        format!("watch it with: {} --task {id}", self.invocation.watch_command)
    }

    fn report_detached(&self, label: &str, id: Option<&str>, code: u8) -> u8 {
        let reason = if code == TIMED_OUT { "timeout; " } else { "" };
        print_error(&match id {
            Some(id) => format!("{reason}{label} continues in the background; {}", self.watch_command(id)),
            None => format!("{reason}stopped waiting for {label}; its job may still be running"),
        });
        code
    }

    /// Prints the result of a call.
    async fn finish(&mut self, finished: FinishedCall, screen: &mut Screen) -> Result<u8, Failure> {
        let status = finished.status();
        let usual = finished.task.as_ref().and_then(Task::usual_duration);
        let usual = usual.map(|usual| format!(" ({usual})")).unwrap_or_default();
        screen.print_line(&format!("{} {} after {}{usual}", screen.label(), status.text(), screen.elapsed()));
        let mut saved = save::SaveResult::default();
        if let (Some(folder), Ok(result)) = (&self.invocation.save, &finished.outcome) {
            let saving = save::save(self.session, result, folder);
            saved = tokio::select! {
                code = self.signals.next() => return Err(Failure::new(code, "interrupted while saving files")),
                saved = saving => saved,
            };
        }
        let files: Vec<String> = saved.files.iter().map(|file| file.display().to_string()).collect();
        if self.invocation.json {
            print(&format!("{:#}\n", finished.document(&files)));
        } else {
            match &finished.outcome {
                Ok(result) => {
                    self.show(result, finished.task.as_ref(), status == Status::Completed, &files);
                }
                Err(error) => print_error(&sanitize_for_terminal(&error.message)),
            }
        }
        saved.problems.iter().for_each(|problem| print_error(&sanitize_for_terminal(problem)));
        let has_succeeded = status == Status::Completed && saved.problems.is_empty();
        Ok(if has_succeeded { SUCCESS } else { FAILURE })
    }

    fn show(&self, result: &Value, task: Option<&Task>, has_succeeded: bool, saved_files: &[String]) {
        let output = format_result(result);
        match has_succeeded {
            // If the output is not a terminal, the result is printed unchanged: another program may read
            // it.
            true if stdout().is_terminal() => print(&taskbridge_sdk::sanitize(&output.text)),
            true => print(&output.text),
            false => print_error(taskbridge_sdk::sanitize(&output.text).trim_end()),
        }
        if self.invocation.quiet {
            return;
        }
        if self.invocation.save.is_some() {
            saved_files.iter().for_each(|file| write_line(&sanitize_for_terminal(&format!("saved {file}"))));
            return;
        }
        output.other_content.iter().for_each(|line| write_line(&sanitize_for_terminal(line)));
        let more_than_a_log = output.other_content.iter().any(|line| !line.starts_with("[log,"));
        if let Some(task) = task.filter(|_| more_than_a_log) {
            write_line(&format!(
                "save with: {} --task {} --save FOLDER",
                self.invocation.watch_command, task.id
            ));
        }
    }
}
