//! Reads `[prompts.NAME]` into prompts, and reports all errors that are detectable before the server starts.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use taskbridge_sdk::{Content, media_type};

use super::resources::{check_name, text_template};
use super::shape::{self, AcceptedValues, PromptArgument};
use super::values::{self, Tools};
use crate::catalog::{
    Argument, Inquiry, InquiryInput, Message, MessageTemplate, Prompt, Prompts, Resources, Values,
};
use crate::config::reading::files;
use crate::config::reading::problem;
use crate::config::reading::reader::Reader;
use crate::config::reading::source::join;

/// The objects that prompts can refer to.
#[derive(Clone, Copy)]
pub(in crate::config) struct Context<'a> {
    /// The folder of the config file.
    pub(in crate::config) dir: &'a Path,
    /// The tools.
    pub(in crate::config) tools: Tools<'a>,
    /// The valid resources.
    pub(in crate::config) resources: &'a Resources,
    /// True if all resources are valid.
    pub(in crate::config) all_resources: bool,
}

/// Reads all prompts.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    tables: Map<String, Value>,
    context: Context<'_>,
) -> Prompts {
    let mut prompts = Vec::new();
    for (name, value) in tables {
        let field = join("prompts", &name);
        check_name(reader, &field, &name);
        let Some(prompt) = reader.read::<shape::Prompt>(&field, value) else { continue };
        let arguments = arguments(reader, &field, &prompt.arguments, context.tools);
        if prompt.messages.is_empty() {
            reader.problem(join(&field, "messages"), "must not be empty: add at least one message");
        }
        // A misspelt field is missing here, so further checks of the messages would report false errors.
        if !reader.is_clean(&join(&field, "messages")) {
            continue;
        }
        let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
        let mut messages = Vec::new();
        for (index, message) in prompt.messages.iter().enumerate() {
            let field = format!("{field}.messages[{index}]");
            if let Some(content) = read_content(reader, &field, message, &names, context) {
                messages.push(Message { role: message.role, content });
            }
        }
        let inquiries = inquiries(&prompt.arguments, &arguments);
        let shape::Prompt { title, description, .. } = prompt;
        prompts.push(Prompt { name, title, description, arguments, inquiries, messages });
    }
    Prompts::new(prompts)
}

fn arguments(
    reader: &mut Reader<'_>,
    field: &str,
    given: &[PromptArgument],
    tools: Tools<'_>,
) -> Vec<Argument> {
    let mut arguments = Vec::<Argument>::new();
    for (index, argument) in given.iter().enumerate() {
        let field = format!("{field}.arguments[{index}]");
        let name = &argument.name;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name {
            let message =
                format!("\"{name}\" is not a name that a template can use: letters, digits and `_`");
            reader.problem(join(&field, "name"), message);
        }
        if arguments.iter().any(|other| other.name == *name) {
            reader
                .problem(join(&field, "name"), format!("duplicate argument `{name}`: remove one of the two"));
        }
        if argument.ask.is_some() && argument.default.is_some() {
            let message = "an argument with a default is never missing: remove one of the two";
            reader.problem(join(&field, "ask"), message);
        }
        if argument.required == Some(true) && argument.default.is_some() {
            let message = "a required argument needs no default: remove one of the two";
            reader.problem(join(&field, "default"), message);
        }
        let fields = AcceptedValues {
            choices: argument.choices.clone(),
            suggest: argument.suggest.clone(),
            same_as: argument.same_as.clone(),
        };
        let (values, parameter_description) = values::read(reader, &field, &fields, tools);
        if let (Some(default), Values::Only(values)) = (&argument.default, &values)
            && !values.contains(default)
        {
            let known: Vec<&str> = values.iter().map(String::as_str).collect();
            reader.problem(join(&field, "default"), problem::unknown_name("value", default, &known));
        }
        arguments.push(Argument {
            name: name.clone(),
            title: argument.title.clone(),
            description: argument.description.clone().or(parameter_description),
            required: argument.required.unwrap_or(argument.default.is_none()),
            default: argument.default.clone(),
            values,
            tool: values::tool_name(argument.same_as.as_deref()),
        });
    }
    arguments
}

