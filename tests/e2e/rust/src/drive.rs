//! The shared part of all driven Rust clients: the lines that `table/` sends, and the operations that they
//! need from a client. The lines are those of `python/drive.py`. It does not judge results:
//! `table/scenarios.py` does.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

/// The arguments of a tool.
pub type Arguments = Map<String, Value>;

/// How the client connects: a URL or a server's command, and the generation to use.
pub struct Setup {
    pub url: Option<String>,
    pub command: Vec<String>,
    pub modern: bool,
    pub tasks: bool,
}

impl Setup {
    /// Returns the command of the stdio server, not yet started.
    pub fn server(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        command
    }
}

/// The user: how it answers, the questions it got, and the progress it got.
#[derive(Clone, Default)]
pub struct User {
    declines: bool,
    asked: Arc<Mutex<Vec<String>>>,
    steps: Arc<Mutex<Vec<f64>>>,
}

impl User {
    /// Returns the user's answer to a question, or `None` if it declines.
    pub fn answer(&self, message: &str) -> Option<Value> {
        hold(&self.asked).push(message.to_owned());
        // A pure consent has an empty form.
        let content = if message.contains("name") { json!({"name": "Ada"}) } else { json!({}) };
        (!self.declines).then_some(content)
    }

    /// Records the progress of a call.
    pub fn came_to(&self, step: f64) {
        hold(&self.steps).push(step);
    }
}

fn hold<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("nobody panics holding it")
}

/// A client library, connected or not.
pub trait Driven {
    async fn open(&mut self, user: User) -> Result<()>;
    async fn close(&mut self) -> Result<()>;
    async fn tools(&self) -> Result<Vec<String>>;
    /// Calls a tool without a task. Returns the tool's result, as on the wire.
    async fn call(&self, tool: String, arguments: Arguments) -> Result<Value>;
    /// Calls a tool that must become a task. Returns the task, as on the wire.
    async fn start(&self, tool: String, arguments: Arguments) -> Result<Value>;
    /// Polls a task once. Returns the task, as on the wire.
    async fn look(&self, task: &str) -> Result<Value>;
    /// Waits for the task to end, and answers its questions. Returns the task, as on the wire.
    async fn poll(&self, task: &str) -> Result<Value>;
    /// Returns the result of a task, as on the wire.
    async fn result(&self, task: &str) -> Result<Value>;
    async fn cancel(&self, task: &str) -> Result<()>;
    async fn resources(&self) -> Result<Vec<String>>;
    /// Reads a resource. Returns the response, as on the wire.
    async fn read(&self, uri: &str) -> Result<Value>;
    /// Gets a prompt. Returns the response, as on the wire.
    async fn prompt(&self, name: &str, arguments: Arguments) -> Result<Value>;
    /// Completes the argument of a prompt. Returns the response, as on the wire.
    async fn complete(&self, prompt: &str, argument: &str, value: &str) -> Result<Value>;
}

/// Executes each input line until there are no more.
pub async fn serve<D: Driven>(library: &str, mut client: D) -> Result<()> {
    let mut user = User::default();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    say(json!({"ok": library})).await?;
    while let Some(line) = lines.next_line().await? {
        let line: Value = serde_json::from_str(&line)?;
        if line["op"] == "open" {
            user = User { declines: line["accepts"] == false, ..User::default() };
        }
        match handle(&mut client, &user, &line).await {
            Ok(answer) => say(json!({"ok": answer})).await?,
            Err(error) => say(json!({"failed": format!("{error:#}")})).await?,
        }
    }
    Ok(())
}

async fn handle<D: Driven>(client: &mut D, user: &User, line: &Value) -> Result<Value> {
    let string_field = |name: &'static str| line[name].as_str().context(name);
    let task = || string_field("task");
    let tool = || string_field("tool").map(str::to_owned);
    let arguments = || line["arguments"].as_object().cloned().context("arguments");
    Ok(match line["op"].as_str().context("op")? {
        "open" => json!(client.open(user.clone()).await?),
        "close" => json!(client.close().await?),
        "questions" => json!(*hold(&user.asked)),
        "tools" => json!(client.tools().await?),
        "call" => outcome(&client.call(tool()?, arguments()?).await?),
        "start" => {
            let task = client.start(tool()?, arguments()?).await?;
            json!({"task": task["taskId"], "status": task["status"]})
        }
        "look" => standing(&client.look(task()?).await?),
        "poll" => standing(&client.poll(task()?).await?),
        "result" => outcome(&client.result(task()?).await?),
        "cancel" => json!(client.cancel(task()?).await?),
        "progress" => {
            let mut result = outcome(&client.call(tool()?, arguments()?).await?);
            result["steps"] = json!(mem::take(&mut *hold(&user.steps)));
            result
        }
        "resources" => json!(client.resources().await?),
        "read" => client.read(string_field("uri")?).await?["contents"][0]["text"].take(),
        "prompt" => {
            client.prompt(string_field("name")?, arguments()?).await?["messages"][0]["content"]["text"].take()
        }
        "complete" => {
            let (prompt, argument, value) =
                (string_field("prompt")?, string_field("argument")?, string_field("value")?);
            client.complete(prompt, argument, value).await?["completion"]["values"].take()
        }
        other => bail!("there is no {other}"),
    })
}

/// Returns the state of a task in the terms of the table.
fn standing(task: &Value) -> Value {
    json!({"status": task["status"], "message": task["statusMessage"]})
}

/// Returns a tool result in the terms of the table.
fn outcome(result: &Value) -> Value {
    let blocks = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let text: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    json!({
        "text": text.trim_end_matches('\n'),
        "structured": result["structuredContent"],
        "error": result["isError"] == true,
    })
}

/// Reports whether the task has ended.
pub fn has_ended(task: &Value) -> bool {
    ["completed", "failed", "cancelled"].iter().any(|status| task["status"] == *status)
}

async fn say(line: Value) -> Result<()> {
    let mut out = tokio::io::stdout();
    out.write_all(format!("{line}\n").as_bytes()).await?;
    Ok(out.flush().await?)
}

/// Parses the command line.
pub fn setup() -> Setup {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    // Everything after `--stdio` belongs to the server's command, even if it looks like an option.
    let command = match args.iter().position(|arg| arg == "--stdio") {
        Some(at) => args.split_off(at).split_off(1),
        None => Vec::new(),
    };
    let url = args.iter().position(|arg| arg == "--url").map(|at| args[at + 1].clone());
    let has = |name: &str| args.iter().any(|arg| arg == name);
    Setup { url, command, modern: has("--modern"), tasks: !has("--no-tasks") }
}
