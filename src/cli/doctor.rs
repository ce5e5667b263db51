//! `taskbridge doctor` and `taskbridge discover`: options and output. It must not know how the checks work.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use taskbridge_sdk::{Finding, PolicyDocument, Registry, ToolTarget, Verdict};

use super::store::runtime;
use super::{File, complain, load, print};
use crate::app::{CheckResult, DiscoveryFailure, counted, look_over, offers};
use crate::config::locate::Environment;
use crate::config::{self, Config};

#[derive(Args)]
pub(super) struct Options {
    #[command(flatten)]
    file: File,
    /// Print the findings as one JSON array, for programs.
    #[arg(long)]
    json: bool,
    /// Print the IAM policies that the AWS backends need, and check nothing: no engine is called.
    #[arg(long, conflicts_with = "json")]
    policy: bool,
}

#[derive(Args)]
pub(super) struct Discovering {
    /// The backend; without one, all backends that support discovery.
    backend: Option<String>,
    #[command(flatten)]
    file: File,
}

/// Runs all checks. If the config is invalid, its errors are the only findings.
pub(super) fn run(registry: &Registry, options: &Options) -> Result<ExitCode, String> {
    if options.policy {
        return policies(registry, &options.file).map(|()| ExitCode::SUCCESS);
    }
    let all = match load(registry, &options.file, &Environment::of_process()) {
        Ok((config, _)) => {
            let program = program()?;
            ended(look_over(&config, registry, &program))?
        }
        Err(problems) => problems.lines().map(wrong_config).collect(),
    };
    match options.json {
        true => print(&format!("{:#}\n", serde_json::json!(all))),
        false => print(&told(&all)),
    }
    let is_well = all.iter().all(|checked| checked.finding.verdict != Verdict::Fault);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the policies to standard output, and their roles to standard error, so that a single policy can be
/// piped.
fn policies(registry: &Registry, file: &File) -> Result<(), String> {
    let (config, _) = load(registry, file, &Environment::of_process())?;
    let mut printed = false;
    for (name, backend) in &config.backends {
        let Some(adapter) = registry.get(&backend.kind) else { continue };
        let own = config.tools.iter().filter(|tool| tool.backend == *name);
        let tools: Vec<ToolTarget> =
            own.map(|tool| ToolTarget { tool: tool.name.clone(), target: tool.target.clone() }).collect();
        for PolicyDocument { whose, document } in (adapter.policies)(&backend.fields, &tools) {
            complain(&format!("backend `{name}`: {whose}"));
            print(&format!("{document:#}\n"));
            printed = true;
        }
    }
    match printed {
        true => Ok(()),
        false => Err("taskbridge: no backend of this config needs an IAM policy".to_owned()),
    }
}

/// Runs a future to completion. A thread that still blocks, such as a read from an unreachable file server,
/// does not delay the exit of the process.
fn ended<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

fn wrong_config(problem: &str) -> CheckResult {
    CheckResult { of: "config".to_owned(), finding: Finding::fault("file", problem, "mend it there") }
}

fn told(all: &[CheckResult]) -> String {
    let mut text = String::new();
    for CheckResult { of, finding: Finding { what, verdict, says, fix } } in all {
        text.push_str(&format!("{verdict:<8} {of}: {what}: {says}\n"));
        for line in fix.iter().flat_map(|fix| fix.lines()) {
            text.push_str(&format!("         > {line}\n"));
        }
    }
    let count = |wanted: Verdict| all.iter().filter(|checked| checked.finding.verdict == wanted).count();
    let (faults, warnings) =
        (counted(count(Verdict::Fault), "fault"), counted(count(Verdict::Warning), "warning"));
    text.push_str(&format!("{faults}, {warnings}\n"));
    text
}

/// Prints the tools that backends offer.
pub(super) fn discover(registry: &Registry, options: &Discovering) -> Result<(), String> {
    let (config, _) = load(registry, &options.file, &Environment::of_process())?;
    let program = program()?;
    if let Some(name) = options.backend.as_ref().filter(|name| !config.backends.contains_key(*name)) {
        let known: Vec<&str> = config.backends.keys().map(String::as_str).collect();
        return Err(format!(
            "taskbridge: there is no backend `{name}` in the config: it has {}",
            known.join(", ")
        ));
    }
    let (mut failed, mut answered) = (Vec::new(), 0);
    for (name, backend) in &config.backends {
        if options.backend.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        match ended(offers(&config, registry, &program, name, backend))? {
            Ok(tools) => {
                answered += 1;
                tools.iter().for_each(|tool| print(&pasted(registry, &config, name, tool)));
            }
            // Without a backend argument, a backend that has no discovery is skipped, unless `discover` is
            // configured for it.
            Err(DiscoveryFailure::Unable(error))
                if options.backend.is_none() && backend.discover.is_none() =>
            {
                complain(&format!("taskbridge: backend `{name}` is passed over: {error}"));
            }
            Err(DiscoveryFailure::Unable(error) | DiscoveryFailure::Failed(error)) => {
                failed.push(format!("taskbridge: backend `{name}`: {error}"));
            }
        }
    }
    if failed.is_empty() && answered == 0 {
        failed.push(format!("taskbridge: {}: no backend can say what it offers", config.file.display()));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Formats a tool as config, or as a comment with the reason if that is impossible.
fn pasted(
    registry: &Registry,
    config: &Config,
    backend: &str,
    tool: &taskbridge_sdk::DiscoveredTool,
) -> String {
    let name = config.tool_rules.name(backend, tool);
    let comment = |why: &str| format!("# `{name}` of backend `{backend}`: {}\n\n", why.replace('\n', "\n# "));
    if config.tools.iter().any(|known| known.name == name) {
        return comment("the config has a tool of this name");
    }
    if let Err(problems) = config.tool_rules.read(registry, backend, tool) {
        return comment(&problems.to_string());
    }
    match config::as_toml(&name, backend, tool) {
        Ok(text) => format!("{text}\n"),
        Err(why) => comment(&format!("it cannot be written as TOML: {why}")),
    }
}

fn program() -> Result<PathBuf, String> {
    std::env::current_exe()
        .map_err(|error| format!("taskbridge: this program's own file cannot be found: {error}"))
}
