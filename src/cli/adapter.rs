//! `taskbridge adapter`: commands for authors of adapter programs. It must not know the messages of the
//! protocol.

mod new;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use taskbridge_process::trial::{self, Plan, Verdict};
use taskbridge_process::{Config, describe};
use taskbridge_sdk::ConnectContext;

use super::store::runtime;
use super::{print, print_error};

/// Time for the first answer of a program, and for each call.
const LIMIT: Duration = Duration::from_secs(30);

#[derive(Subcommand)]
pub(super) enum Command {
    /// Test an adapter program against the rules that every adapter keeps, and print which it breaks.
    Test(Test),
    /// Print the manifest of an adapter program, with which `check` needs not start it.
    Describe(Describe),
    /// Create a new adapter program from a template.
    New(new::Options),
}

#[derive(Args)]
pub(super) struct Describe {
    /// For a service, in place of a command: a file with its address, as `[service]` with `url` and `auth`. The
    /// file of `adapter test` is one.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The part of the file of `adapter test` that `adapter describe` reads.
#[derive(Deserialize)]
struct ServiceFile {
    service: Option<Map<String, Value>>,
}

#[derive(Args)]
pub(super) struct Test {
    /// The file with the program's config and the jobs to test with. It can also follow the command. A
    /// service has no command: its address is in the file, as `[service]` with `url` and `auth`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only the rules whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The program and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs a command.
pub(super) fn run(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Test(options) => test(options),
        Command::Describe(options) => describe_program(options).map(|()| ExitCode::SUCCESS),
        Command::New(options) => new::run(&options).map(|()| ExitCode::SUCCESS),
    }
}

fn describe_program(Describe { config, command }: Describe) -> Result<(), String> {
    let source = config.as_deref().map_or_else(|| command.join(" "), |file| file.display().to_string());
    let named = |text: String| format!("taskbridge: {source}: {text}");
    let file: ServiceFile = match &config {
        Some(file) => toml::from_str(&read(file)?).map_err(|error| named(error.to_string()))?,
        None => ServiceFile { service: None },
    };
    let fields = endpoint(&command, file.service).map_err(|text| format!("taskbridge: {text}"))?;
    let config = Config::deserialize(Value::Object(fields)).map_err(|error| named(error.to_string()))?;
    let context = context("describe", std::env::temp_dir())?;
    let description = runtime()?.block_on(describe(&config.endpoint, &context));
    let description = description.map_err(|error| named(error.to_string()))?;
    print(&format!("{:#}\n", json!(description)));
    Ok(())
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("taskbridge: {}: {error}", file.display()))
}

/// Returns the fields of either a command or a service.
fn endpoint(command: &[String], service: Option<Map<String, Value>>) -> Result<Map<String, Value>, String> {
    match service {
        Some(service) if command.is_empty() => Ok(service),
        None if !command.is_empty() => Ok(Map::from_iter([("command".to_owned(), json!(command))])),
        _ => Err("name either a command, after `--`, or a [service] in the file of `--config`".to_owned()),
    }
}

/// Returns the context of a connection that no server makes.
fn context(name: &str, state_dir: PathBuf) -> Result<ConnectContext, String> {
    let (config_dir, program) = (current_dir()?, program()?);
    Ok(ConnectContext { name: name.to_owned(), config_dir, state_dir, program, call_timeout: LIMIT })
}

fn program() -> Result<PathBuf, String> {
    std::env::current_exe()
        .map_err(|error| format!("taskbridge: the path of this program cannot be determined: {error}"))
}

fn current_dir() -> Result<PathBuf, String> {
    std::env::current_dir().map_err(|error| format!("taskbridge: the current folder cannot be read: {error}"))
}

/// Returns the file and the command. `-- COMMAND --config FILE` means the same as `--config FILE -- COMMAND`.
fn split(config: Option<PathBuf>, mut command: Vec<String>) -> Result<(PathBuf, Vec<String>), String> {
    match (config, command.as_slice()) {
        (Some(config), _) => Ok((config, command)),
        (None, [_, .., option, _]) if option == "--config" => {
            let file = command.pop().unwrap_or_default();
            command.pop();
            Ok((file.into(), command))
        }
        (None, _) => {
            Err("taskbridge: --config FILE is missing: the file with the jobs to test with".to_owned())
        }
    }
}

fn test(options: Test) -> Result<ExitCode, String> {
    let (file, command) = split(options.config, options.command)?;
    let named = |text: String| format!("taskbridge: {}: {text}", file.display());
    let plan: Plan = toml::from_str(&read(&file)?).map_err(|error| named(error.to_string()))?;
    let mut fields = endpoint(&command, plan.service.clone()).map_err(named)?;
    let own = [("config", json!(plan.config)), ("secrets", json!(plan.secrets)), ("env", json!(plan.env))];
    fields.extend(own.map(|(name, value)| (name.to_owned(), value)));
    let config = Config::deserialize(Value::Object(fields)).map_err(|error| named(error.to_string()))?;
    let state = std::env::temp_dir().join(format!("taskbridge-adapter-test-{}", std::process::id()));
    let context = context("test", state.clone())?;
    let runtime = runtime()?;
    let subject = runtime.block_on(trial::connect(config, &context));
    let subject = subject.map_err(|error| match command.is_empty() {
        true => named(error.to_string()),
        false => format!("taskbridge: {}: {error}", command.join(" ")),
    })?;
    let mut counts = Counts::default();
    // A test that fails reports by a panic, which is the verdict and no crash.
    std::panic::set_hook(Box::new(|_| {}));
    trial::run(&subject, &plan, options.only.as_deref().unwrap_or_default(), |name, text, verdict| {
        print(&counts.line(name, text, verdict));
    });
    drop(subject);
    remove(&state);
    print(&counts.summary());
    Ok(if counts.broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes the folder, if the program created it.
fn remove(state: &Path) {
    if let Err(error) = std::fs::remove_dir_all(state)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        print_error(&format!("warning: {} remains: {error}", state.display()));
    }
}

#[derive(Default)]
struct Counts {
    kept: usize,
    broken: usize,
    skipped: usize,
}

impl Counts {
    fn line(&mut self, name: &str, text: &str, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Kept => {
                self.kept += 1;
                format!("ok       {name}\n")
            }
            Verdict::Broken(how) => {
                self.broken += 1;
                format!("BROKEN   {name}\n         rule:  {text}\n         found: {how}\n")
            }
            Verdict::Skipped(reason) => {
                self.skipped += 1;
                format!("skipped  {name}: {reason}\n")
            }
        }
    }

    fn summary(&self) -> String {
        format!("{} rules kept, {} broken, {} skipped\n", self.kept, self.broken, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_may_follow_the_command() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (file, command) = split(None, words("python3 a.py --config x.toml")).unwrap();
        assert_eq!((file, command), ("x.toml".into(), words("python3 a.py")));
        let (file, command) = split(Some("y.toml".into()), words("a --config x.toml")).unwrap();
        assert_eq!((file, command), ("y.toml".into(), words("a --config x.toml")));
        assert!(split(None, words("python3 a.py")).is_err());
    }
}
