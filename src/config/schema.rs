//! The JSON Schema of config files for editors, built from the shapes in the folders beside this file and of
//! the compiled-in adapters.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use taskbridge_sdk::Registry;

use super::callers::access::Access;
use super::callers::auth::Auth;
use super::offers::shape::{Prompt, Resource};
use super::server::audit::Audit;
use super::server::console::Console;
use super::server::limits::Limits;
use super::server::metrics::Metrics;
use super::server::notify::Notify;
use super::server::seal::Seal;
use super::server::shape::{ConcurrencyGroup, Lifetime, Log, Reconciler, Server};
use super::server::store::Store;
use super::server::telemetry::Telemetry;
use super::tools::discover::{Discover, FIELD as DISCOVER};
use super::tools::programs::Program;
use super::tools::shape::Tool;

/// Generates the JSON Schema 2020-12 of a config file for a program with these adapters.
pub fn generate(registry: &Registry) -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut inlined = BTreeSet::new();
    let mut properties = Map::new();
    let mut table = |name: &str, schema: Value| properties.insert(name.to_owned(), schema);
    table(
        "include",
        json!({
            "description": "Other config files that are read as if they were part of this one. Relative to the folder of \
                this file; `*` matches any characters of a file name.",
            "type": "array",
            "items": {"type": "string"},
            "examples": [["*.toml"], ["engines/github.toml", "tools/*.toml"]],
        }),
    );
    table("server", shape::<Server>(&mut generator));
    table("limits", shape::<Limits>(&mut generator));
    table("log", shape::<Log>(&mut generator));
    table("auth", shape::<Auth>(&mut generator));
    table("access", shape::<Access>(&mut generator));
    table("console", shape::<Console>(&mut generator));
    table("seal", shape::<Seal>(&mut generator));
    table("audit", shape::<Audit>(&mut generator));
    table("store", shape::<Store>(&mut generator));
    table("reconciler", shape::<Reconciler>(&mut generator));
    table("lifetime", shape::<Lifetime>(&mut generator));
    table("telemetry", shape::<Telemetry>(&mut generator));
    table("metrics", shape::<Metrics>(&mut generator));
    let groups = shape::<ConcurrencyGroup>(&mut generator);
    table("concurrency_groups", tables("Limits that several tools share, by name.", groups));
    let backends = registry.iter().map(|adapter| {
        let schema = (adapter.config_schema)(&mut generator).to_value();
        let mut schema = resolve_reference(&schema, &mut generator, &mut inlined);
        discover(&mut schema, &mut generator, &mut inlined);
        backend(adapter.kind, adapter.one_machine, !adapter.presets.is_empty(), schema)
    });
    let mut backends: Vec<Value> = backends.collect();
    backends.push(program_backend(registry));
    table("backends", tables("The engines that jobs run in, by name.", json!({"oneOf": backends})));
    let programs = shape::<Program>(&mut generator);
    table("adapters", tables("Programs that are adapters, by the kind of engine that they are.", programs));
    let tool = tool(registry, &mut generator, &mut inlined);
    table("tools", tables("The tools that clients can call, by name.", tool));
    let resource = shape::<Resource>(&mut generator);
    table("resources", tables("What clients can read, by name.", resource));
    let prompt = shape::<Prompt>(&mut generator);
    table("prompts", tables("Messages that users pick and fill in, by name.", prompt));
    let receiver = shape::<Notify>(&mut generator);
    table(
        "notify",
        json!({"description": "Receivers of notices about tasks that end or ask.", "type": "array", "items": receiver}),
    );
    let mut definitions = generator.take_definitions(true);
    definitions.retain(|name, _| !inlined.contains(name));
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "taskbridge config",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    schema["$defs"] = Value::Object(definitions);
    without_null(&mut schema);
    schema
}

fn shape<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn tables(description: &str, each: Value) -> Value {
    json!({"description": description, "type": "object", "additionalProperties": each})
}

