//! The list of compiled-in adapters, one line each, and the kinds that a build can leave out. This file must
//! not contain anything else.

use taskbridge_sdk::Registry;
use taskbridge_sdk::sim::Sim;

/// The kinds of adapters that a build can leave out. Each is a Cargo feature of its name.
pub(crate) const OPTIONAL: [&str; 6] =
    ["github-actions", "http", "local", "process", "slurm", "step-functions"];

/// Returns the registry of all adapters of this build.
pub fn all() -> Registry {
    let registry = Registry::new().with::<Sim>();
    #[cfg(feature = "github-actions")]
    let registry = registry.with::<taskbridge_github_actions::GithubActions>();
    #[cfg(feature = "http")]
    let registry = registry.with::<taskbridge_http::Http>();
    #[cfg(feature = "local")]
    let registry = registry.with::<taskbridge_local::Local>();
    #[cfg(feature = "process")]
    let registry = registry.with::<taskbridge_process::Process>();
    #[cfg(feature = "slurm")]
    let registry = registry.with::<taskbridge_slurm::Slurm>();
    #[cfg(feature = "step-functions")]
    let registry = registry.with::<taskbridge_step_functions::StepFunctions>();
    registry
}
