//! Input of an execution: the tool's arguments, or the rendered target. Error messages name the field and the
//! parameter, never a value, because an argument can be a secret. Pure.

use serde_json::{Map, Value as Json, json};
use taskbridge_sdk::{Error, JobSpec, Result, TemplateContext, Templates, Trace};

use crate::config::Target;

/// Maximum input size of Step Functions, in bytes of UTF-8.
const MAX_BYTES: usize = 262_144;

/// Returns the input of an execution as text.
pub(crate) fn build(job: &JobSpec, target: &Target) -> Result<String> {
    if let Some(file) = job.files.first() {
        return Err(Error::rejected(format!(
            "`{}` is a file, and executions of Step Functions do not accept files: pass text, or a URL that the \
             state machine can read",
            file.parameter
        )));
    }
    let input = match &target.input {
        None => job.arguments.clone(),
        Some(members) => render_input(job, members)?,
    };
    let input = input.to_string();
    if input.len() > MAX_BYTES {
        return Err(Error::rejected(format!(
            "the input of the execution is {} bytes long, and Step Functions accepts at most {MAX_BYTES}",
            input.len()
        )));
    }
    Ok(input)
}

/// Returns true if two inputs are equal as JSON: Step Functions may return other bytes.
pub(crate) fn are_equal(one: &str, other: &str) -> bool {
    let parse = |text| serde_json::from_str::<Json>(text).ok();
    one == other || parse(one).is_some_and(|value| parse(other) == Some(value))
}

