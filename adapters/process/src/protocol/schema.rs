//! The JSON Schema of all messages, generated from their types. It must not be written by hand.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use taskbridge_sdk::{AnswerOutcome, DiscoveredTool, Finding, LogText, Observation, Started};

use super::error::ErrorObject;
use super::messages::*;
use super::session::{Description, InitializeResult};

/// Generates the JSON Schema 2020-12 of params and results, by method.
pub fn schema() -> Value {
    // Unknown members are ignored, so no schema forbids them.
    let mut params = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut results = SchemaSettings::draft2020_12().into_generator();
    let mut methods = Map::new();
    let mut method = |name: &str, params: Value, result: Value| {
        methods.insert(name.to_owned(), json!({"params": params, "result": result}));
    };
    let null = || json!({"type": "null"});
    method("describe", of::<Empty>(&mut params), of::<Description>(&mut results));
    method("initialize", of::<InitializeParams>(&mut params), of::<InitializeResult>(&mut results));
    method("start", of::<StartParams>(&mut params), of::<Started>(&mut results));
    method("find", of::<StartParams>(&mut params), of::<Option<Started>>(&mut results));
    let entry = json!({"anyOf": [of::<Observation>(&mut results), of::<PollFault>(&mut results)]});
    method("observe_all", of::<ObserveParams>(&mut params), json!({"type": "array", "items": entry}));
    method("cancel", of::<CancelParams>(&mut params), null());
    method("answer", of::<AnswerParams>(&mut params), of::<AnswerOutcome>(&mut results));
    method("log", of::<LogParams>(&mut params), of::<LogText>(&mut results));
    method("artifact", of::<ArtifactParams>(&mut params), of::<Option<ArtifactPart>>(&mut results));
    method("discover", of::<Empty>(&mut params), of::<Vec<DiscoveredTool>>(&mut results));
    method("check_up", of::<CheckUpParams>(&mut params), of::<Vec<Finding>>(&mut results));
    method("forget", of::<ForgetParams>(&mut params), null());
    method("shutdown", of::<Empty>(&mut params), null());
    let notifications =
        json!({"changed": of::<ChangedParams>(&mut results), "note": of::<NoteParams>(&mut results)});
    let error = of::<ErrorObject>(&mut results);
    let mut definitions = results.take_definitions(true);
    definitions.extend(params.take_definitions(true));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "taskbridge adapter protocol, version 1",
        "description": "Params and results by method; `notifications` are sent by the program.",
        "methods": methods,
        "notifications": notifications,
        "error": error,
        "$defs": definitions,
    })
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The file equals what the types generate. With `TASKBRIDGE_WRITE_SCHEMA=1`, it is written.
    #[test]
    fn schema_file_matches_types() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/adapter-protocol.schema.json");
        let generated = format!("{:#}\n", super::schema());
        #[allow(clippy::disallowed_methods, reason = "a test that can write its own file")]
        if std::env::var_os("TASKBRIDGE_WRITE_SCHEMA").is_some() {
            fs::write(&file, &generated).unwrap();
        }
        let written = fs::read_to_string(&file).unwrap();
        assert_eq!(written, generated, "run this test with TASKBRIDGE_WRITE_SCHEMA=1 to write {file:?}");
    }
}
