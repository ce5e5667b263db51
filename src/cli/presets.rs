//! `taskbridge presets`: prints the backends that adapters know, and tries one against the user's engine. It must
//! not know how it is tried.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;
use taskbridge_sdk::{Registry, Verdict};

use super::doctor::{block_on, format_results, program};
use super::{File, load, print};
use crate::app::{CheckResult, try_backend};
use crate::config::locate::Environment;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Options {
    /// The preset to print; without one, all are listed.
    name: Option<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Try a preset against your engine: with the backends of the config that use it, everything is read that can
    /// be read without a job. Nothing is started or changed. Prints what to report to the project.
    Try {
        /// The preset.
        name: String,
        #[command(flatten)]
        file: File,
    },
}

/// Prints the list of presets, or the text of one, or what a trial of one finds.
///
/// # Errors
/// If there is no preset with this name, or no backend to try it with.
pub(super) fn run(registry: &Registry, options: &Options) -> Result<ExitCode, String> {
    match &options.command {
        Some(Command::Try { name, file }) => return try_preset(registry, name, file),
        None => print(&describe(registry, options.name.as_deref())?),
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(registry: &Registry, name: Option<&str>) -> Result<String, String> {
    if let Some(name) = name {
        return find(registry, name).map(|(_, text)| text.to_owned());
    }
    let lines = presets(registry).map(|(kind, name, text)| format!("{name:<24} {kind:<8} {}\n", title(text)));
    Ok(lines.collect())
}

/// Iterates over all presets: kind, name and text.
fn presets(registry: &Registry) -> impl Iterator<Item = (&str, &str, &str)> {
    registry
        .iter()
        .flat_map(|adapter| adapter.presets.iter().map(|(name, text)| (adapter.kind, *name, *text)))
}

/// Returns the kind and the text of a preset.
fn find<'a>(registry: &'a Registry, wanted: &str) -> Result<(&'a str, &'a str), String> {
    presets(registry).find(|(_, name, _)| *name == wanted).map(|(kind, _, text)| (kind, text)).ok_or_else(
        || {
            let names: Vec<&str> = presets(registry).map(|(_, name, _)| name).collect();
            format!("taskbridge: unknown preset `{wanted}` (known: `{}`)", names.join("`, `"))
        },
    )
}

fn try_preset(registry: &Registry, name: &str, file: &File) -> Result<ExitCode, String> {
    let (_, text) = find(registry, name)?;
    let (config, _) = load(registry, file, &Environment::of_process())?;
    let program = program()?;
    let mut results = Vec::new();
    let uses = |fields: &Value| fields.get("preset").and_then(Value::as_str) == Some(name);
    for (backend_name, backend) in config.backends.iter().filter(|(_, backend)| uses(&backend.fields)) {
        results.extend(block_on(try_backend(&config, registry, &program, backend_name, backend))?);
    }
    if results.is_empty() {
        let file = config.file.display();
        return Err(format!(
            "taskbridge: {file}: no backend uses the preset `{name}`; add one:\n\n    [backends.NAME]\n    preset = \
             \"{name}\"\n    base = \"https://..\"\n\nand its credentials (see `taskbridge presets {name}`)"
        ));
    }
    print(&format_results(&results));
    print(&report(name, text, &results));
    let has_passed = results.iter().all(|result| result.finding.verdict != Verdict::Fault);
    Ok(if has_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Formats what to report: each check by its kind and verdict. Names, addresses and messages are the user's own.
fn report(name: &str, text: &str, results: &[CheckResult]) -> String {
    let mut lines: Vec<String> = results
        .iter()
        .map(|result| {
            let what = result.finding.what.as_str();
            // `tool `deploy`` and `poll of the unknown job {..}`
            let kind = what.split(['`', '{']).next().unwrap_or_default().trim_end();
            format!(
                "{:<28} {}\n",
                if what.ends_with("in a list") { "poll in a list" } else { kind },
                result.finding.verdict
            )
        })
        .collect();
    lines.sort();
    lines.dedup();
    format!(
        "\nPlease report this to the project, with the name and version of your engine. It has no address and no name of \
         yours.\nAdd the messages of faults above, if they have none either.\n\n```\npreset {name}: {}\ntaskbridge \
         {}\n{}```\n",
        title(text),
        env!("CARGO_PKG_VERSION"),
        lines.concat(),
    )
}

/// Returns what a preset says about itself: title, proof and versions.
fn title(text: &str) -> String {
    let about = text.parse::<toml::Table>().ok().and_then(|fields| fields.get("about").cloned());
    let field = |name: &str| about.as_ref().and_then(|about| about.get(name)?.as_str());
    let parts = [field("title"), field("proof"), field("versions")];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
