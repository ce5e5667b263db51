//! From a request of the config to one that can be sent: URL, headers and body. It must not send it.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value, json};

use crate::config::{Body, Method, Request};
use crate::language::{JsonTemplate, Scope, Template, encode_pairs, plain_text};

/// Longest rendered URL and header, in bytes.
const MAX_LINE: usize = 16 * 1024;
/// Longest rendered body, in bytes.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// A request without its address's host.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) method: http::Method,
    /// Path below `base` with its query, percent-encoded.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Renders a request. `common` are the headers of every request; `extra` are parameters of a page: members of a
/// JSON body, variables of GraphQL, otherwise of the query.
///
/// # Errors
/// The field that cannot be rendered, and why. The message contains no value.
pub(crate) fn render(
    request: &Request,
    common: &BTreeMap<String, Template>,
    scope: &Scope,
    extra: &[(String, Value)],
) -> Result<Rendered, String> {
    let path = request.path.path(scope).map_err(|e| format!("`path`: {e}"))?;
    let is_in_body = request.json.is_some() || request.graphql.is_some();
    let path = with_query(path, &query(&request.query, scope, if is_in_body { &[] } else { extra })?);
    if path.len() > MAX_LINE {
        return Err(format!("the path and query have {} bytes, the limit is {MAX_LINE}", path.len()));
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*;q=0.5"));
    for (name, template) in common.iter().chain(&request.headers) {
        add_header(&mut headers, name, template, scope)?;
    }
    let (content_type, body) = body(request, scope, extra)?;
    if body.len() > MAX_BODY {
        return Err(format!("the body has {} bytes, the limit is {MAX_BODY}", body.len()));
    }
    if let Some(content_type) = content_type
        && !headers.contains_key(header::CONTENT_TYPE)
    {
        let value =
            HeaderValue::from_str(&content_type).map_err(|_| "the content type is not valid".to_owned())?;
        headers.insert(header::CONTENT_TYPE, value);
    }
    let method = match request.method {
        Method::Get => http::Method::GET,
        Method::Post => http::Method::POST,
        Method::Put => http::Method::PUT,
        Method::Patch => http::Method::PATCH,
        Method::Delete => http::Method::DELETE,
    };
    Ok(Rendered { method, path, headers, body: body.into() })
}

fn add_header(headers: &mut HeaderMap, name: &str, template: &Template, scope: &Scope) -> Result<(), String> {
    let Some(value) = template.value(scope).map_err(|e| format!("`headers.{name}`: {e}"))? else {
        return Ok(());
    };
    let field = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("`headers.{name}`: this is not the name of a header"))?;
    let text = plain_text(&value);
    if text.len() > MAX_LINE {
        return Err(format!("`headers.{name}` has {} bytes, the limit is {MAX_LINE}", text.len()));
    }
    let value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
        format!("`headers.{name}`: its value has a line break or another character that no header can have")
    })?;
    headers.insert(field, value);
    Ok(())
}

fn query(
    query: &BTreeMap<String, JsonTemplate>,
    scope: &Scope,
    extra: &[(String, Value)],
) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for (name, template) in query.iter().filter(|(name, _)| !extra.iter().any(|(other, _)| other == *name)) {
        match template.render(scope).map_err(|e| format!("`query.{name}`: {e}"))? {
            None => {}
            Some(Value::Array(items)) => {
                pairs.extend(items.iter().map(|item| (name.clone(), plain_text(item))));
            }
            Some(value) => pairs.push((name.clone(), plain_text(&value))),
        }
    }
    pairs.extend(extra.iter().map(|(name, value)| (name.clone(), plain_text(value))));
    Ok(pairs)
}

fn with_query(path: String, pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return path;
    }
    let encoded = encode_pairs(pairs);
    match path.contains('?') {
        true => format!("{path}&{encoded}"),
        false => format!("{path}?{encoded}"),
    }
}

