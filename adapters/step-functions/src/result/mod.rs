//! What an execution left for its client. It must not judge how the execution ended.

pub(crate) mod log;
