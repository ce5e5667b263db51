//! Tests for 2026-07-28 with the tasks extension from outside: the whole server, real HTTP, and every message
//! checked against the official schemas. The rows of docs/conformance-2026-07-28.md name these tests.

mod across;
mod bench;
mod identity;
mod listening;
mod logging;
mod offers;
mod opening;
mod plain;
mod questions;
mod real;
mod rounds;
mod stdio;
mod tasks;
mod tools;

/// Tools that ask before they start, or whose parameters are sent in headers.
const ASK_TOOLS: &str = r##"
[tools.careful]
backend = "stage"
target = {}
confirm = "Delete {{ path }}?"
parameters.path = { type = "string", default = "/tmp" }

[tools.lenient]
backend = "stage"
target = {}
confirm = "Really?"
confirm_default = "accept"
input_schema = { type = "object" }

[tools.deploy]
backend = "stage"
target = {}
parameters.env = { type = "string", enum = ["staging", "production"], ask = "Where to?" }
parameters.note = { type = "string", required = false }

[tools.stepped]
backend = "stage"
target = {}
confirm = "Order {{ size }} for {{ who }}?"
parameters.who = { type = "string", min_length = 2 }
parameters.size = { type = "integer" }
parameters.gift = { type = "boolean", required = false }

[tools.stepped.ask.person]
message = "Who?"
parameters = ["who"]

[tools.stepped.ask.details]
message = "What for {{ who }}?"
parameters = ["size"]
step = 2

[tools.stepped.ask.extra]
message = "A gift?"
parameters = ["gift"]
optional = true
step = 2

[tools.visit]
backend = "stage"
target = {}
input_schema = { type = "object" }

[tools.visit.ask.sign_in]
message = "Sign in"
url = "https://example.com/sign-in"

[tools.capital]
backend = "stage"
target = {}
parameters.capital = { type = "string" }

[tools.capital.ask.capital]
sampling = { messages = [{ role = "user", content = { type = "text", text = "The capital?" } }], maxTokens = 20 }
parameter = "capital"

[tools.rooted]
backend = "stage"
target = {}
parameters.roots = { type = "array", items = { type = "string" } }

[tools.rooted.ask.where]
roots = true
parameter = "roots"

[tools.always]
backend = "stage"
target = {}
task_support = "required"
input_schema = { type = "object" }

[tools.never]
backend = "stage"
target = {}
task_support = "forbidden"
input_schema = { type = "object" }

[tools.abandoned]
backend = "stage"
target = {}
on_abandon = "cancel"
input_schema = { type = "object" }

[tools.routed]
backend = "stage"
target = {}
parameters.region = { type = "string", header = "Region" }
parameters.count = { type = "integer", required = false, header = "Count" }
parameters.dry = { type = "boolean", required = false, header = "Dry" }

[tools.nested]
backend = "stage"
target = {}

[tools.nested.input_schema]
type = "object"

[tools.nested.input_schema.properties.where]
type = "object"
properties.zone = { type = "string", x-mcp-header = "Zone" }
"##;
