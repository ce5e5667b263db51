//! `taskbridge presets`: prints the backends that adapters know. It must not read a config.

use clap::Args;
use taskbridge_sdk::Registry;

#[derive(Args)]
pub(super) struct Options {
    /// The preset to print; without one, all are listed.
    name: Option<String>,
}

/// Returns the list of presets, or the text of one.
///
/// # Errors
/// If there is no preset with this name.
pub(super) fn run(registry: &Registry, options: &Options) -> Result<String, String> {
    let presets =
        || registry.iter().flat_map(|adapter| adapter.presets.iter().map(move |it| (adapter.kind, it)));
    let Some(wanted) = &options.name else {
        let lines = presets().map(|(kind, (name, text))| format!("{name:<24} {kind:<8} {}\n", title(text)));
        return Ok(lines.collect());
    };
    match presets().find(|(_, (name, _))| name == wanted) {
        Some((_, (_, text))) => Ok((*text).to_owned()),
        None => {
            let names: Vec<&str> = presets().map(|(_, (name, _))| *name).collect();
            Err(format!("taskbridge: unknown preset `{wanted}` (known: `{}`)", names.join("`, `")))
        }
    }
}

/// Returns what a preset says about itself: title, proof and versions.
fn title(text: &str) -> String {
    let about = text.parse::<toml::Table>().ok().and_then(|fields| fields.get("about").cloned());
    let field = |name: &str| about.as_ref().and_then(|about| about.get(name)?.as_str());
    let parts = [field("title"), field("proof"), field("versions")];
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}
