//! The options of `taskbridge call`, and their conversion to an [`Invocation`] of the client. It must not
//! know how that is executed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use humantime_serde::re::humantime::parse_duration;
use taskbridge_client::{self as client, ClientCommand, HistoryEntry, Invocation};

use super::{print, print_error};
use crate::config::locate::Environment;

/// Default endpoint.
const DEFAULT_URL: &str = "http://127.0.0.1:8808/mcp";

/// Exit code for an invalid command line.
const USAGE: u8 = 2;

/// Help text after the options.
const MORE: &str = "\
Values:
  NAME=VALUE    by the type of the parameter: text, 3, true, a,b,c or JSON
  NAME:=JSON    JSON, unchanged, such as note:='\"@home\"'
  NAME=@FILE    the content of a file; @- is standard input

While the job runs, standard error shows its progress, and questions are asked at the terminal. Without a terminal on standard input, none \
are asked. Standard output contains only the result; with --json, it is one document, {\"status\", \"task\", \"result\" \
or \"error\", \"saved\"}, or nothing if there is no result. Ctrl-C asks whether to cancel the job; a second one leaves it running.

Environment:
  TASKBRIDGE_URL   the server, if --url does not name one
  TASKBRIDGE_KEY   the API key, for a server that requires one
  SSL_CERT_FILE    for https: certificates to trust instead of this machine's

Exit codes:
  0    the job succeeded, or was detached by --detach or cancelled by --cancel
  1    the job failed, was cancelled or could not run, or saving files failed
  2    wrong command line, no connection, or unknown tool or task
  124  --timeout has passed; the job continues
  130  interrupted before the end (143: SIGTERM); the job continues

Examples:
  taskbridge call --list
  taskbridge call countdown seconds=3
  taskbridge call word_count text=@README.md
  taskbridge call hash_tree path=/etc --save out
  id=$(taskbridge call countdown seconds=600 --detach)
  taskbridge call --task \"$id\"
  taskbridge call --last";

#[derive(Args)]
#[command(after_help = MORE)]
pub(super) struct Options {
    /// The tool. Without one, the tools are listed.
    tool: Option<String>,
    /// The tool's arguments: NAME=VALUE, NAME:=JSON or NAME=@FILE.
    #[arg(value_name = "NAME=VALUE", requires = "tool")]
    arguments: Vec<String>,
    /// List the tools with their parameters, or only TOOL.
    #[arg(long, conflicts_with_all = ["arguments", "args", "task", "detach"])]
    list: bool,
    /// The server's endpoint [default: $TASKBRIDGE_URL, else http://127.0.0.1:8808/mcp].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// All arguments as a JSON object, as @FILE, or - for standard input; NAME=VALUE takes precedence.
    #[arg(long, value_name = "JSON", requires = "tool")]
    args: Option<String>,
    /// Minimum retention of the task and its result, such as 1h or 7d.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "tool")]
    ttl: Option<Duration>,
    /// Idempotency key: a repeated call with the same key returns the same task and starts nothing.
    #[arg(long, value_name = "KEY", requires = "tool")]
    idempotency_key: Option<String>,
    /// Print the task's id and exit; the job continues.
    #[arg(long, requires = "tool", conflicts_with_all = ["timeout", "save"])]
    detach: bool,
    /// Watch a task that was started before.
    #[arg(long, value_name = "ID", conflicts_with = "tool")]
    task: Option<String>,
    /// Watch the task that was last started from this machine on this server.
    #[arg(long, conflicts_with_all = ["tool", "task", "list"])]
    last: bool,
    /// List the tasks that were started from this machine on this server, with their ids; newest last.
    #[arg(long, conflicts_with_all = ["tool", "task", "last", "list", "cancel", "timeout", "save"])]
    history: bool,
    /// Cancel that task.
    #[arg(long, conflicts_with_all = ["tool", "timeout", "save"])]
    cancel: bool,
    /// Save images, audio, blobs, artifacts and logs into this folder.
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
    /// Print one JSON document with all results, for scripts.
    #[arg(long)]
    json: bool,
    /// Print nothing but the result and errors.
    #[arg(long, short)]
    quiet: bool,
    /// Maximum time to wait; the job continues after it.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

impl Options {
    fn into_invocation(self, environment: Environment, last: Option<String>) -> Invocation {
        let url = self.endpoint(&environment);
        let watch_command = match &self.url {
            None => "taskbridge call".to_owned(),
            Some(url) => format!("taskbridge call --url {url}"),
        };
        let command = match (self.task.or(last), self.tool) {
            (Some(task), _) if self.cancel => ClientCommand::Cancel { task },
            (Some(task), _) => ClientCommand::Attach { task },
            (None, Some(tool)) if !self.list => ClientCommand::Call(client::Call {
                tool,
                assignments: self.arguments,
                json_arguments: self.args,
                ttl: self.ttl,
                idempotency_key: self.idempotency_key,
                detach: self.detach,
            }),
            (None, tool) => ClientCommand::List { tool },
        };
        Invocation {
            url,
            key: environment.key.as_ref().map(|key| key.reveal().to_owned()),
            command,
            json: self.json,
            quiet: self.quiet,
            save: self.save,
            timeout: self.timeout,
            watch_command,
            history: history_file(&environment),
        }
    }
}

impl Options {
    fn endpoint(&self, environment: &Environment) -> String {
        let given = self.url.as_ref().or(environment.url.as_ref());
        given.cloned().unwrap_or_else(|| DEFAULT_URL.to_owned())
    }

    /// Returns the recorded calls on this server, oldest first.
    fn recorded(&self, environment: &Environment) -> Result<Vec<HistoryEntry>, String> {
        let file = history_file(environment).ok_or("taskbridge: there is no home folder with a history")?;
        let entries = client::read_history(&file)
            .map_err(|error| format!("taskbridge: {}: {error}", file.display()))?;
        let url = self.endpoint(environment);
        Ok(entries.into_iter().filter(|entry| entry.url == url).collect())
    }

    fn print_history(&self, environment: &Environment) -> Result<(), String> {
        let entries = self.recorded(environment)?;
        if self.json {
            let text = serde_json::to_string_pretty(&entries).map_err(|error| error.to_string())?;
            print(&format!("{text}\n"));
        } else {
            let line = |entry: &HistoryEntry| format!("{}  {}  {}\n", entry.at, entry.task, entry.tool);
            print(&entries.iter().map(line).collect::<String>());
        }
        Ok(())
    }
}

fn history_file(environment: &Environment) -> Option<PathBuf> {
    environment.state_home.as_ref().map(|home| home.join("taskbridge").join("calls.jsonl"))
}

/// Executes the call and returns the exit code.
pub(super) fn call(options: Options) -> Result<ExitCode, String> {
    let environment = Environment::of_process();
    if options.history {
        return options.print_history(&environment).map(|()| ExitCode::SUCCESS);
    }
    if options.cancel && options.task.is_none() && !options.last {
        print_error("taskbridge: --cancel needs --task ID or --last");
        return Ok(ExitCode::from(USAGE));
    }
    let last = match options.last {
        false => None,
        true => match options.recorded(&environment)?.pop() {
            Some(entry) => Some(entry.task),
            None => {
                let url = options.endpoint(&environment);
                print_error(&format!("taskbridge: --last: no call of {url} was recorded on this machine"));
                return Ok(ExitCode::from(USAGE));
            }
        },
    };
    let invocation = options.into_invocation(environment, last);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| format!("taskbridge: the event loop cannot be created: {error}"))?;
    let code = runtime.block_on(client::run(&invocation));
    // A DNS lookup blocks its thread, and nothing can interrupt it.
    runtime.shutdown_background();
    Ok(ExitCode::from(code))
}
