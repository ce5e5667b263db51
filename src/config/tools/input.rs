//! The schemas of a tool: its parameters or its `input_schema`, and its `output_schema`. It must not know the
//! other settings of a tool.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::inquiries;
use super::parameters;
use super::shape::{SchemaSource, Tool};
use crate::catalog::{self, Inquiry, MirroredParameter, Schema};
use crate::config::reading::files;
use crate::config::reading::problem::unknown_name;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;

/// The parsed input of a tool.
pub(super) struct Input {
    pub(super) published: Value,
    pub(super) validation_schema: Schema,
    pub(super) sensitive: BTreeSet<String>,
    pub(super) files: BTreeMap<String, crate::catalog::FileRule>,
    pub(super) tasks: BTreeSet<String>,
}

pub(super) fn input(reader: &mut Reader<'_>, field: &str, tool: &Tool, dir: &Path) -> Option<Input> {
    match &tool.input_schema {
        None => {
            if !tool.sensitive.is_empty() {
                let message =
                    "only allowed with `input_schema`: set `sensitive = true` on the parameter instead";
                reader.problem(join(field, "sensitive"), message);
            }
            short_form(reader, field, tool, dir)
        }
        Some(source) => {
            if !tool.parameters.is_empty() {
                let message = "a tool has either `parameters` or `input_schema`: remove one of the two";
                reader.problem(join(field, "parameters"), message);
            }
            let schema_value = value_of(reader, &join(field, "input_schema"), source, dir)?;
            let schema = schema_value.and_then(|mut schema| {
                let asked_names = asked_parameters(tool);
                if let Some(Value::Array(required)) = schema.get_mut("required") {
                    required.retain(|name| !name.as_str().is_some_and(|name| asked_names.contains(name)));
                }
                Schema::compile(schema)
            });
            let validation_schema = match schema {
                Ok(schema) => schema,
                Err(message) => {
                    reader.problem(join(field, "input_schema"), message);
                    return None;
                }
            };
            let known: Vec<&str> = validation_schema.properties().map(|(name, _)| name.as_str()).collect();
            for (index, name) in tool.sensitive.iter().enumerate() {
                if !known.contains(&name.as_str()) {
                    reader.problem(
                        format!("{field}.sensitive[{index}]"),
                        unknown_name("property", name, &known),
                    );
                }
            }
            Some(Input {
                published: validation_schema.value().clone(),
                sensitive: tool.sensitive.iter().cloned().collect(),
                files: BTreeMap::new(),
                tasks: BTreeSet::new(),
                validation_schema,
            })
        }
    }
}

pub(super) fn inquiries(reader: &mut Reader<'_>, field: &str, tool: &Tool, input: &Input) -> Vec<Inquiry> {
    let schemas: Map<String, Value> =
        input.validation_schema.properties().map(|(name, schema)| (name.clone(), schema.clone())).collect();
    let hidden = input.sensitive.iter().chain(input.files.keys()).cloned().collect();
    let known = inquiries::AskableParameters { schemas: &schemas, hidden: &hidden };
    inquiries::read(reader, field, &tool.ask, &tool.parameters, &known)
}

/// Returns the parameters that clients repeat in headers. A secret must not be one of them.
pub(super) fn mirrored(reader: &mut Reader<'_>, field: &str, input: &Input) -> Vec<MirroredParameter> {
    let field = join(field, "input_schema");
    match catalog::mirrored(&input.published) {
        Ok(found) => {
            let secret =
                found.iter().find(|m| m.path.first().is_some_and(|name| input.sensitive.contains(name)));
            if let Some(mirrored) = secret {
                let message =
                    format!("`{}` is a secret, and must not be sent in a header", mirrored.path.join("."));
                reader.problem(field, message);
            }
            found
        }
        Err(message) => {
            reader.problem(field, message);
            Vec::new()
        }
    }
}

/// Returns the parameters that a call may omit because `[tools.NAME.ask.KEY]` asks for them. (Those with an
/// `ask` of their own are handled in `parameters`.)
fn asked_parameters(tool: &Tool) -> BTreeSet<&str> {
    let names = tool.ask.values().flat_map(|question| question.parameters.iter().chain(&question.parameter));
    names.map(String::as_str).collect()
}

fn short_form(reader: &mut Reader<'_>, field: &str, tool: &Tool, dir: &Path) -> Option<Input> {
    let (mut published, mut validation_schema) = (Map::new(), Map::new());
    let (mut required, mut files, mut tasks) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    let asked_names = asked_parameters(tool);
    for (name, parameter) in &tool.parameters {
        let field = join(&join(field, "parameters"), name);
        let Some(parsed) = parameters::read(reader, &field, parameter, dir) else { continue };
        published.insert(name.clone(), parsed.published);
        validation_schema.insert(name.clone(), parsed.validation_schema);
        if parsed.required && !asked_names.contains(name.as_str()) {
            required.push(Value::from(name.as_str()));
        }
        if parsed.is_task {
            tasks.insert(name.clone());
        }
        if let Some(file) = parsed.file {
            files.insert(name.clone(), file);
        }
    }
    let object = |properties: Map<String, Value>| {
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = Value::Array(required.clone());
        }
        schema
    };
    let published = object(published);
    match Schema::compile(object(validation_schema)) {
        Ok(validation_schema) => {
            let secret = tool.parameters.iter().filter(|(_, parameter)| parameter.sensitive);
            let sensitive = secret.map(|(name, _)| name.clone()).collect();
            Some(Input { published, validation_schema, sensitive, files, tasks })
        }
        Err(message) => {
            reader.problem(join(field, "parameters"), message);
            None
        }
    }
}

pub(super) fn output_schema(reader: &mut Reader<'_>, field: &str, tool: &Tool, dir: &Path) -> Option<Schema> {
    schema(reader, &join(field, "output_schema"), tool.output_schema.as_ref()?, dir)
}

fn schema(reader: &mut Reader<'_>, field: &str, source: &SchemaSource, dir: &Path) -> Option<Schema> {
    let value = value_of(reader, field, source, dir)?;
    match value.and_then(Schema::compile) {
        Ok(schema) => Some(schema),
        Err(message) => {
            reader.problem(field, message);
            None
        }
    }
}

/// Returns the schema as JSON. `None` if its file cannot be read, which is already reported.
fn value_of(
    reader: &mut Reader<'_>,
    field: &str,
    source: &SchemaSource,
    dir: &Path,
) -> Option<Result<Value, String>> {
    let path = match source {
        SchemaSource::Inline(schema) => return Some(Ok(Value::Object(schema.clone()))),
        SchemaSource::File(path) => dir.join(path),
    };
    let display_path = path.display().to_string();
    let text = files::read_text(reader, field, path)?;
    Some(serde_json::from_str(&text).map_err(|error| format!("{display_path} is not JSON: {error}")))
}
