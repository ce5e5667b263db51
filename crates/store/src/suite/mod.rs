//! The contract of [`taskbridge_core::tasks::store`] and [`taskbridge_core::sessions`] as tests, one for each
//! of its bullets. Every store runs all of them:
//!
//! ```text
//! taskbridge::store_suite!(open_my_store());
//! ```
//!
//! The expression returns a [`Bench`] for an empty store. The tests must not know a store's internals.

#![allow(missing_docs, reason = "the name of a behaviour says all of it")]

mod bench;
mod deliveries;
mod groups;
mod history;
mod insert;
mod leases;
mod lines;
mod notes;
mod notices;
mod rows;
mod sessions;
mod shared;
mod tally;

pub use bench::{Bench, ManualClock, forge, task};
pub use deliveries::*;
pub use groups::*;
pub use history::*;
pub use insert::*;
pub use leases::*;
pub use lines::*;
pub use notes::*;
pub use notices::*;
pub use rows::*;
pub use sessions::*;
pub use shared::*;
pub use tally::*;

/// Generates one test per behaviour. Takes an expression that returns a [`Bench`] for an empty store,
/// within tokio.
#[macro_export]
macro_rules! store_suite {
    ($bench:expr) => {
        $crate::store_suite! {
            $bench;
            a_new_row_has_version_1_and_reads_back_as_it_was_written
            an_idempotency_key_stands_for_its_row
            a_key_is_free_again_when_its_row_has_expired
            equal_keys_at_the_same_time_make_one_row
            a_row_that_holds_slots_is_refused_where_one_is_taken_up
            a_newcomer_does_not_overtake_those_who_wait
            a_newcomer_stands_behind_other_lines_where_it_says_so
            slots_are_exact_when_many_want_them
            an_abandoned_row_is_found_by_its_digest
            a_key_goes_before_an_abandoned_row_and_that_before_slots
            a_row_can_be_born_leased
            owner_over_byte_limit_is_refused
            files_count_towards_byte_limit
            large_arguments_count_until_the_end

            a_row_is_found_by_its_owner_only_and_until_it_expires
            a_row_is_found_by_those_who_see_its_tool_too
            a_list_has_an_owners_rows_newest_first
            a_list_goes_on_after_a_position
            a_session_has_its_unended_rows_oldest_first
            an_update_needs_the_version_that_is_there
            stale_decision_is_not_written
            an_output_is_written_once
            an_update_takes_slots_only_where_places_are_left
            slots_are_free_when_the_job_is_closed
            deep_json_stays_readable
            a_purge_deletes_what_has_expired_and_is_closed
            a_purge_leaves_nothing_of_a_row
            purge_goes_by_the_earlier_clock
            purge_returns_jobs

            a_claim_leases_what_is_due
            a_claim_begins_with_what_is_due_longest
            a_claim_takes_owners_in_turn
            rows_are_claimed_once_when_many_claim
            a_lease_that_ran_out_is_claimed_by_another
            rows_of_unconnected_backends_stay
            rows_of_other_identities_stay
            rows_without_identity_are_adopted
            large_backlog_serves_every_owner
            due_rows_are_listed_unleased
            claim_leaves_rows_that_became_due
            an_update_releases_only_the_holders_own_lease
            an_update_holds_a_lease_that_nobody_else_has
            the_next_due_time_respects_leases
            leases_are_shortened
            the_time_is_what_leases_and_due_times_are_compared_with

            the_head_of_a_line_is_its_oldest_row
            line_heads_are_of_connected_backends
            a_row_knows_how_many_wait_before_it

            one_holder_at_a_time_watches_a_group
            a_group_without_open_jobs_is_let_go
            a_group_can_be_held_when_its_lease_ran_out
            groups_of_two_identities_are_independent
            letting_go_frees_groups_and_rows
            leaving_groups_keeps_rows
            open_jobs_are_told_from_a_moment_on
            jobs_that_somebody_watches_are_told_by_group_until_nobody_does

            an_entry_is_written_with_its_change_or_not_at_all
            entries_outlive_their_row_until_they_are_too_old
            future_entry_does_not_stop_purge

            notices_are_owed_with_the_change_that_caused_them
            a_notice_is_owed_until_it_is_struck
            what_is_owed_can_be_forgotten
            a_notice_outlives_its_row

            what_there_is_is_counted_by_tool_and_phase

            usual_duration_is_of_newest_hundred
            the_first_seal_key_stays
            facts_are_replaced

            an_ended_session_is_not_found_until_it_is_forgotten
            what_a_session_sets_is_its_own_until_it_is_forgotten
            an_ended_session_sets_nothing_and_has_set_nothing
            a_session_follows_so_many_at_most
            what_happened_to_the_streams_of_a_session_is_counted
            a_session_holds_a_task_of_its_client_until_it_lets_go
            polled_tasks_are_kept_and_bounded

            a_delivery_is_claimed_renewed_and_ended
            a_question_is_claimed_once_when_many_want_it
            what_an_older_version_recorded_counts
            deliveries_are_deleted_with_their_row
            claims_of_questions_are_shortened
        }
    };
    ($bench:expr; $($behaviour:ident)*) => {$(
        #[tokio::test]
        async fn $behaviour() {
            $crate::suite::$behaviour(&$bench).await;
        }
    )*};
}
