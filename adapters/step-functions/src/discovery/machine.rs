//! Tools built from the descriptions of state machines. Pure.
//!
//! The author of a state machine describes it in the tag `taskbridge:description`, or in the comment of its
//! definition. The input schema is a JSON Schema in the tag `taskbridge:input_schema`, or in the comment
//! between two ```` ``` ````. A tag has at most 256 characters, and none of `{}",`: there the schema is
//! encoded in base64, and continues in `taskbridge:input_schema.2`, `.3` and so on.

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};
use serde_json::{Map, Value, json};
use taskbridge_sdk::{DiscoveredTool, tool_name};

use crate::driver::machines::Description;
use crate::store::discovery_cache::DiscoveredMachine;
use crate::submit::bound::{self, UnboundedError};

const DESCRIPTION: &str = "taskbridge:description";
const SCHEMA: &str = "taskbridge:input_schema";
/// Delimiter before and after a schema in a comment.
const FENCE: &str = "```";

impl DiscoveredMachine {
    /// Adds the attributes from its description.
    pub(crate) fn with_description(self, description: &Description) -> Self {
        let comment = description.definition.comment.clone();
        let log_group = description.log_group.clone();
        Self { comment, timeout_seconds: description.definition.timeout_seconds, log_group, ..self }
    }

    /// Returns the state machine as a tool. `schema` is its input schema in the config, `limit` the maximum
    /// duration of an Express execution.
    ///
    /// # Errors
    /// Returns the reason if the input schema is invalid, or an Express execution may take too long.
    pub(crate) fn tool(
        &self,
        schema: Option<&Map<String, Value>>,
        limit: Duration,
    ) -> Result<DiscoveredTool, String> {
        let (comment_text, schema_text) = self.comment.as_deref().map(split_comment).unwrap_or_default();
        let mut input_schema = match schema {
            Some(schema) => schema.clone(),
            None => match schema_from_tags(&self.tags)? {
                Some(schema) => schema,
                None => schema_text
                    .map(|text| parse_schema(text, "the comment of its definition"))
                    .transpose()?
                    .unwrap_or_default(),
            },
        };
        input_schema.entry("type").or_insert_with(|| json!("object"));
        if self.express {
            bound::check(self.timeout_seconds, limit)
                .map_err(|UnboundedError { reason, fix }| format!("{reason}; {fix}"))?;
        }
        let candidates = self.tags.get(DESCRIPTION).map(String::as_str).into_iter();
        let candidates = candidates.chain(comment_text.as_deref()).chain(self.description.as_deref());
        let text = candidates.map(str::trim).find(|text| !text.is_empty());
        let text = text.map_or_else(|| format!("Runs the state machine {}.", self.name), str::to_owned);
        let description = match self.express {
            true => format!("{text}\n\n{}", express_notice(limit)),
            false => text,
        };
        Ok(DiscoveredTool {
            name: tool_name(&self.name),
            title: None,
            description: Some(description),
            input_schema,
            target: json!({"state_machine": self.arn}),
            more: Map::new(),
        })
    }
}

/// Returns the text that explains the limits of an Express execution to models.
fn express_notice(limit: Duration) -> String {
    format!(
        "It runs as an Express execution: it must end within {} seconds and cannot be cancelled. If the response of AWS is \
         lost, the outcome cannot be looked up: the task ends as uncertain, and it is not started a second time.",
        limit.as_secs_f64()
    )
}

/// Splits a comment into its text and the block between fences.
fn split_comment(comment: &str) -> (Option<String>, Option<&str>) {
    let Some((before, rest)) = comment.split_once(FENCE) else { return (Some(comment.to_owned()), None) };
    let (block, after) = rest.split_once(FENCE).unwrap_or((rest, ""));
    // A language such as `json` may follow the fence.
    let block = block.find('{').map_or(block, |at| &block[at..]);
    let parts = [before.trim(), after.trim()].into_iter().filter(|part| !part.is_empty());
    (Some(parts.collect::<Vec<_>>().join("\n")), Some(block))
}

/// Returns the schema in the tags.
fn schema_from_tags(tags: &BTreeMap<String, String>) -> Result<Option<Map<String, Value>>, String> {
    let Some(first) = tags.get(SCHEMA) else { return Ok(None) };
    let rest = (2..).map_while(|n| tags.get(&format!("{SCHEMA}.{n}")));
    let text: String = std::iter::once(first).chain(rest).map(|part| part.trim()).collect();
    let source = format!("its tag `{SCHEMA}`");
    if text.starts_with('{') {
        return parse_schema(&text, &source).map(Some);
    }
    let unpadded = text.trim_end_matches('=').as_bytes();
    let bytes = BASE64_NOPAD.decode(unpadded).or_else(|_| BASE64URL_NOPAD.decode(unpadded));
    let bytes = bytes.map_err(|_| format!("{source} is neither JSON nor base64"))?;
    parse_schema(&String::from_utf8_lossy(&bytes), &source).map(Some)
}

