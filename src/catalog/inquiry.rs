//! [`Inquiry`]: what is asked of a caller before anything starts, to learn parameters that were left out. It must not
//! know how a question reaches anybody.

use minijinja::value::Serde;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Ask, Question};

use super::template::environment;

/// Something that is asked of a caller before anything starts.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// Names it to clients.
    pub key: String,
    /// Those of a lower step are asked first.
    pub step: u32,
    /// True if a call goes on without an answer, where a client cannot be asked or its user declines.
    pub optional: bool,
    /// What is asked, for people: a template that may name parameters.
    pub message: String,
    /// What is wanted.
    pub wants: Wants,
}

/// What an inquiry wants.
#[derive(Clone, Debug)]
pub enum Wants {
    /// A person fills in these parameters: by name, with the schema of each.
    Parameters(Map<String, Value>),
    /// A person visits a page.
    Page {
        /// Its address.
        url: String,
    },
    /// The client's model says something; its text is the parameter.
    Sampling {
        /// MCP's `CreateMessageRequestParams`.
        request: Map<String, Value>,
        /// The parameter.
        parameter: String,
    },
    /// The client tells its roots; their addresses are the parameter, a list.
    Roots {
        /// The parameter.
        parameter: String,
    },
}

impl Inquiry {
    /// The parameters that an answer gives.
    pub fn parameters(&self) -> Vec<&str> {
        match &self.wants {
            Wants::Parameters(schemas) => schemas.keys().map(String::as_str).collect(),
            Wants::Page { .. } => Vec::new(),
            Wants::Sampling { parameter, .. } | Wants::Roots { parameter } => vec![parameter],
        }
    }

    /// The parameters among them that are missing.
    pub fn missing<'a>(&'a self, arguments: &Map<String, Value>) -> Vec<&'a str> {
        self.parameters().into_iter().filter(|name| !arguments.contains_key(*name)).collect()
    }

    /// True if it is to be asked of a call with these arguments, where the inquiries of these keys were answered.
    pub fn is_open(&self, arguments: &Map<String, Value>, answered: &[String]) -> bool {
        let visits = matches!(self.wants, Wants::Page { .. });
        !answered.contains(&self.key) && (visits || !self.missing(arguments).is_empty())
    }

    /// What is asked of a call with these arguments: for what is missing in them.
    pub fn question(&self, arguments: &Map<String, Value>) -> Question {
        let message = environment()
            .render_str(&self.message, Serde(arguments))
            .unwrap_or_else(|_| self.message.clone());
        let ask = match &self.wants {
            Wants::Parameters(schemas) => {
                let missing = self.missing(arguments);
                let wanted: Map<String, Value> = schemas
                    .iter()
                    .filter(|(name, _)| missing.contains(&name.as_str()))
                    .map(|(name, schema)| (name.clone(), schema.clone()))
                    .collect();
                Ask::Form(json!({"type": "object", "properties": wanted, "required": missing}))
            }
            Wants::Page { url } => Ask::Url(url.clone()),
            Wants::Sampling { request, .. } => Ask::Sampling(request.clone()),
            Wants::Roots { .. } => Ask::Roots,
        };
        Question { id: self.key.clone(), message, ask }
    }

    /// Puts an answer that fits the question in the place of what was missing.
    pub fn fill(&self, content: &Map<String, Value>, arguments: &mut Map<String, Value>) {
        match &self.wants {
            Wants::Parameters(schemas) => {
                for (name, value) in content {
                    if schemas.contains_key(name) && !arguments.contains_key(name) {
                        arguments.insert(name.clone(), value.clone());
                    }
                }
            }
            Wants::Page { .. } => {}
            Wants::Sampling { parameter, .. } => {
                arguments.insert(parameter.clone(), said(content).into());
            }
            Wants::Roots { parameter } => {
                let roots = content.get("roots").and_then(Value::as_array).into_iter().flatten();
                let addresses = roots.filter_map(|root| root.get("uri").cloned()).collect();
                arguments.insert(parameter.clone(), Value::Array(addresses));
            }
        }
    }
}

/// The text of a `CreateMessageResult`: its blocks of text, one on each line.
fn said(result: &Map<String, Value>) -> String {
    let text = |block: &Value| block.get("text").and_then(Value::as_str).map(str::to_owned);
    match result.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n"),
        Some(block) => text(block).unwrap_or_default(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn inquiry(wants: Wants) -> Inquiry {
        Inquiry { key: "k".to_owned(), step: 1, optional: false, message: "For {{ env }}?".to_owned(), wants }
    }

    #[test]
    fn only_what_is_missing_is_asked_and_only_that_is_filled_in() {
        let schemas = object(json!({"a": {"type": "string"}, "b": {"type": "integer"}}));
        let inquiry = inquiry(Wants::Parameters(schemas));
        let mut arguments = object(json!({"a": "x", "env": "staging"}));
        assert!(inquiry.is_open(&arguments, &[]));
        let question = inquiry.question(&arguments);
        assert_eq!(question.message, "For staging?");
        let form = json!({"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]});
        assert_eq!(question.ask, Ask::Form(form));
        inquiry.fill(&object(json!({"a": "other", "b": 2, "c": 3})), &mut arguments);
        assert_eq!(Value::Object(arguments.clone()), json!({"a": "x", "b": 2, "env": "staging"}));
        assert!(!inquiry.is_open(&arguments, &[]));
    }

    #[test]
    fn a_page_is_asked_until_it_was_answered() {
        let inquiry = inquiry(Wants::Page { url: "https://a.example".to_owned() });
        assert!(inquiry.is_open(&Map::new(), &[]));
        assert!(!inquiry.is_open(&Map::new(), &["k".to_owned()]));
    }

    #[test]
    fn what_a_model_says_and_where_the_roots_are_become_parameters() {
        let mut arguments = Map::new();
        let sampling = inquiry(Wants::Sampling { request: Map::new(), parameter: "capital".to_owned() });
        sampling.fill(&object(json!({"content": {"type": "text", "text": "Paris"}})), &mut arguments);
        assert_eq!(arguments["capital"], "Paris");
        let blocks = json!({"content": [{"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}]});
        sampling.fill(&object(blocks), &mut arguments);
        assert_eq!(arguments["capital"], "Pa\nris");
        let roots = inquiry(Wants::Roots { parameter: "roots".to_owned() });
        roots.fill(&object(json!({"roots": [{"uri": "file:///a"}, {"name": "none"}]})), &mut arguments);
        assert_eq!(arguments["roots"], json!(["file:///a"]));
    }
}
