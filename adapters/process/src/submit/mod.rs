//! From a call to a job: one start of a key at a time, and only if it cannot make a second job.

mod request;
mod start;
