//! The tests of the suite as data: [`CONTRACT`], and [`check`] to run one by its name. For programs that run
//! the suite outside of a test. It must not contain a test of its own.

use super::*;

macro_rules! contract {
    ($($name:ident: $text:literal,)*) => {
        /// The tests of the suite: name, and the rule that it checks.
        pub const CONTRACT: &[(&str, &str)] = &[$((stringify!($name), $text)),*];

        /// Runs the test of this name. Returns false if there is none.
        ///
        /// # Panics
        /// Panics if the backend breaks the rule. The message says how.
        pub async fn check<F: Fixture>(name: &str, fixture: &F) -> bool {
            match name {
                $(stringify!($name) => Box::pin(super::$name(fixture)).await,)*
                _ => return false,
            }
            true
        }
    };
}

contract! {
    abilities_are_as_claimed:
        "The backend offers exactly the abilities that its fixture claims.",
    start_does_not_wait_for_the_end:
        "A start returns when the engine has accepted the job, without waiting for its end.",
    start_again_returns_the_same_job:
        "A repeated start with the same key returns the running job and never starts a second one.",
    start_again_after_the_end_returns_the_same_job:
        "A repeated start returns a job that has ended.",
    starts_at_the_same_time_make_one_job:
        "A second job never starts, even when several calls run at the same time.",
    start_that_may_exist_never_guesses:
        "A start with `may_exist` whose job is not found. It starts the first job if the engine has a key; \
         otherwise it returns `Uncertain` and starts nothing.",
    start_that_was_dropped_makes_one_job_at_most:
        "A start's future may be dropped at any await point. The repeated start completes the work, with at \
         most one job.",
    start_whose_reply_was_lost_is_uncertain:
        "A start whose reply was lost is `Uncertain`, and that a repeated start finds its job.",
    start_that_is_unavailable_starts_nothing:
        "`Unavailable` means that nothing started.",
    start_that_is_limited_starts_nothing:
        "`Limited` means that nothing started.",
    start_that_is_refused_says_the_engines_words:
        "A refused job is `Rejected`, with the engine's message.",
    find_sees_a_job_in_any_state:
        "A search by key finds its job, running or ended, and starts nothing.",
    find_of_an_unknown_key_starts_nothing:
        "A search for a key without a job returns `None` and starts nothing.",
    success_hands_back_the_output:
        "A successful job returns its output.",
    failure_says_why_in_one_line:
        "A job that ran and failed is `Failed`, and that the message gives the reason in one line.",
    ended_job_is_seen_the_same_every_time:
        "An ended job gives the same observation every time.",
    unknown_job_is_gone:
        "A job that the engine does not know is `Gone`, not an error.",
    new_job_is_never_gone:
        "A job that the engine does not list yet is not gone, whichever process polls it.",
    notes_keep_their_numbers_to_the_end:
        "A note has the same number in every observation, and that the last observation contains the job's last notes.",
    fault_of_a_look_is_an_error:
        "A fault of the network or the engine is an error, never a state of the job.",
    looks_at_many_answer_in_order:
        "Polling several jobs of a group returns results in the order of the handles, each equal to a single poll.",
    renamed_job_answers_to_both_names:
        "A renamed job has its new name in each poll by the old one, and the same end under both.",
    cancel_ends_a_running_job:
        "An accepted request to cancel ends the job, possibly after a while.",
    cancel_twice_is_harmless:
        "Repeated requests to cancel are harmless.",
    cancel_of_an_ended_job_changes_nothing:
        "Cancelling a job that has ended succeeds and leaves it unchanged.",
    cancel_of_an_unknown_job_is_success:
        "Cancelling a job that the engine does not know succeeds.",
    cancel_of_an_unstoppable_job_says_so:
        "A request to stop a job that cannot be stopped says so, each time, and that the job continues.",
    question_is_the_same_until_it_is_answered:
        "A question has an id, a text and, where applicable, a form, and is the same in every observation \
         until it is answered.",
    answer_lets_the_job_go_on:
        "An accepted answer lets the job continue, and that later observations no longer contain the question.",
    answer_given_again_says_the_same:
        "Sending the same answer again is harmless and returns the same result, even after the job has ended.",
    answer_that_came_first_stands:
        "The first answer that the engine accepted is final.",
    answer_that_says_no_reaches_the_job:
        "A declined question is answered too: the job receives the answer and ends in any way.",
    answer_nobody_asked_for_is_too_late:
        "An answer is too late if the question was never asked, or if the job has ended or is unknown.",
    log_holds_what_was_printed:
        "The end of a log contains what the job printed.",
    log_is_bounded_and_says_so:
        "A tail has at most the requested bytes, is cut at a line start, and reports that text was left out.",
    log_search_keeps_the_lines_that_match:
        "A search keeps only the lines that contain the text, regardless of case.",
    artifact_is_read_whole:
        "An artifact named in the output is read completely, up to exactly `max_bytes`.",
    artifact_of_no_such_name_is_none:
        "An artifact that the job did not leave is `None`.",
    artifact_that_is_too_large_is_rejected_with_its_size:
        "An artifact larger than the limit is `Rejected`, and that the message contains its size.",
    artifact_name_leads_nowhere_else:
        "A name never leads outside the files that the job left.",
    wakeup_names_the_job_that_ended:
        "A hint names the job that changed. Any hint may be lost, but not all of them.",
    discovered_tool_is_called_as_it_says:
        "A discovered tool works as described, with arguments that are valid against its schema.",
    discovered_names_are_unique_and_stay:
        "All tool names are valid and unique, and that an added tool does not change the name of an existing one.",
    discovered_tool_that_is_gone_is_left_out:
        "The list does not contain what the engine no longer has.",
    fault_of_a_discovery_is_an_error:
        "A fault is an error, and never an empty or shorter list of tools.",
    checkup_tells_what_is_right:
        "Successful checks are reported, and that nothing is a fault if everything is right.",
    checkup_changes_nothing:
        "A self-check starts nothing and does not touch running jobs.",
    checkup_names_the_tool_whose_target_is_missing:
        "A fault names the tool whose target does not exist in the engine, and explains how to fix it.",
    checkup_of_an_engine_that_is_away_is_a_fault:
        "An unreachable engine is a fault that explains how to fix it.",
    hook_names_the_job:
        "A delivery names its job, and gives the same result when it arrives again.",
    hook_without_proof_is_not_believed:
        "A delivery is rejected if its proof is missing or wrong, or if its body differs from the signed one.",
    hook_names_the_key:
        "A delivery that names only our key is accepted, and names that key.",
}

#[cfg(test)]
mod tests {
    use super::CONTRACT;

    /// The list has every test of the macro, in the same order.
    #[test]
    fn contract_names_every_bullet() {
        let names: Vec<&str> = CONTRACT.iter().map(|(name, _)| *name).collect();
        let lines = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("            "));
        let is_name =
            |line: &&str| line.contains('_') && line.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert_eq!(names, lines.filter(is_name).collect::<Vec<_>>());
    }
}