/// Returns the questions for omitted arguments: one form each, all in one step.
fn inquiries(given: &[PromptArgument], arguments: &[Argument]) -> Vec<Inquiry> {
    let askable =
        given.iter().zip(arguments).filter_map(|(given, argument)| Some((given.ask.clone()?, argument)));
    askable
        .map(|(message, argument)| Inquiry {
            key: argument.name.clone(),
            step: 1,
            optional: !argument.required,
            message,
            input: InquiryInput::Parameters(Map::from_iter([(argument.name.clone(), argument.schema())])),
        })
        .collect()
}

/// Reads the content of a message: exactly one of six kinds.
fn read_content(
    reader: &mut Reader<'_>,
    field: &str,
    message: &shape::Message,
    arguments: &[&str],
    context: Context<'_>,
) -> Option<MessageTemplate> {
    let m = message;
    let given = [
        m.text.is_some(),
        m.file.is_some(),
        m.resource.is_some(),
        m.link.is_some(),
        m.image.is_some(),
        m.audio.is_some(),
    ];
    if given.iter().filter(|given| **given).count() != 1 {
        let message = "set exactly one of `text`, `file`, `resource`, `link`, `image` and `audio`";
        reader.problem(field, message);
        return None;
    }
    let template = |reader: &mut Reader<'_>, name: &str, text: String| {
        text_template(reader, &join(field, name), text, "argument", arguments)
    };
    if let Some(text) = &m.text {
        return template(reader, "text", text.clone()).map(MessageTemplate::Text);
    }
    if let Some(file) = &m.file {
        let text = files::read_text(reader, &join(field, "file"), context.dir.join(file))?;
        return template(reader, "file", text).map(MessageTemplate::Text);
    }
    if let Some(uri) = &m.resource {
        check_address(reader, &join(field, "resource"), uri, context);
        return template(reader, "resource", uri.clone()).map(MessageTemplate::Embed);
    }
    if let Some(uri) = &m.link {
        check_address(reader, &join(field, "link"), uri, context);
        return template(reader, "link", uri.clone()).map(MessageTemplate::Link);
    }
    if let Some(image) = &m.image {
        let (data, mime_type) = media(reader, &join(field, "image"), context.dir.join(image), "image/")?;
        return Some(MessageTemplate::Block(Content::Image { data, mime_type }));
    }
    let audio = m.audio.as_ref()?;
    let (data, mime_type) = media(reader, &join(field, "audio"), context.dir.join(audio), "audio/")?;
    Some(MessageTemplate::Block(Content::Audio { data, mime_type }))
}

/// A URI without arguments must match an existing resource. That is checked only if all resources are valid,
/// because the missing one could be an invalid one.
fn check_address(reader: &mut Reader<'_>, field: &str, uri: &str, context: Context<'_>) {
    let exists = || context.resources.read(uri, |_| true).is_ok_and(|found| found.is_some());
    if context.all_resources && !uri.contains('{') && !exists() {
        let known: Vec<&str> = context
            .resources
            .page(None, usize::MAX, |_| true)
            .into_iter()
            .map(|resource| resource.uri.as_str())
            .collect();
        reader.problem(field, problem::unknown_name("resource", uri, &known));
    }
}

/// Returns a file in base64 with its media type, which must begin with `kind`.
fn media(reader: &mut Reader<'_>, field: &str, path: PathBuf, kind: &str) -> Option<(String, String)> {
    let mime_type = path.to_str().and_then(media_type).filter(|found| found.starts_with(kind));
    let Some(mime_type) = mime_type else {
        let known = if kind == "image/" { ".png, .jpg, .gif, .webp or .svg" } else { ".wav or .mp3" };
        reader.problem(
            field,
            format!("{} has the wrong extension: use a file that ends in {known}", path.display()),
        );
        return None;
    };
    let file = files::read(reader, field, path)?;
    Some((STANDARD.encode(file.bytes), mime_type.to_owned()))
}
