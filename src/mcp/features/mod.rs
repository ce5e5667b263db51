//! What clients can do, written once for all generations: tools, tasks, resources, prompts, completion and the
//! companion tools, with the authorization of callers. A feature must not know how a generation writes a
//! result, or which transport carries it.

pub mod audit_context;
pub mod authorization;
pub mod companions;
pub mod completion;
pub mod instructions;
pub mod offers;
pub mod prompts;
pub mod resources;
pub mod results;
pub mod spans;
pub mod tools;
