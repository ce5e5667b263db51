//! The definitions and slots of valid tools. Errors in tools are in `mistakes`.

use super::*;

#[test]
fn limits_become_slots() {
    let config = read(
        "[backends.here]\nkind = \"sim\"\nmax_running = 9\n[concurrency_groups.prod]\nlimit = 3\n\
         [tools.a]\nbackend = \"here\"\ntarget = {}\nmax_running = 2\nconcurrency_group = \"prod\"\n\
         [tools.b]\nbackend = \"here\"\ntarget = {}\nconcurrency_group = \"other\"\n",
    )
    .unwrap();
    assert_eq!(config.tools[0].slots, ["tool:a", "backend:here", "group:prod"]);
    assert_eq!(config.tools[1].slots, ["backend:here", "group:other"]);
    let limits: Vec<_> =
        config.slot_limits.iter().filter_map(|(slot, limit)| Some((slot.as_str(), (*limit)?))).collect();
    let owner = ("owner:", 500);
    assert_eq!(limits, [("backend:here", 9), ("group:other", 1), ("group:prod", 3), owner, ("tool:a", 2)]);
}

#[test]
fn parameters_table_becomes_input_schema() {
    let config = read(
        "[backends.here]\nkind = \"sim\"\n[tools.t]\nbackend = \"here\"\ntarget = {}\n[tools.t.parameters]\n\
         path = { type = \"string\", description = \"Where.\", min_length = 1, pattern = \"^/\" }\n\
         depth = { type = \"integer\", default = 3, minimum = 0, maximum = 9 }\n\
         mode = { enum = [\"fast\", \"slow\"], required = false }\n\
         names = { type = \"array\", items = { type = \"string\", format = \"email\" }, max_items = 2 }\n\
         doc = { type = \"file\", required = false, roots = [\"in\"], max_bytes = 10 }\n",
    )
    .unwrap();
    let tool = &config.tools[0];
    let schema = &tool.client_schema;
    assert_eq!(schema["required"], serde_json::json!(["names", "path"]));
    assert_eq!(schema["additionalProperties"], false);
    let properties = &schema["properties"];
    assert_eq!(
        properties["path"],
        serde_json::json!({"type": "string", "description": "Where.", "minLength": 1, "pattern": "^/"})
    );
    assert_eq!(
        properties["depth"],
        serde_json::json!({"type": "integer", "default": 3, "minimum": 0, "maximum": 9})
    );
    assert_eq!(properties["mode"], serde_json::json!({"type": "string", "enum": ["fast", "slow"]}));
    assert_eq!(
        properties["names"],
        serde_json::json!({"type": "array", "items": {"type": "string", "format": "email"}, "maxItems": 2})
    );
    assert_eq!(properties["doc"]["oneOf"].as_array().map(Vec::len), Some(2));
    assert_eq!(tool.file_parameters["doc"].roots, [Path::new("/etc/bridge/in")]);
    assert_eq!(tool.file_parameters["doc"].max_bytes, 10);
}