/// Resolves a reference, so that fields can be added to its schema. Adds its name to `inlined`.
fn resolve_reference(
    schema: &Value,
    generator: &mut SchemaGenerator,
    inlined: &mut BTreeSet<String>,
) -> Map<String, Value> {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|at| at.strip_prefix("#/$defs/"));
    let resolved = name.and_then(|name| {
        inlined.insert(name.to_owned());
        generator.definitions().get(name)
    });
    resolved.unwrap_or(schema).as_object().cloned().unwrap_or_default()
}

/// Removes null from a schema: TOML has none, so an optional field is omitted.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(members) => {
            members.retain(|name, member| name != "default" || !member.is_null());
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    members.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
                choices.retain(|choice| *choice != json!({"type": "null"}));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    members.remove("anyOf");
                    members.extend(only);
                }
            }
            members.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

/// Combines the adapter's fields of a backend with the server's own fields.
fn backend(kind: &str, one_machine: bool, has_presets: bool, mut schema: Map<String, Value>) -> Value {
    let server_fields = [
        ("kind", json!({"const": kind, "description": "The kind of engine."})),
        (
            "max_running",
            json!({
                "description": "Maximum number of concurrent jobs.", "type": "integer", "minimum": 1,
            }),
        ),
    ];
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for (name, property) in server_fields {
        properties[name] = property;
    }
    if one_machine {
        properties["host"] = json!({
            "description": "The machine that its jobs run on (`uname -n`). Required if servers on several machines can share the store; only servers on this machine act on its jobs.",
            "type": "string",
        });
    }
    let mut required = schema.remove("required").unwrap_or_else(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        required.push(Value::from("kind"));
    }
    if has_presets {
        // A preset has a kind, the fields that a backend needs, and those that `discover` needs.
        let discover = schema.get_mut("properties").and_then(|properties| properties.get_mut(DISCOVER));
        if let Some(discover) = discover.and_then(Value::as_object_mut) {
            discover.remove("required");
        }
        schema.insert("anyOf".to_owned(), json!([{"required": required}, {"required": ["preset"]}]));
    } else {
        schema.insert("required".to_owned(), required);
    }
    Value::Object(schema)
}

/// Returns the schema of a backend whose kind is a program of `[adapters]`, with fields of its own.
fn program_backend(registry: &Registry) -> Value {
    let kinds: Vec<&str> = registry.iter().map(|adapter| adapter.kind).collect();
    json!({
        "description": "A backend of a program: the fields depend on the program.",
        "type": "object",
        "properties": {
            "kind": {"description": "A name in `[adapters]`.", "type": "string", "not": {"enum": kinds}},
            "max_running": {"description": "Maximum number of concurrent jobs.", "type": "integer", "minimum": 1},
        },
        "required": ["kind"],
    })
}

/// Adds the server's own fields to an adapter's `discover` table.
fn discover(
    backend: &mut Map<String, Value>,
    generator: &mut SchemaGenerator,
    inlined: &mut BTreeSet<String>,
) {
    let Some(field) = backend.get_mut("properties").and_then(|properties| properties.get_mut(DISCOVER))
    else {
        return;
    };
    // An optional field is a choice between a table and null.
    let table = field.pointer("/anyOf/0").unwrap_or(field).clone();
    let mut table = resolve_reference(&table, generator, inlined);
    let server_fields = shape::<Discover>(generator);
    let server_fields = resolve_reference(&server_fields, generator, inlined);
    let server_fields =
        server_fields.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(description) = field.get("description") {
        table.insert("description".to_owned(), description.clone());
    }
    if let Some(Value::Object(properties)) = table.get_mut("properties") {
        properties.extend(server_fields);
    }
    *field = Value::Object(table);
}

/// Returns the schema of a tool, with the targets of all adapters.
fn tool(registry: &Registry, generator: &mut SchemaGenerator, inlined: &mut BTreeSet<String>) -> Value {
    let schema = shape::<Tool>(generator);
    let mut tool = resolve_reference(&schema, generator, inlined);
    let targets: Vec<Value> =
        registry.iter().map(|adapter| (adapter.target_schema)(generator).to_value()).collect();
    if let Some(target) = tool.get_mut("properties").and_then(|properties| properties.get_mut("target")) {
        *target = json!({
            "description": "What to run: the fields depend on the kind of the tool's backend.", "anyOf": targets,
        });
    }
    Value::Object(tool)
}
