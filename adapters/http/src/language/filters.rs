//! Filters beyond those of MiniJinja. They are pure.

use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, State, Value};
use reqwest::Url;
use serde_json::Value as Json;
use taskbridge_sdk::JobKey;

use super::text::plain_text;

/// Names of a scope with the address of the backend, and with that of the reply.
pub(crate) const BASE: &str = "base";
pub(crate) const URL: &str = "url";

/// Name of the filter that keeps an address out of a reply from being encoded.
pub(super) const RAW: &str = "raw";

/// Adds the filters.
pub(super) fn add(environment: &mut Environment<'static>) {
    environment.add_filter("own_path", own_path);
    environment.add_filter("from_json", from_json);
    environment.add_filter("maybe_json", |text: Option<String>| from_json(text).unwrap_or(Value::UNDEFINED));
    environment.add_filter("tojson", to_json);
    environment.add_filter("texts", texts);
    environment.add_filter("name_and_value", name_and_value);
    environment.add_filter("without", without);
    environment.add_filter("unnest", unnest);
    environment.add_filter("short", short);
    environment.add_filter("b64encode", |text: String| data_encoding::BASE64.encode(text.as_bytes()));
    environment.add_filter("b64decode", b64decode);
    environment.add_filter("seconds_until", seconds_until);
    // `Template` takes it off before: here it has no meaning, and an expression that has it is refused.
    environment.add_filter(RAW, |value: Value| value);
}

/// Returns a filter of the source that no environment has. It looks at names behind a `|` outside of texts.
pub(super) fn unknown(environment: &Environment<'static>, source: &str) -> Option<String> {
    let mut quote = None;
    let mut characters = source.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match quote {
            Some(_) if c == '\\' => drop(characters.next()),
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '|' => {
                let rest = source[at + 1..].trim_start();
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let probe = format!("{{{{ x|{name} }}}}");
                let is_known = environment
                    .render_str(&probe, ())
                    .err()
                    .is_none_or(|error| error.kind() != ErrorKind::UnknownFilter);
                if !is_known {
                    return Some(name);
                }
            }
            None => {}
        }
    }
    None
}

/// Returns an address out of a reply as a path below `base`, with its query.
///
/// # Errors
/// If the address does not lead below `base`.
fn own_path(state: &State<'_, '_>, address: String) -> Result<String, Error> {
    let known = |name: &str| {
        state.lookup(name).and_then(|value| value.as_str().and_then(|text| Url::parse(text).ok()))
    };
    let refused = || {
        Error::new(
            ErrorKind::InvalidOperation,
            "the address in the reply is not valid, or does not lead below `base`",
        )
    };
    let base = known(BASE).ok_or_else(refused)?;
    let url = match known(URL) {
        Some(from) => from.join(&address),
        None => Url::parse(&address),
    };
    let url = url.map_err(|_| refused())?;
    match is_below(&base, &url) {
        true => {
            let path = &url.path()[base.path().trim_end_matches('/').len()..];
            Ok(url.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}")))
        }
        false => Err(refused()),
    }
}

fn is_below(base: &Url, url: &Url) -> bool {
    let prefix = base.path().trim_end_matches('/');
    let is_inside = url.path().strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
    let has_user = !url.username().is_empty() || url.password().is_some();
    base.origin() == url.origin() && is_inside && !has_user
}

fn from_json(text: Option<String>) -> Result<Value, Error> {
    let Some(text) = text else { return Ok(Value::UNDEFINED) };
    let json: Json = taskbridge_sdk::from_json(text.as_bytes())
        .map_err(|_| Error::new(ErrorKind::InvalidOperation, "the text is not JSON"))?;
    Ok(Value::from(Serde(&json)))
}

fn to_json(value: Value) -> Result<String, Error> {
    serde_json::to_string(&value)
        .map_err(|_| Error::new(ErrorKind::BadSerialization, "a value cannot be written as JSON"))
}

/// Returns an object whose values are texts: other values become JSON.
fn texts(object: Serde<serde_json::Map<String, Json>>) -> Value {
    let texts: serde_json::Map<String, Json> =
        object.0.into_iter().map(|(name, value)| (name, plain_text(&value).into())).collect();
    Value::from(Serde(&texts))
}

/// Returns an object as a list of `{name, value}`.
fn name_and_value(object: Serde<serde_json::Map<String, Json>>) -> Value {
    let pairs: Vec<Json> =
        object.0.into_iter().map(|(name, value)| serde_json::json!({"name": name, "value": value})).collect();
    Value::from(Serde(&pairs))
}

/// Returns an object without one of its members.
fn without(object: Serde<serde_json::Map<String, Json>>, name: String) -> Value {
    let rest: serde_json::Map<String, Json> =
        object.0.into_iter().filter(|(member, _)| *member != name).collect();
    Value::from(Serde(&rest))
}

/// Returns the items of a list in each of some objects. Each has its object, without the list, as `outer`.
fn unnest(objects: Option<Serde<Vec<serde_json::Map<String, Json>>>>, name: String) -> Value {
    let mut inner: Vec<Json> = Vec::new();
    for mut outer in objects.map(|objects| objects.0).unwrap_or_default() {
        let Some(Json::Array(items)) = outer.remove(&name) else { continue };
        for mut item in items {
            if let Some(item) = item.as_object_mut() {
                item.insert("outer".to_owned(), outer.clone().into());
            }
            inner.push(item);
        }
    }
    Value::from(Serde(&inner))
}

/// Returns the first characters of a key, for engines whose names are short.
fn short(key: String, length: usize) -> String {
    match JobKey::parse(&key) {
        Some(key) => key.short(length).to_owned(),
        None => key.chars().take(length.max(JobKey::MIN_SHORT)).collect(),
    }
}

fn b64decode(text: String) -> Result<String, Error> {
    let invalid = || Error::new(ErrorKind::InvalidOperation, "the text is not base64 of UTF-8");
    let bytes = data_encoding::BASE64.decode(text.as_bytes()).map_err(|_| invalid())?;
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// Returns the seconds from one time to another, such as from a time in a reply to its header `date`. The times
/// are of RFC 3339 or of HTTP. Without one of them, the value is undefined.
fn seconds_until(from: Option<String>, until: Option<String>) -> Result<Value, Error> {
    let parse = |text: String| {
        let text = text.trim();
        let time = text.parse::<jiff::Timestamp>().ok();
        let time = time.or_else(|| jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp()));
        time.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "the text is not a time"))
    };
    let (Some(from), Some(until)) = (from.filter(|text| !text.is_empty()), until) else {
        return Ok(Value::UNDEFINED);
    };
    Ok(Value::from(parse(until)?.duration_since(parse(from)?).as_secs_f64()))
}