/// Returns the trace context as an X-Ray header, so that the execution continues the trace.
pub(crate) fn trace_header(trace: &Trace) -> Option<String> {
    let mut parts = trace.parent.split('-');
    let (_, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1;
    Some(format!("Root=1-{}-{};Parent={parent};Sampled={sampled}", id.get(..8)?, id.get(8..)?))
}

fn render_input(job: &JobSpec, members: &Map<String, Json>) -> Result<Json> {
    Renderer::of(job).object("input", members)
}

/// Renders a template of a target as text.
pub(crate) fn text(job: &JobSpec, field: &str, template: &str) -> Result<String> {
    let Renderer { templates, context } = Renderer::of(job);
    match context.has_value(template) {
        true => templates.render_text(field, template, &context),
        false => Err(Error::rejected(format!("`{field}` needs a parameter that was not given"))),
    }
}

struct Renderer {
    templates: Templates,
    context: TemplateContext,
}

impl Renderer {
    fn of(job: &JobSpec) -> Self {
        let arguments = job.arguments.as_object().cloned().unwrap_or_default();
        let mut variables = json!({"arguments": arguments});
        if let Some(caller) = &job.on_behalf_of {
            variables["caller"] = caller.name.as_str().into();
        }
        let context = TemplateContext::new(&arguments, json!({"job": job.key.as_str()}), variables);
        Self { templates: Templates::new(), context }
    }

    fn object(&self, field: &str, members: &Map<String, Json>) -> Result<Json> {
        let mut object = Map::new();
        for (name, value) in members {
            if let Some(value) = self.value(&format!("{field}.{name}"), value)? {
                object.insert(name.clone(), value);
            }
        }
        Ok(object.into())
    }

    fn value(&self, field: &str, value: &Json) -> Result<Option<Json>> {
        match value {
            Json::String(template) => self.templates.render_value(field, template, &self.context),
            Json::Object(members) => self.object(field, members).map(Some),
            Json::Array(items) => {
                let mut array = Vec::with_capacity(items.len());
                for (at, item) in items.iter().enumerate() {
                    array.extend(self.value(&format!("{field}[{at}]"), item)?);
                }
                Ok(Some(array.into()))
            }
            other => Ok(Some(other.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskbridge_sdk::suite::job;
    use taskbridge_sdk::{ErrorKind, FileContent, InputFile};

    fn input(arguments: Json, input: Json) -> Result<Json, String> {
        let mut target = json!({"state_machine": "m"});
        if !input.is_null() {
            target["input"] = input;
        }
        let job = job(target.clone(), arguments);
        let target = serde_json::from_value(target).unwrap();
        build(&job, &target).map(|text| serde_json::from_str(&text).unwrap()).map_err(|e| e.to_string())
    }

    /// Without a mapping, the arguments are the input of the execution.
    #[test]
    fn input_without_mapping_is_arguments() {
        let arguments = json!({"n": 3, "deep": {"list": [1, null]}});
        assert_eq!(input(arguments.clone(), Json::Null), Ok(arguments));
    }

    /// A mapping keeps the types of values and leaves out fields whose arguments are missing.
    #[test]
    fn mapping_keeps_types_omits_missing_values() {
        let mapping = json!({
            "rows": "{{ n }}", "note": "{{ n }} rows", "absent": "{{ x }}", "fixed": [1, true, "{{ x }}", "{{ s }}"],
            "all": "{{ taskbridge.arguments }}",
        });
        let actual = input(json!({"n": 3, "s": "t"}), mapping);
        let expected =
            json!({"rows": 3, "note": "3 rows", "fixed": [1, true, "t"], "all": {"n": 3, "s": "t"}});
        assert_eq!(actual, Ok(expected));
        assert_eq!(input(json!({}), json!({})), Ok(json!({})));
    }

    /// `taskbridge.caller` is the caller of the job. Without a caller, the field is left out.
    #[test]
    fn mapping_can_name_caller() {
        let target = json!({"state_machine": "m", "input": {"by": "{{ taskbridge.caller }}", "n": 1}});
        let parsed: Target = serde_json::from_value(target.clone()).unwrap();
        let anonymous_job = job(target, json!({}));
        assert_eq!(build(&anonymous_job, &parsed).unwrap(), r#"{"n":1}"#);
        let ann = JobSpec { on_behalf_of: Some(taskbridge_sdk::OnBehalfOf::named("a\"n")), ..anonymous_job };
        assert_eq!(build(&ann, &parsed).unwrap(), r#"{"by":"a\"n","n":1}"#);
    }

    /// An error of a mapping names the field and the parameter, but no value.
    #[test]
    fn mapping_error_names_field_not_value() {
        let missing = input(json!({}), json!({"a": {"b": ["x={{ p }}"]}})).unwrap_err();
        assert_eq!(missing, "`input.a.b[0]` needs the parameter `p`, which is missing");
        let invalid = input(json!({"p": "secret"}), json!({"a": "{{ p | int }}"})).unwrap_err();
        assert!(invalid.contains("`input.a` cannot be rendered") && !invalid.contains("secret"), "{invalid}");
    }

    /// An input of 262144 bytes is accepted. One more byte is rejected.
    #[test]
    fn input_size_limit_is_exact() {
        let of_length = |length: usize| input(json!({"t": "x".repeat(length - 8)}), Json::Null);
        assert!(of_length(MAX_BYTES).is_ok());
        let error = of_length(MAX_BYTES + 1).unwrap_err();
        assert!(error.contains("262145 bytes") && error.contains("at most 262144"), "{error}");
    }

    #[test]
    fn a_file_is_refused_by_name() {
        let mut job = job(json!({"state_machine": "m"}), json!({}));
        let content = FileContent::Inline(vec![]);
        job.files.push(InputFile { parameter: "table".to_owned(), name: "t.csv".to_owned(), content });
        let error = build(&job, &serde_json::from_value(job.target.clone()).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.to_string().starts_with("`table` is a file"), "{error}");
    }

    /// Inputs are equal if their JSON is equal. Text that is not JSON is compared as text.
    #[test]
    fn inputs_are_compared_as_json() {
        assert!(are_equal(r#"{"a":1,"b":[2]}"#, r#"{ "b": [2], "a": 1 }"#));
        assert!(!are_equal(r#"{"a":1}"#, r#"{"a":2}"#) && !are_equal("{", "[") && are_equal("{", "{"));
    }

    /// A W3C trace context becomes an X-Ray trace header.
    #[test]
    fn trace_becomes_xray_header() {
        let trace = Trace::new("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", None).unwrap();
        let header = "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=00f067aa0ba902b7;Sampled=1";
        assert_eq!(trace_header(&trace).as_deref(), Some(header));
    }

    /// Arguments that look like JSON, templates, JSONPath or shell code stay one text.
    #[test]
    fn hostile_argument_stays_single_value() {
        for hostile in [
            "\", \"admin\": true, \"x\": \"",
            "States.Format('{}', $$.Execution.Id)",
            "$.token",
            "{% $states.input %}",
            "{{ 7 * 7 }}",
            "-rf $(id) `id`",
            "a\0b\nc\u{202e}d",
            "../../x",
            "arn:aws:states:us-east-1:123456789012:stateMachine:other",
            &"long ".repeat(10_000),
        ] {
            assert_eq!(input(json!({"v": hostile}), Json::Null), Ok(json!({"v": hostile})));
            let template = json!({"alone": "{{ v }}", "within": ["say: {{ v }}"]});
            let expected = json!({"alone": hostile, "within": [format!("say: {hostile}")]});
            assert_eq!(
                input(json!({"v": hostile}), template),
                Ok(expected),
                "an argument must not become JSON syntax"
            );
        }
    }
}
