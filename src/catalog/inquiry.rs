//! [`Inquiry`]: a question to the caller for omitted parameters, before anything starts. It must not know
//! how a question reaches the caller.

use minijinja::value::Serde;
use serde_json::{Map, Value, json};
use taskbridge_sdk::{Ask, Question};

use super::offers::environment;

/// A question to the caller before anything starts.
#[derive(Clone, Debug)]
pub struct Inquiry {
    /// Its key for clients.
    pub key: String,
    /// Its step: inquiries of a lower step are asked first.
    pub step: u32,
    /// True if a call continues without an answer, because the client cannot be asked or its user declines.
    pub optional: bool,
    /// The text for people: a template that may name parameters.
    pub message: String,
    /// The requested input.
    pub input: InquiryInput,
}

/// The input that an inquiry requests.
#[derive(Clone, Debug)]
pub enum InquiryInput {
    /// A person fills in these parameters: by name, with the schema of each.
    Parameters(Map<String, Value>),
    /// A person visits a page.
    Page {
        /// The address of the page.
        url: String,
    },
    /// The client's model generates a message; its text becomes the parameter.
    Sampling {
        /// MCP's `CreateMessageRequestParams`.
        request: Map<String, Value>,
        /// The parameter.
        parameter: String,
    },
    /// The client lists its roots; their addresses become the parameter, a list.
    Roots {
        /// The parameter.
        parameter: String,
    },
}

impl Inquiry {
    /// Returns the parameters that an answer supplies.
    pub fn parameters(&self) -> Vec<&str> {
        match &self.input {
            InquiryInput::Parameters(schemas) => schemas.keys().map(String::as_str).collect(),
            InquiryInput::Page { .. } => Vec::new(),
            InquiryInput::Sampling { parameter, .. } | InquiryInput::Roots { parameter } => vec![parameter],
        }
    }

    /// Returns those of its parameters that are missing.
    pub fn missing<'a>(&'a self, arguments: &Map<String, Value>) -> Vec<&'a str> {
        self.parameters().into_iter().filter(|name| !arguments.contains_key(*name)).collect()
    }

    /// Returns true if a call with these arguments needs an answer, where `answered` are the keys of
    /// answered inquiries.
    pub fn is_open(&self, arguments: &Map<String, Value>, answered: &[String]) -> bool {
        let is_page = matches!(self.input, InquiryInput::Page { .. });
        !answered.contains(&self.key) && (is_page || !self.missing(arguments).is_empty())
    }

    /// Builds the question for the parameters that are missing in these arguments.
    pub fn question(&self, arguments: &Map<String, Value>) -> Question {
        let message = environment()
            .render_str(&self.message, Serde(arguments))
            .unwrap_or_else(|_| self.message.clone());
        let ask = match &self.input {
            InquiryInput::Parameters(schemas) => {
                let missing = self.missing(arguments);
                let properties: Map<String, Value> = schemas
                    .iter()
                    .filter(|(name, _)| missing.contains(&name.as_str()))
                    .map(|(name, schema)| (name.clone(), schema.clone()))
                    .collect();
                Ask::Form(json!({"type": "object", "properties": properties, "required": missing}))
            }
            InquiryInput::Page { url } => Ask::Url(url.clone()),
            InquiryInput::Sampling { request, .. } => Ask::Sampling(request.clone()),
            InquiryInput::Roots { .. } => Ask::Roots,
        };
        Question { id: self.key.clone(), message, ask }
    }

    /// Adds a valid answer to the arguments. A form fills in only parameters that are missing; model text and
    /// roots replace what is there.
    pub fn fill(&self, content: &Map<String, Value>, arguments: &mut Map<String, Value>) {
        match &self.input {
            InquiryInput::Parameters(schemas) => {
                for (name, value) in content {
                    if schemas.contains_key(name) && !arguments.contains_key(name) {
                        arguments.insert(name.clone(), value.clone());
                    }
                }
            }
            InquiryInput::Page { .. } => {}
            InquiryInput::Sampling { parameter, .. } => {
                arguments.insert(parameter.clone(), sampling_text(content).into());
            }
            InquiryInput::Roots { parameter } => {
                let roots = content.get("roots").and_then(Value::as_array).into_iter().flatten();
                let addresses = roots.filter_map(|root| root.get("uri").cloned()).collect();
                arguments.insert(parameter.clone(), Value::Array(addresses));
            }
        }
    }
}

/// Returns the text of a `CreateMessageResult`: its text blocks, one per line.
fn sampling_text(result: &Map<String, Value>) -> String {
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

    fn inquiry(input: InquiryInput) -> Inquiry {
        Inquiry { key: "k".to_owned(), step: 1, optional: false, message: "For {{ env }}?".to_owned(), input }
    }

    /// Only the missing parameters are in the form, and only those are taken from the answer.
    #[test]
    fn inquiry_asks_only_missing_parameters() {
        let schemas = object(json!({"a": {"type": "string"}, "b": {"type": "integer"}}));
        let inquiry = inquiry(InquiryInput::Parameters(schemas));
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

    /// A page stays an open question until it was answered.
    #[test]
    fn inquiry_of_page_is_asked_once() {
        let inquiry = inquiry(InquiryInput::Page { url: "https://a.example".to_owned() });
        assert!(inquiry.is_open(&Map::new(), &[]));
        assert!(!inquiry.is_open(&Map::new(), &["k".to_owned()]));
    }

    /// The text of a model's answer and the URIs of the roots become the parameters.
    #[test]
    fn sampling_and_roots_fill_parameters() {
        let mut arguments = Map::new();
        let sampling =
            inquiry(InquiryInput::Sampling { request: Map::new(), parameter: "capital".to_owned() });
        sampling.fill(&object(json!({"content": {"type": "text", "text": "Paris"}})), &mut arguments);
        assert_eq!(arguments["capital"], "Paris");
        let blocks = json!({"content": [{"type": "text", "text": "Pa"}, {"type": "text", "text": "ris"}]});
        sampling.fill(&object(blocks), &mut arguments);
        assert_eq!(arguments["capital"], "Pa\nris");
        let roots = inquiry(InquiryInput::Roots { parameter: "roots".to_owned() });
        roots.fill(&object(json!({"roots": [{"uri": "file:///a"}, {"name": "none"}]})), &mut arguments);
        assert_eq!(arguments["roots"], json!(["file:///a"]));
    }
}
