//! The language of a config: what is sent is a template, what is read is an expression, both MiniJinja. It is
//! compiled when the config is read, and its work is bounded by fuel. It must not send anything.

mod expression;
mod filters;
mod json;
mod scope;
mod template;
mod text;

pub(crate) use expression::Expression;
pub(crate) use filters::{BASE, URL};
pub(crate) use json::JsonTemplate;
pub(crate) use scope::Scope;
pub(crate) use template::Template;
pub(crate) use text::{encode_pairs, percent_encode, plain_text};
