//! The plain data that the server and its adapters exchange about a job: the start request, the observed
//! state, questions, messages and results. It must not use the traits of [`crate::contract`], and must not
//! perform I/O.

mod job;
mod key;
mod note;
mod on_behalf_of;
mod output;
mod question;
mod time;

pub use job::{
    FileContent, GroupKey, InputFile, JobHandle, JobSpec, JobState, Observation, Progress, Started, Subject,
    Trace,
};
pub use key::JobKey;
pub use note::{Level, Note};
pub use on_behalf_of::OnBehalfOf;
pub use output::{Artifact, ArtifactData, Content, Embedded, Output};
pub use question::{Answer, Ask, Question};
pub use time::Timestamp;
