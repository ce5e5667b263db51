//! The config of the replicas. It must not know which replica has which.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::plan::EngineName;
use super::world::LEASE;

/// The start of every config. A clock that is days ahead expires shorter limits, so limits that must survive
/// such a step are long.
const BASICS: &str = r#"
[server]
listen = "127.0.0.1:0"
max_polls_per_second = 100000
session_lifetime = "90d"
# Short, so that plain calls are answered with a handle as well.
call_budget = "2s"
# Short, so that a replica that is restarted is soon back.
stop_within = "1s"

[auth]
single_user = true

[lifetime]
default_ttl = "90d"
max_ttl = "90d"
keep_result = "90d"
"#;

const QUESTION_TARGET: &str = r#"question = { message = "Who?", schema = { type = "object", required = ["name"], properties = { name = { type = "string" } } } }"#;

/// Returns a replica's config with these backends at these addresses.
pub(super) fn config(url: &str, schema: &str, backends: &[(EngineName, SocketAddr)]) -> String {
    let mut config = format!(
        r#"{BASICS}
[store]
kind = "postgres"
url = "{url}"
schema = "{schema}"
backends_dir = "state"

[reconciler]
lease = "{}s"
quickest_look = "50ms"
slowest_look = "1s"
"#,
        LEASE.as_secs()
    );
    for (engine, address) in backends {
        let name = engine.as_str();
        write!(config, "\n[backends.{name}]\nkind = \"sim\"\naddress = \"{address}\"\n").unwrap();
        for (work, target) in tools(*engine) {
            config.push_str(&tool(*engine, work, target));
        }
    }
    config
}

/// Returns the tools of an engine: the end of the tool's name, and its target.
fn tools(engine: EngineName) -> Vec<(&'static str, &'static str)> {
    let mut tools = vec![("succeeds", ""), ("fails", r#"outcome = "fail""#), ("asks", QUESTION_TARGET)];
    if engine == EngineName::Crashing {
        tools.push(("panics", "panic_on_poll = true"));
    }
    tools
}

fn tool(engine: EngineName, work: &str, target: &str) -> String {
    let name = engine.as_str();
    format!(
        r#"
[tools.{name}_{work}]
backend = "{name}"
target = {{ {target} }}
max_runtime = "90d"
start_within = "90d"
settle_window = "5s"
parameters.text.type = "string"
parameters.delay_ms.type = "integer"
"#
    )
}
