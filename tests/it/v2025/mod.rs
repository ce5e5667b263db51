//! Tests for 2025-11-25 from outside: the whole server, real HTTP, and every message checked against the
//! official schema. The rows of docs/conformance.md name these tests.

mod audit;
mod batches;
pub(crate) mod bench;
mod client_tasks;
mod companions;
mod following;
mod identity;
mod kinds;
mod lifecycle;
mod listening;
mod logging;
mod offers;
mod plain;
mod questions;
mod ready;
mod resources;
mod results;
mod tasks;
mod tools;
mod watching;

/// Tools of every kind, in addition to `work`.
pub(crate) const TOOLS: &str = r##"
[auth]
single_user = true

[tools.must]
backend = "stage"
target = {}
task_support = "required"
input_schema = { type = "object" }

[tools.must.output_schema]
type = "object"
required = ["answer"]
properties.answer = { type = "integer" }

[tools.never]
title = "Never a task"
backend = "stage"
target = {}
task_support = "forbidden"
annotations = { read_only = true }
parameters.size = { type = "integer", minimum = 1 }

[tools.typed]
backend = "stage"
target = {}
input_schema = { type = "object" }

[tools.typed.output_schema]
type = "object"
required = ["answer"]
properties.answer = { "$ref" = "#/$defs/whole" }
"$defs".whole = { type = "integer" }

[tools.careful]
backend = "stage"
target = {}
confirm = "Really?"
input_schema = { type = "object" }

[tools.modelled]
backend = "stage"
target = {}
answer_by_model = true
input_schema = { type = "object" }

[tools.abandoned]
backend = "stage"
target = {}
on_abandon = "cancel"
input_schema = { type = "object" }

[tools.single]
backend = "stage"
target = {}
max_running = 1
when_full = "refuse"
input_schema = { type = "object" }

[tools.queued]
backend = "stage"
target = {}
max_running = 1
when_full = "queue"
input_schema = { type = "object" }
"##;
