//! `taskbridge adapter`: commands for authors of adapter programs. It must not know the messages of the
//! protocol.

mod new;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
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
    Describe(Program),
    /// Create a new adapter program from a template.
    New(new::Options),
}

#[derive(Args)]
pub(super) struct Program {
    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<String>,
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
        Command::Describe(Program { command }) => {
            let described = runtime()?.block_on(describe(program()?, &command, &current_dir()?, LIMIT));
            let description =
                described.map_err(|error| format!("taskbridge: {}: {error}", command.join(" ")))?;
            print(&format!("{:#}\n", serde_json::json!(description)));
            Ok(ExitCode::SUCCESS)
        }
        Command::New(options) => new::run(&options).map(|()| ExitCode::SUCCESS),
    }
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
    let text = std::fs::read_to_string(&file).map_err(|error| named(error.to_string()))?;
    let plan: Plan = toml::from_str(&text).map_err(|error| named(error.to_string()))?;
    let mut fields = serde_json::json!({"config": plan.config, "secrets": plan.secrets, "env": plan.env});
    match &plan.service {
        Some(service) if command.is_empty() => {
            service.iter().for_each(|(name, value)| fields[name.as_str()] = value.clone());
        }
        None if !command.is_empty() => fields["command"] = serde_json::json!(command),
        _ => return Err(named("name either a command, after `--`, or a [service] in this file".to_owned())),
    }
    let config: Config = serde_json::from_value(fields).map_err(|error| named(error.to_string()))?;
    let state = std::env::temp_dir().join(format!("taskbridge-adapter-test-{}", std::process::id()));
    let context = ConnectContext {
        name: "test".to_owned(),
        config_dir: current_dir()?,
        state_dir: state.clone(),
        program: program()?,
        call_timeout: LIMIT,
    };
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
