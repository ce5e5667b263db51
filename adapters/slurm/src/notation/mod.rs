//! Notations of Slurm and of the shell: parsers and formatters of plain text. Pure. It must not know jobs.

pub(crate) mod amount;
pub(crate) mod directives;
pub(crate) mod indices;
pub(crate) mod pattern;
pub(crate) mod quote;
