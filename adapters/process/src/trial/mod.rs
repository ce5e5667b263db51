//! [`run`]: the sdk's behaviour suite for any program, over the wire. A [`Plan`] says which jobs to run.
//! [`streams`] is for simulations. It must not be used by a server.

mod fixture;
mod plan;
pub mod streams;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use taskbridge_sdk::suite::{CONTRACT, check};
use taskbridge_sdk::{ConnectContext, Result};

use crate::config::Config;
use crate::core::Core;
use crate::driver::session::Ability;
use fixture::Trial;

pub use plan::Plan;

/// Result of one rule of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The program keeps it.
    Kept,
    /// The program breaks it, in this way.
    Broken(String),
    /// It was not tested, for this reason.
    Skipped(String),
}

/// Connects a program. The calls of [`run`] go to it.
///
/// # Errors
/// As [`taskbridge_sdk::Adapter::connect`].
pub async fn connect(config: Config, context: &ConnectContext) -> Result<Subject> {
    Ok(Subject { core: Arc::new(Core::connect(config, context).await?) })
}

/// A connected program under test.
pub struct Subject {
    core: Arc<Core>,
}

/// Runs the rules whose names contain `only`, one after the other, and reports each: its name, its text and
/// its verdict. It blocks, and must not be called within a runtime.
pub fn run(subject: &Subject, plan: &Plan, only: &str, mut report: impl FnMut(&str, &str, &Verdict)) {
    for (name, text) in CONTRACT.iter().filter(|(name, _)| name.contains(only)) {
        let verdict = match reason_to_skip(&subject.core, plan, name) {
            Some(reason) => Verdict::Skipped(reason),
            None => run_one(subject, plan, name),
        };
        report(name, text, &verdict);
    }
}

fn run_one(subject: &Subject, plan: &Plan, name: &str) -> Verdict {
    let trial = Trial { core: Arc::clone(&subject.core), plan: plan.clone() };
    let test = AssertUnwindSafe(|| taskbridge_sdk::suite::run(async { assert!(check(name, &trial).await) }));
    match catch_unwind(test) {
        Ok(()) => Verdict::Kept,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Verdict::Broken(text.unwrap_or("the test failed without a message").to_owned())
        }
    }
}

/// Returns why a rule cannot be tested. `None` if it can.
fn reason_to_skip(core: &Core, plan: &Plan, name: &str) -> Option<String> {
    const FAULTS: [&str; 7] = [
        "start_whose_reply_was_lost_is_uncertain",
        "start_that_is_unavailable_starts_nothing",
        "start_that_is_limited_starts_nothing",
        "new_job_is_never_gone",
        "fault_of_a_look_is_an_error",
        "fault_of_a_discovery_is_an_error",
        "checkup_of_an_engine_that_is_away_is_a_fault",
    ];
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if FAULTS.contains(&name) {
        return Some("needs a fault between the program and its engine".to_owned());
    }
    let (ability, table, has_table) = match name {
        "start_that_is_refused_says_the_engines_words" => (None, "refused", plan.refused.is_some()),
        "notes_keep_their_numbers_to_the_end" => (None, "notes", false),
        _ if starts(&["question_", "answer_"]) => {
            (Some(Ability::Answer), "question", plan.question.is_some())
        }
        _ if starts(&["log_"]) => (Some(Ability::Log), "log", plan.log.is_some()),
        _ if starts(&["artifact_"]) => (Some(Ability::Artifact), "artifact", plan.artifact.is_some()),
        _ if starts(&["wakeup_"]) && core.proof.is_some() => {
            return Some("a hint of a service waits for its next answer".to_owned());
        }
        _ if starts(&["wakeup_"]) => (Some(Ability::Changed), "long", true),
        _ if starts(&["checkup_"]) => (Some(Ability::CheckUp), "check_up", plan.check_up.is_some()),
        _ if starts(&["discovered_"]) => return Some("needs an engine whose tools change".to_owned()),
        _ if starts(&["renamed_", "cancel_of_an_unstoppable"]) => {
            return Some("the file cannot describe such a job".to_owned());
        }
        _ if starts(&["hook_"]) => return Some("the file cannot describe what a service posts".to_owned()),
        _ => return None,
    };
    match ability {
        Some(ability) if !core.link.last_session().has(ability) => {
            Some(format!("the program does not have the ability `{}`", ability.name()))
        }
        _ if !has_table => Some(format!("the file has no table [{table}]")),
        _ => None,
    }
}
