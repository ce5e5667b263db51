//! What the server offers besides tools: `[resources.NAME]` and `[prompts.NAME]`. This module must not serve
//! them. Of its sibling folders it uses only `reading`.

pub(super) mod prompts;
pub(super) mod resources;
pub(super) mod shape;
pub(super) mod values;
