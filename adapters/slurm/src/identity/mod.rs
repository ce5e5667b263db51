//! Who and what a job is: its handle, and the Unix user that it runs as. It must not talk to Slurm.

pub(crate) mod handle;
pub(crate) mod unix;