fn body(
    request: &Request,
    scope: &Scope,
    extra: &[(String, Value)],
) -> Result<(Option<String>, Vec<u8>), String> {
    let json_bytes = |value: &Value| (Some("application/json".to_owned()), value.to_string().into_bytes());
    match request.body()? {
        Body::None => Ok((None, Vec::new())),
        Body::Json(template) => {
            let value = template.render(scope).map_err(|e| format!("`json`: {e}"))?;
            let value = value.map(|value| with_members(value, extra));
            Ok(value.as_ref().map_or((None, Vec::new()), json_bytes))
        }
        Body::Graphql(graphql) => {
            let variables = graphql.variables.as_ref().map(|variables| variables.render(scope)).transpose();
            let variables = variables.map_err(|e| format!("`graphql.variables`: {e}"))?.flatten();
            let variables = match (variables, extra) {
                (None, [_, ..]) => Some(with_members(Map::new().into(), extra)),
                (variables, _) => variables.map(|variables| with_members(variables, extra)),
            };
            Ok(json_bytes(&json!({"query": graphql.query, "variables": variables})))
        }
        Body::Form(fields) => {
            let text = encode_pairs(&query(fields, scope, &[]).map_err(|e| format!("`form`: {e}"))?);
            Ok((Some("application/x-www-form-urlencoded".to_owned()), text.into_bytes()))
        }
        Body::Multipart(fields) => multipart(fields, scope).map_err(|e| format!("`multipart`: {e}")),
    }
}

/// Returns an object with further members. Another value is left as it is.
fn with_members(mut value: Value, extra: &[(String, Value)]) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.extend(extra.iter().cloned());
    }
    value
}

/// Returns a body with a part for each field. An object or a list is a part with the type of JSON.
fn multipart(
    fields: &BTreeMap<String, JsonTemplate>,
    scope: &Scope,
) -> Result<(Option<String>, Vec<u8>), String> {
    let mut parts = Vec::new();
    for (name, template) in fields {
        if name.contains(['"', '\r', '\n']) {
            return Err(format!("`{name}` is not the name of a field"));
        }
        if let Some(value) = template.render(scope)? {
            parts.push((name, matches!(value, Value::Object(_) | Value::Array(_)), plain_text(&value)));
        }
    }
    // The boundary is one that no part contains.
    let boundary = (0_u64..)
        .map(|n| format!("taskbridge-{n}"))
        .find(|boundary| !parts.iter().any(|(_, _, text)| text.contains(boundary.as_str())))
        .unwrap_or_default();
    let mut body = String::new();
    for (name, is_json, text) in parts {
        let content_type = if is_json { "Content-Type: application/json\r\n" } else { "" };
        body.push_str(&format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n{content_type}\r\n{text}\r\n"
        ));
    }
    body.push_str(&format!("--{boundary}--\r\n"));
    Ok((Some(format!("multipart/form-data; boundary={boundary}")), body.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of a page are in the body if the request has one, before its own members.
    #[test]
    fn page_is_where_the_request_is() {
        let page = [("offset".to_owned(), Value::from(200))];
        for (fields, path, body) in [
            (json!({"query": {"offset": "0", "a": "b"}}), "/runs?a=b&offset=200", ""),
            (json!({"json": {"offset": 0, "a": "b"}}), "/runs", r#"{"a":"b","offset":200}"#),
            (
                json!({"graphql": {"query": "{ runs }"}}),
                "/runs",
                r#"{"query":"{ runs }","variables":{"offset":200}}"#,
            ),
            (
                json!({"graphql": {"query": "{ runs }", "variables": {"a": "b"}}}),
                "/runs",
                r#"{"query":"{ runs }","variables":{"a":"b","offset":200}}"#,
            ),
        ] {
            let mut fields = fields;
            fields["path"] = "/runs".into();
            let request: Request = serde_json::from_value(fields).unwrap();
            let rendered = render(&request, &BTreeMap::new(), &Scope::default(), &page).unwrap();
            assert_eq!((rendered.path.as_str(), &rendered.body[..]), (path, body.as_bytes()));
        }
    }
}
