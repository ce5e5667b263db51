//! What a state machine says of itself, as a tool. Pure.
//!
//! Who writes a state machine says what it does by the tag `taskbridge:description`, or by the comment of its definition, and
//! what it takes by a JSON Schema: in the tag `taskbridge:input_schema`, or in the comment, between two ```` ``` ````. A tag
//! holds 256 characters, and none of `{}",`: the schema stands there in base64, and goes on in
//! `taskbridge:input_schema.2`, `.3` and so on.

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD};
use serde_json::{Map, Value, json};
use taskbridge_sdk::{DiscoveredTool, tool_name};

use crate::bound::{self, Unbounded};
use crate::cloudwatch::LogGroup;
use crate::machines::Description;

const DESCRIPTION: &str = "taskbridge:description";
const SCHEMA: &str = "taskbridge:input_schema";
/// What stands before and after a schema in a comment.
const FENCE: &str = "```";

/// A state machine that is wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) arn: String,
    pub(crate) name: String,
    pub(crate) express: bool,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) comment: Option<String>,
    /// Of its version, where AWS has one.
    pub(crate) description: Option<String>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) log_group: Option<LogGroup>,
}

impl Wanted {
    /// Takes what is said of it.
    pub(crate) fn with(self, said: &Description) -> Self {
        let comment = said.definition.comment.clone();
        let log_group = said.log_group.clone();
        Self { comment, timeout_seconds: said.definition.timeout_seconds, log_group, ..self }
    }

