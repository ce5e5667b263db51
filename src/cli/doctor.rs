//! `taskbridge doctor` and `taskbridge discover`: options and output. It must not know how the checks work.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use taskbridge_sdk::{Finding, PolicyDocument, Registry, ToolTarget, Verdict};

use super::output::{ATTENTION, BAD, GOOD, styled};
use super::store::runtime;
use super::{File, load, print, print_error};
use crate::app::{CheckResult, DiscoveryFailure, discover_tools, pluralize, run_checks};
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

impl Options {
    /// Returns the options that check this file and print text.
    pub(super) fn of(config: PathBuf) -> Self {
        Self { file: File { config: Some(config) }, json: false, policy: false }
    }
}

#[derive(Args)]
pub(super) struct DiscoverOptions {
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
    let results = match load(registry, &options.file, &Environment::of_process()) {
        Ok((config, _)) => {
            let program = program()?;
            block_on(run_checks(&config, registry, &program))?
        }
        Err(problems) => problems.lines().map(config_finding).collect(),
    };
    match options.json {
        true => print(&format!("{:#}\n", serde_json::json!(results))),
        false => print(&format_results(&results)),
    }
    let has_passed = results.iter().all(|result| result.finding.verdict != Verdict::Fault);
    Ok(if has_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the policies to standard output, and their roles to standard error, so that a single policy can be
/// piped.
fn policies(registry: &Registry, file: &File) -> Result<(), String> {
    let (config, _) = load(registry, file, &Environment::of_process())?;
    let mut has_printed = false;
    for (name, backend) in &config.backends {
        let Some(adapter) = registry.get(&backend.kind) else { continue };
        let backend_tools = config.tools.iter().filter(|tool| tool.backend == *name);
        let tools: Vec<ToolTarget> =
            backend_tools.map(|tool| ToolTarget::new(&tool.name, tool.target.clone())).collect();
        for PolicyDocument { grantee, document } in (adapter.policies)(&backend.fields, &tools) {
            print_error(&format!("backend `{name}`: {grantee}"));
            print(&format!("{document:#}\n"));
            has_printed = true;
        }
    }
    match has_printed {
        true => Ok(()),
        false => Err("taskbridge: no backend of this config needs an IAM policy".to_owned()),
    }
}

/// Runs a future to completion. A thread that still blocks, such as a read from an unreachable file server,
/// does not delay the exit of the process.
pub(super) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let runtime = runtime()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(result)
}

fn config_finding(problem: &str) -> CheckResult {
    CheckResult { of: "config".to_owned(), finding: Finding::fault("file", problem, "fix it there") }
}

pub(super) fn format_results(results: &[CheckResult]) -> String {
    let mut text = String::new();
    for CheckResult { of, finding: Finding { what: subject, verdict, says: message, fix } } in results {
        let style = match verdict {
            Verdict::Ok => GOOD,
            Verdict::Warning => ATTENTION,
            Verdict::Fault => BAD,
        };
        let verdict = styled(style, format!("{verdict:<8}"));
        text.push_str(&format!("{verdict} {of}: {subject}: {message}\n"));
        for line in fix.iter().flat_map(|fix| fix.lines()) {
            text.push_str(&format!("         > {line}\n"));
        }
    }
    let count = |verdict: Verdict| results.iter().filter(|result| result.finding.verdict == verdict).count();
    let (faults, warnings) =
        (pluralize(count(Verdict::Fault), "fault"), pluralize(count(Verdict::Warning), "warning"));
    text.push_str(&format!("{faults}, {warnings}\n"));
    text
}

/// Prints the tools that backends offer.
pub(super) fn discover(registry: &Registry, options: &DiscoverOptions) -> Result<(), String> {
    let (config, _) = load(registry, &options.file, &Environment::of_process())?;
    let program = program()?;
    if let Some(name) = options.backend.as_ref().filter(|name| !config.backends.contains_key(*name)) {
        let names: Vec<&str> = config.backends.keys().map(String::as_str).collect();
        return Err(format!("taskbridge: unknown backend `{name}`; the config has {}", names.join(", ")));
    }
    let (mut errors, mut answered_count) = (Vec::new(), 0);
    for (name, backend) in &config.backends {
        if options.backend.as_ref().is_some_and(|selected| selected != name) {
            continue;
        }
        match block_on(discover_tools(&config, registry, &program, name, backend))? {
            Ok(tools) => {
                answered_count += 1;
                tools.iter().for_each(|tool| print(&format_tool(registry, &config, name, tool)));
            }
            // Without a backend argument, a backend that has no discovery is skipped, unless `discover` is
            // configured for it.
            Err(DiscoveryFailure::Unable(error))
                if options.backend.is_none() && backend.discover.is_none() =>
            {
                print_error(&format!("taskbridge: backend `{name}` is skipped: {error}"));
            }
            Err(DiscoveryFailure::Unable(error) | DiscoveryFailure::Failed(error)) => {
                errors.push(format!("taskbridge: backend `{name}`: {error}"));
            }
        }
    }
    if errors.is_empty() && answered_count == 0 {
        errors.push(format!("taskbridge: {}: no backend supports discovery", config.file.display()));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// Formats a tool as config, or as a comment with the reason if that is impossible.
fn format_tool(
    registry: &Registry,
    config: &Config,
    backend: &str,
    tool: &taskbridge_sdk::DiscoveredTool,
) -> String {
    let name = config.tool_rules.name(backend, tool);
    let comment =
        |reason: &str| format!("# `{name}` of backend `{backend}`: {}\n\n", reason.replace('\n', "\n# "));
    if config.tools.iter().any(|existing| existing.name == name) {
        return comment("the config has a tool of this name");
    }
    if let Err(problems) = config.tool_rules.read(registry, backend, tool) {
        return comment(&problems.to_string());
    }
    match config::as_toml(&name, backend, tool) {
        Ok(text) => format!("{text}\n"),
        Err(reason) => comment(&format!("cannot be written as TOML: {reason}")),
    }
}

pub(super) fn program() -> Result<PathBuf, String> {
    std::env::current_exe()
        .map_err(|error| format!("taskbridge: the path of this program cannot be determined: {error}"))
}
