//! Templates of a target, and command lines made from them. This folder must not know what the rendered text
//! is for.

mod command_line;
mod template;

pub use command_line::CommandArgument;
pub use template::{TemplateContext, Templates, unknown_parameter};