    /// As a tool. `schema` is what the config says that it takes, `limit` how long an Express execution may take.
    ///
    /// # Errors
    /// In words, if what it takes cannot be understood.
    pub(crate) fn tool(
        &self,
        schema: Option<&Map<String, Value>>,
        limit: Duration,
    ) -> Result<DiscoveredTool, String> {
        let (words, fenced) = self.comment.as_deref().map(divided).unwrap_or_default();
        let mut input_schema = match schema {
            Some(schema) => schema.clone(),
            None => match tagged(&self.tags)? {
                Some(schema) => schema,
                None => fenced
                    .map(|text| object(text, "the comment of its definition"))
                    .transpose()?
                    .unwrap_or_default(),
            },
        };
        input_schema.entry("type").or_insert_with(|| json!("object"));
        if self.express {
            bound::check(self.timeout_seconds, limit)
                .map_err(|Unbounded { says, fix }| format!("{says}; {fix}"))?;
        }
        let said = self.tags.get(DESCRIPTION).map(String::as_str).into_iter();
        let said = said.chain(words.as_deref()).chain(self.description.as_deref());
        let said = said.map(str::trim).find(|said| !said.is_empty());
        let said = said.map_or_else(|| format!("Runs the state machine {}.", self.name), str::to_owned);
        let description = match self.express {
            true => format!("{said}\n\n{}", express(limit)),
            false => said,
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

/// What models are told of a tool that runs an Express state machine.
fn express(limit: Duration) -> String {
    format!(
        "It runs as an Express execution: it must end within {} seconds and cannot be cancelled. If the answer of AWS is lost, \
         nobody can find out whether it ran: the task then ends as uncertain, and it is not started a second time.",
        limit.as_secs_f64()
    )
}

/// A comment without the block between fences, and what is in that.
fn divided(comment: &str) -> (Option<String>, Option<&str>) {
    let Some((before, rest)) = comment.split_once(FENCE) else { return (Some(comment.to_owned()), None) };
    let (block, after) = rest.split_once(FENCE).unwrap_or((rest, ""));
    // After the fence may stand what the block is, such as `json`.
    let block = block.find('{').map_or(block, |at| &block[at..]);
    let words = [before.trim(), after.trim()].into_iter().filter(|part| !part.is_empty());
    (Some(words.collect::<Vec<_>>().join("\n")), Some(block))
}

/// The schema in the tags.
fn tagged(tags: &BTreeMap<String, String>) -> Result<Option<Map<String, Value>>, String> {
    let Some(first) = tags.get(SCHEMA) else { return Ok(None) };
    let more = (2..).map_while(|n| tags.get(&format!("{SCHEMA}.{n}")));
    let text: String = std::iter::once(first).chain(more).map(|part| part.trim()).collect();
    let place = format!("its tag `{SCHEMA}`");
    if text.starts_with('{') {
        return object(&text, &place).map(Some);
    }
    let bare = text.trim_end_matches('=').as_bytes();
    let bytes = BASE64_NOPAD.decode(bare).or_else(|_| BASE64URL_NOPAD.decode(bare));
    let bytes = bytes.map_err(|_| format!("{place} is neither JSON nor base64"))?;
    object(&String::from_utf8_lossy(&bytes), &place).map(Some)
}

fn object(text: &str, place: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text.trim()) {
        Ok(Value::Object(schema)) => Ok(schema),
        Ok(_) => Err(format!("the input schema in {place} is not a JSON object")),
        Err(error) => Err(format!("the input schema in {place} is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::BASE64;

    const LIMIT: Duration = Duration::from_millis(7500);

    fn machine(comment: Option<&str>, tags: &[(&str, &str)]) -> Wanted {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Wanted {
            arn: "arn:m".to_owned(),
            name: "Nightly".to_owned(),
            tags,
            comment: comment.map(str::to_owned),
            ..Wanted::default()
        }
    }

    fn said(machine: &Wanted) -> (String, Value) {
        let tool = machine.tool(None, LIMIT).unwrap();
        (tool.description.unwrap(), Value::Object(tool.input_schema))
    }

    #[test]
    fn a_machine_that_says_nothing_takes_any_object() {
        let tool = machine(None, &[]).tool(None, LIMIT).unwrap();
        assert_eq!((tool.name.as_str(), &tool.target), ("Nightly", &json!({"state_machine": "arn:m"})));
        assert_eq!(
            said(&machine(None, &[])),
            ("Runs the state machine Nightly.".to_owned(), json!({"type": "object"}))
        );
        let described = Wanted { description: Some("Of a version.".to_owned()), ..machine(None, &[]) };
        assert_eq!(said(&described).0, "Of a version.");
    }

    #[test]
    fn a_comment_has_words_and_between_fences_a_schema() {
        let schema = json!({"type": "object", "properties": {"day": {"type": "string"}}});
        for comment in [
            format!("Builds it. ```{schema}```"),
            format!("Builds it.\n```json\n{schema:#}\n```\n"),
            format!("```json-schema {schema} ``` Builds it."),
            format!("Builds it. ``` {schema}"),
        ] {
            assert_eq!(
                said(&machine(Some(&comment), &[])),
                ("Builds it.".to_owned(), schema.clone()),
                "{comment}"
            );
        }
        assert_eq!(said(&machine(Some("Builds it."), &[])).0, "Builds it.");
    }

    #[test]
    fn the_config_goes_before_tags_and_tags_before_the_comment() {
        let comment = r#"From the comment. ```{"title": "comment"}```"#;
        let whole = BASE64.encode(br#"{"title": "from several tags"}"#);
        let (one, two) = whole.split_at(20);
        let tags =
            [("taskbridge:description", "From the tag."), (SCHEMA, one), ("taskbridge:input_schema.2", two)];
        let (words, schema) = said(&machine(Some(comment), &tags));
        assert_eq!((words.as_str(), &schema["title"]), ("From the tag.", &json!("from several tags")));
        let config = Map::from_iter([("title".to_owned(), json!("config"))]);
        let tool = machine(Some(comment), &tags).tool(Some(&config), LIMIT).unwrap();
        assert_eq!(tool.input_schema["title"], "config");
        assert_eq!(said(&machine(Some(comment), &[])).1["title"], "comment");
    }

    #[test]
    fn what_is_no_schema_is_told_with_its_place() {
        for (machine, part) in [
            (machine(Some("```{nothing}```"), &[]), "the comment of its definition is not JSON: "),
            (machine(Some("```json```"), &[]), "the comment of its definition is not JSON: "),
            (
                machine(None, &[(SCHEMA, "day: string")]),
                "`taskbridge:input_schema` is neither JSON nor base64",
            ),
            (machine(None, &[(SCHEMA, &BASE64.encode(b"[1]"))]), "is not a JSON object"),
        ] {
            let why = machine.tool(None, LIMIT).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn an_express_machine_says_what_it_cannot_promise() {
        let machine = Wanted { express: true, timeout_seconds: Some(7), ..machine(Some("Quick."), &[]) };
        let (words, _) = said(&machine);
        assert!(words.starts_with("Quick.\n\n") && words.contains("within 7.5 seconds"), "{words}");
        assert!(words.contains("uncertain, and it is not started a second time"), "{words}");
        let why = Wanted { timeout_seconds: None, ..machine }.tool(None, LIMIT).unwrap_err();
        assert!(why.contains("no `TimeoutSeconds`") && why.contains("raise `lease`"), "{why}");
    }
}
