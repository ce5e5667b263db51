//! `taskbridge call`: a small client that starts a tool on a running server as a task, shows its progress,
//! asks its questions at the terminal and prints its result. It speaks MCP 2025-11-25 over Streamable HTTP
//! like any client, and must not know any internals of the server.
//!
//! [`run`] executes one [`Invocation`]. [`transport`] exchanges messages and [`session`] sends requests.
//! [`arguments`] parses the command line by a tool's schema. [`follow`] is the main loop over the events of
//! [`wait`] and the session, the answers of [`terminal::ask`] at the [`terminal`], and signals. [`terminal::screen`],
//! [`output`] and [`save`] produce the output. [`history`] records calls.

mod arguments;
mod commands;
mod error;
mod follow;
mod history;
mod listing;
mod output;
mod save;
mod session;
mod shape;
mod task;
mod terminal;
mod transport;
mod wait;

use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

pub use self::history::{HistoryEntry, read as read_history};

use self::error::ServerCallError;
use self::follow::Signals;
use self::session::Session;
use self::terminal::Terminal;
use self::transport::HttpTransport;

/// The job succeeded.
const SUCCESS: u8 = 0;
/// The job failed, was cancelled, or could not be run.
const FAILURE: u8 = 1;
/// The command is invalid, or the server cannot be reached.
const USAGE: u8 = 2;

/// A command for the client, with its options.
pub struct Invocation {
    /// The server's endpoint.
    pub url: String,
    /// The API key, for a server that requires one. It is never shown.
    pub key: Option<String>,
    /// The command.
    pub command: ClientCommand,
    /// Print one JSON document instead of text.
    pub json: bool,
    /// Print only the result and errors.
    pub quiet: bool,
    /// Where to save pictures, blobs, artifacts and logs.
    pub save: Option<PathBuf>,
    /// How long to wait for the end of the job.
    pub timeout: Option<Duration>,
    /// The command that watches a task again, without the task's id.
    pub watch_command: String,
    /// The file of the history of calls; `None` records nothing.
    pub history: Option<PathBuf>,
}

/// What the client does on the server.
pub enum ClientCommand {
    /// List all tools, or show one.
    List {
        /// The tool to show.
        tool: Option<String>,
    },
    /// Call a tool.
    Call(Call),
    /// Watch a task until it ends.
    Attach {
        /// The task's id.
        task: String,
    },
    /// Cancel a task.
    Cancel {
        /// The task's id.
        task: String,
    },
}

/// A call of a tool.
pub struct Call {
    /// The tool.
    pub tool: String,
    /// `NAME=VALUE`, `NAME:=JSON` and `NAME=@FILE`, as typed.
    pub assignments: Vec<String>,
    /// All arguments as JSON, `@FILE`, or `-` for standard input.
    pub json_arguments: Option<String>,
    /// The minimum lifetime of the task.
    pub ttl: Option<Duration>,
    /// Calls with the same key share one task.
    pub idempotency_key: Option<String>,
    /// Exit once the task is created.
    pub detach: bool,
}

/// The reason why a command failed.
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Executes a command and returns the exit code: 0 if the job succeeded, 1 if it did not, 2 if the command is
/// invalid or the server cannot be reached, 124 after a timeout, 130 if the user left before the end, 143
/// after SIGTERM.
pub async fn run(invocation: &Invocation) -> u8 {
    match execute(invocation).await {
        Ok(code) => code,
        Err(Failure { code, message }) => {
            print_error(&message);
            code
        }
    }
}

async fn execute(invocation: &Invocation) -> Result<u8, Failure> {
    let url = endpoint(&invocation.url)?;
    // Standard input is read before signals are handled, so that Ctrl-C still ends the program here.
    let input = if wants_input(&invocation.command) { read_input()? } else { Vec::new() };
    let mut signals = Signals::listen()
        .map_err(|error| Failure::new(FAILURE, format!("cannot register signal handlers: {error}")))?;
    let terminal = Terminal::open();
    if invocation.key.is_some()
        && url.scheme() == "http"
        && !transport::is_loopback(&url)
        && !invocation.quiet
    {
        print_error("warning: the API key is sent unencrypted; use https");
    }
    let transport = HttpTransport::new(url.clone(), invocation.key.as_deref()).map_err(Failure::usage)?;
    let session = tokio::select! {
        code = signals.next() => return Ok(code),
        result = Session::connect(transport, terminal.is_some()) => result.map_err(|call_error| cannot_connect(invocation, &url, &call_error))?,
    };
    let result = commands::run(invocation, &session, terminal.as_ref(), &mut signals, &input).await;
    session.end().await;
    result
}

/// Returns the endpoint's URL, with the path `/mcp` if only the server is named.
fn endpoint(text: &str) -> Result<Url, Failure> {
    let usage_error =
        |reason: &str| Failure::usage(format!("--url {text}: {reason}, such as http://127.0.0.1:8808/mcp"));
    let mut url = Url::parse(text).map_err(|_| usage_error("must be a URL"))?;
    if !["http", "https"].contains(&url.scheme()) || url.host_str().is_none() {
        return Err(usage_error("must be an http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Failure::usage("--url: put the API key into $TASKBRIDGE_KEY, not into the URL"));
    }
    if url.path() == "/" {
        url.set_path("/mcp");
    }
    Ok(url)
}

fn cannot_connect(invocation: &Invocation, url: &Url, error: &ServerCallError) -> Failure {
    let why = match error {
        ServerCallError::Status { status, .. } if status.as_u16() == 401 => match invocation.key {
            None => "the server requires an API key; put it into $TASKBRIDGE_KEY".to_owned(),
            Some(_) => "the server rejects the API key in $TASKBRIDGE_KEY".to_owned(),
        },
        ServerCallError::Network { why, unsent: true } if why.starts_with("Connection refused") => {
            format!("{why}. Is the server running? `taskbridge serve` starts one; --url selects another")
        }
        ServerCallError::Network { why, unsent: true } if why.starts_with("received corrupt message") => {
            "the server does not speak TLS: use http".to_owned()
        }
        error => error.to_string(),
    };
    Failure::usage(format!("cannot connect to {url}: {why}"))
}

fn wants_input(command: &ClientCommand) -> bool {
    let ClientCommand::Call(call) = command else { return false };
    call.json_arguments.as_deref().is_some_and(|source| source == "-" || source == "@-")
        || call.assignments.iter().any(|word| word.split_once('=').is_some_and(|(_, text)| text == "@-"))
}

fn read_input() -> Result<Vec<u8>, Failure> {
    let mut input = Vec::new();
    let result = io::stdin().lock().read_to_end(&mut input);
    result.map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))?;
    Ok(input)
}

/// Prints to standard output. Write errors are ignored.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn print_error(text: &str) {
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "taskbridge: {text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The URL of a server alone gets the path `/mcp`, and credentials in it are not repeated.
    #[test]
    fn endpoint_url_gets_default_path() {
        let url = |text: &str| endpoint(text).map(|url| url.to_string()).map_err(|failure| failure.message);
        assert_eq!(url("http://127.0.0.1:8808").unwrap(), "http://127.0.0.1:8808/mcp");
        assert_eq!(url("https://bridge.example/tasks").unwrap(), "https://bridge.example/tasks");
        for text in ["127.0.0.1:8808", "bridge", "ftp://bridge/"] {
            assert!(url(text).unwrap_err().starts_with(&format!("--url {text}: must be a")), "{text}");
        }
        let secret = url("http://ann:hush@bridge/mcp").unwrap_err();
        assert!(secret.contains("$TASKBRIDGE_KEY") && !secret.contains("hush"), "{secret}");
    }
}
