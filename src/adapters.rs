//! The list of compiled-in adapters, one line each. This file must not contain anything else.

use taskbridge_github_actions::GithubActions;
use taskbridge_local::Local;
use taskbridge_sdk::Registry;
use taskbridge_sdk::sim::Sim;
use taskbridge_slurm::Slurm;
use taskbridge_step_functions::StepFunctions;

/// Returns the registry of all adapters.
pub fn all() -> Registry {
    Registry::new()
        .with::<GithubActions>()
        .with::<Local>()
        .with::<Sim>()
        .with::<Slurm>()
        .with::<StepFunctions>()
}