fn parse_schema(text: &str, source: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text.trim()) {
        Ok(Value::Object(schema)) => Ok(schema),
        Ok(_) => Err(format!("the input schema in {source} is not a JSON object")),
        Err(error) => Err(format!("the input schema in {source} is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::BASE64;

    const LIMIT: Duration = Duration::from_millis(7500);

    fn machine(comment: Option<&str>, tags: &[(&str, &str)]) -> DiscoveredMachine {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        DiscoveredMachine {
            arn: "arn:m".to_owned(),
            name: "Nightly".to_owned(),
            tags,
            comment: comment.map(str::to_owned),
            ..DiscoveredMachine::default()
        }
    }

    fn description_and_schema(machine: &DiscoveredMachine) -> (String, Value) {
        let tool = machine.tool(None, LIMIT).unwrap();
        (tool.description.unwrap(), Value::Object(tool.input_schema))
    }

    /// Without comment and tags, a state machine gets a default description and takes any object.
    #[test]
    fn undescribed_machine_accepts_any_object() {
        let tool = machine(None, &[]).tool(None, LIMIT).unwrap();
        assert_eq!((tool.name.as_str(), &tool.target), ("Nightly", &json!({"state_machine": "arn:m"})));
        assert_eq!(
            description_and_schema(&machine(None, &[])),
            ("Runs the state machine Nightly.".to_owned(), json!({"type": "object"}))
        );
        let described =
            DiscoveredMachine { description: Some("Of a version.".to_owned()), ..machine(None, &[]) };
        assert_eq!(description_and_schema(&described).0, "Of a version.");
    }

    /// A comment contains the description and, in a fenced block, the input schema.
    #[test]
    fn comment_contains_description_and_schema() {
        let schema = json!({"type": "object", "properties": {"day": {"type": "string"}}});
        for comment in [
            format!("Builds it. ```{schema}```"),
            format!("Builds it.\n```json\n{schema:#}\n```\n"),
            format!("```json-schema {schema} ``` Builds it."),
            format!("Builds it. ``` {schema}"),
        ] {
            assert_eq!(
                description_and_schema(&machine(Some(&comment), &[])),
                ("Builds it.".to_owned(), schema.clone()),
                "{comment}"
            );
        }
        assert_eq!(description_and_schema(&machine(Some("Builds it."), &[])).0, "Builds it.");
    }

    /// The config overrides tags, and tags override the comment.
    #[test]
    fn schema_prefers_config_then_tags() {
        let comment = r#"From the comment. ```{"title": "comment"}```"#;
        let encoded = BASE64.encode(br#"{"title": "from several tags"}"#);
        let (one, two) = encoded.split_at(20);
        let tags =
            [("taskbridge:description", "From the tag."), (SCHEMA, one), ("taskbridge:input_schema.2", two)];
        let (description, schema) = description_and_schema(&machine(Some(comment), &tags));
        assert_eq!((description.as_str(), &schema["title"]), ("From the tag.", &json!("from several tags")));
        let config = Map::from_iter([("title".to_owned(), json!("config"))]);
        let tool = machine(Some(comment), &tags).tool(Some(&config), LIMIT).unwrap();
        assert_eq!(tool.input_schema["title"], "config");
        assert_eq!(description_and_schema(&machine(Some(comment), &[])).1["title"], "comment");
    }

    /// The error of an invalid schema names the comment or the tag that contains it.
    #[test]
    fn invalid_schema_error_names_its_source() {
        for (machine, part) in [
            (machine(Some("```{nothing}```"), &[]), "the comment of its definition is not JSON: "),
            (machine(Some("```json```"), &[]), "the comment of its definition is not JSON: "),
            (
                machine(None, &[(SCHEMA, "day: string")]),
                "`taskbridge:input_schema` is neither JSON nor base64",
            ),
            (machine(None, &[(SCHEMA, &BASE64.encode(b"[1]"))]), "is not a JSON object"),
        ] {
            let reason = machine.tool(None, LIMIT).unwrap_err();
            assert!(reason.contains(part), "{reason}");
        }
    }

    /// The description of an Express machine states its time limit and that a lost result stays uncertain.
    #[test]
    fn express_description_states_its_limits() {
        let machine =
            DiscoveredMachine { express: true, timeout_seconds: Some(7), ..machine(Some("Quick."), &[]) };
        let (description, _) = description_and_schema(&machine);
        assert!(
            description.starts_with("Quick.\n\n") && description.contains("within 7.5 seconds"),
            "{description}"
        );
        assert!(description.contains("uncertain, and it is not started a second time"), "{description}");
        let reason = DiscoveredMachine { timeout_seconds: None, ..machine }.tool(None, LIMIT).unwrap_err();
        assert!(reason.contains("no `TimeoutSeconds`") && reason.contains("raise `lease`"), "{reason}");
    }
}
