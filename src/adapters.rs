//! The adapters that this program is built with, one line each. It must hold nothing else.

use taskbridge_github_actions::GithubActions;
use taskbridge_local::Local;
use taskbridge_sdk::Registry;
use taskbridge_sdk::sim::Sim;
use taskbridge_slurm::Slurm;
use taskbridge_step_functions::StepFunctions;

/// All of them.
pub fn all() -> Registry {
    Registry::new()
        .with::<GithubActions>()
        .with::<Local>()
        .with::<Sim>()
        .with::<Slurm>()
        .with::<StepFunctions>()
}
