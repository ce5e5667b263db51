//! What a job's folder says of the job, and what the task becomes. This file holds the table; [`poll`] reads
//! the folder, and the supervisor writes the recorded end.
//!
//! | recorded end | supervisor | job | task |
//! |---|---|---|---|
//! | none | holds the lock | running | working |
//! | exit code in `success_exit_codes` | any | succeeded | completed |
//! | another exit code | any | failed | failed |
//! | killed by a signal | any | failed | failed |
//! | its timeout expired | any | failed | failed |
//! | the command could not be run | any | failed | failed |
//! | stopped on request | any | cancelled | cancelled |
//! | none | killed | gone | failed |
//! | none | no claim | gone | failed |
//!
//! An invalid result file of the job makes a success a failure.

pub(crate) mod events;
pub(crate) mod orphans;
pub(crate) mod poll;
