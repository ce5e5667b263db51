//! From the text of a config file to typed values, with all problems on the way: `source` parses the TOML,
//! `include` joins the files of a config, `reader` deserializes its parts and collects problems, and `files`, `secret` and `duration` read what
//! several tables contain. Also the environment ([`locate`]), and what to compare to detect changes
//! (`sources`, `parts`). This module must not use its sibling folders, and must not know the fields of a
//! table.

pub(super) mod duration;
pub(super) mod files;
pub(super) mod include;
pub mod locate;
mod parser_messages;
pub(super) mod parts;
pub(super) mod problem;
pub(super) mod reader;
pub(super) mod secret;
pub(super) mod source;
pub(super) mod sources;
