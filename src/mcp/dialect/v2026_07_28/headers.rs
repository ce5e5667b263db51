//! Checks the headers that repeat parts of a request, so that intermediaries can route by them (Streamable
//! HTTP, "Request Metadata"). They must agree with the body. A mismatch is refused before the request is
//! handled.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::errors::header_mismatch;
use crate::catalog::MirroredParameter;
use crate::mcp::wire::jsonrpc::{Error, Request};

/// Largest absolute value of a number that a header can repeat.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Looks up a header by its name in lower case. Returns `None` if the header is absent.
pub type Headers<'a> = &'a (dyn Fn(&str) -> Option<Vec<u8>> + Sync);

/// Checks the headers that every request has against its body. `version` is the version in the body.
pub(super) fn check(request: &Request, version: &str, headers: Headers<'_>) -> Result<(), Error> {
    check_equal("MCP-Protocol-Version", &read_plain(headers, "MCP-Protocol-Version")?, version)?;
    check_equal("Mcp-Method", &read_plain(headers, "Mcp-Method")?, &request.method)?;
    let (field, required) = match request.method.as_str() {
        "tools/call" | "prompts/get" => ("name", true),
        "resources/read" => ("uri", true),
        // The extension requires it, but one client in use does not send it.
        "tasks/get" | "tasks/update" | "tasks/cancel" => ("taskId", false),
        _ => return Ok(()),
    };
    // The handler that reads the field reports errors in it.
    let Some(body) = request.params.get(field).and_then(Value::as_str) else { return Ok(()) };
    match headers("mcp-name") {
        None if required => Err(missing("Mcp-Name")),
        None => Ok(()),
        Some(bytes) => check_equal("Mcp-Name", &decode("Mcp-Name", &bytes)?, body),
    }
}

/// Checks the headers that repeat a tool's parameters against the arguments of a call.
pub(super) fn check_parameters(
    parameters: &[MirroredParameter],
    arguments: &Value,
    headers: Headers<'_>,
) -> Result<(), Error> {
    for parameter in parameters {
        let name = format!("Mcp-Param-{}", parameter.header);
        let header = match headers(&name.to_ascii_lowercase()) {
            Some(bytes) => Some(decode(&name, &bytes)?),
            None => None,
        };
        match (parameter.value(arguments), header) {
            (None, None) => {}
            (Some(_), None) => return Err(missing(&name)),
            (None, Some(_)) => {
                return Err(header_mismatch(format!(
                    "{name} is there, and the argument that it repeats is not"
                )));
            }
            (Some(value), Some(header)) => {
                if value.is_number() && !is_safe(value) {
                    let max = MAX_SAFE_INTEGER;
                    return Err(header_mismatch(format!(
                        "{name}: a number that is repeated in a header lies between -{max} and {max}"
                    )));
                }
                if !is_same(value, &header) {
                    return Err(header_mismatch(format!("{name} is not the argument that it repeats")));
                }
            }
        }
    }
    Ok(())
}

/// Returns true for a number that every intermediary reads exactly. An intermediary that only has floating
/// point does not read larger ones exactly.
fn is_safe(value: &Value) -> bool {
    match value.as_i64() {
        Some(integer) => integer.unsigned_abs() <= MAX_SAFE_INTEGER,
        None => value.as_f64().is_some_and(|number| number.abs() <= MAX_SAFE_INTEGER as f64),
    }
}

fn is_same(value: &Value, header: &str) -> bool {
    match value {
        Value::String(text) => text == header,
        Value::Bool(flag) => header == if *flag { "true" } else { "false" },
        // 42 and 42.0 are equal. Whole numbers are compared as such, because large ones coincide as floating
        // point.
        Value::Number(number) => match header.parse::<i64>() {
            Ok(header) => number.as_i64() == Some(header),
            Err(_) => header.parse::<f64>().is_ok_and(|header| number.as_f64() == Some(header)),
        },
        _ => false,
    }
}

fn read_plain(headers: Headers<'_>, name: &str) -> Result<String, Error> {
    let bytes = headers(&name.to_ascii_lowercase()).ok_or_else(|| missing(name))?;
    visible_ascii(name, &bytes).map(str::to_owned)
}

/// Decodes a value that may be written as `=?base64?...?=`.
fn decode(name: &str, bytes: &[u8]) -> Result<String, Error> {
    let text = visible_ascii(name, bytes)?;
    let Some(encoded) = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(text.to_owned());
    };
    let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.ok_or_else(|| header_mismatch(format!("{name} is not the base64 of UTF-8 that it says it is")))
}

fn visible_ascii<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Error> {
    let is_allowed = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~');
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(is_allowed) => Ok(text),
        _ => {
            Err(header_mismatch(format!("{name} holds characters that a header cannot: encode it in base64")))
        }
    }
}

/// Checks that a header equals the body. Both can be secret, so the error repeats at most 60 characters of
/// each: enough for a version or a method.
fn check_equal(name: &str, header: &str, body: &str) -> Result<(), Error> {
    if header == body {
        return Ok(());
    }
    let shorten = |text: &str| text.chars().take(60).collect::<String>();
    Err(header_mismatch(format!("{name} is {:?}, and the body says {:?}", shorten(header), shorten(body))))
}

fn missing(name: &str) -> Error {
    header_mismatch(format!("the header {name} is missing"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;
    use crate::catalog::mirrored;
    use crate::mcp::dialect::v2026_07_28::errors::HEADER_MISMATCH;
    use crate::mcp::wire::jsonrpc::Id;

    fn check_headers(pairs: &[(&str, &str)], method: &str, params: Value) -> Result<(), Error> {
        let map: HashMap<&str, &str> = pairs.iter().copied().collect();
        let headers = |name: &str| map.get(name).map(|value| value.as_bytes().to_vec());
        let request = Request { id: Id::Integer(1), method: method.to_owned(), params };
        check(&request, "v", &headers)
    }

    #[test]
    fn headers_must_agree_with_the_body() {
        let base = [("mcp-protocol-version", "v"), ("mcp-method", "tools/call")];
        let with = |name: &'static str| [base[0], base[1], ("mcp-name", name)];
        let params = || json!({"name": "grüß", "arguments": {}});
        assert_eq!(check_headers(&with("=?base64?Z3LDvMOf?="), "tools/call", params()), Ok(()));
        for (pairs, expected) in [
            (&base[1..], "MCP-Protocol-Version is missing"),
            (&base[..1], "Mcp-Method is missing"),
            (&base[..], "Mcp-Name is missing"),
            (&with("other")[..], "Mcp-Name is \"other\""),
            (&with("=?base64?!?=")[..], "not the base64"),
            (&with("grüß")[..], "characters that a header cannot"),
            (&[("mcp-protocol-version", "w"), base[1]][..], "MCP-Protocol-Version is \"w\""),
            (&[base[0], ("mcp-method", "tools/list")][..], "Mcp-Method is \"tools/list\""),
        ] {
            let error = check_headers(pairs, "tools/call", params()).unwrap_err();
            assert_eq!(error.code, HEADER_MISMATCH);
            assert!(error.message.contains(expected), "{}", error.message);
        }
        let get = [base[0], ("mcp-method", "tasks/get")];
        assert_eq!(
            check_headers(&get, "tasks/get", json!({"taskId": "x"})),
            Ok(()),
            "one client leaves it out"
        );
        assert!(
            check_headers(&[get[0], get[1], ("mcp-name", "y")], "tasks/get", json!({"taskId": "x"})).is_err()
        );
    }

    /// A header that repeats a parameter must have its value.
    #[test]
    fn mirrored_headers_must_match_parameters() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        }});
        let parameters = mirrored(&schema).unwrap();
        let is_accepted = |pairs: &[(&str, &str)], arguments: Value| {
            let map: HashMap<&str, &str> = pairs.iter().copied().collect();
            let headers = |name: &str| map.get(name).map(|value| value.as_bytes().to_vec());
            check_parameters(&parameters, &arguments, &headers).is_ok()
        };
        let all =
            [("mcp-param-region", "=?base64?IHggw6Q=?="), ("mcp-param-n", "42.0"), ("mcp-param-dry", "true")];
        assert!(is_accepted(&all, json!({"region": " x ä", "n": 42, "dry": true})));
        assert!(is_accepted(&[], json!({"region": null})), "null and nothing have no header");
        assert!(!is_accepted(&[], json!({"region": "x"})), "what is in the body must be in a header");
        assert!(!is_accepted(&[("mcp-param-region", "y")], json!({"region": "x"})));
        assert!(!is_accepted(&[("mcp-param-region", "x")], json!({})));
        assert!(!is_accepted(&[("mcp-param-n", "43")], json!({"n": 42})));
        let (max, too_large) = ("9007199254740991", "9007199254740992");
        assert!(is_accepted(&[("mcp-param-n", max)], json!({"n": 9_007_199_254_740_991_i64})));
        assert!(is_accepted(
            &[("mcp-param-n", &format!("-{max}"))],
            json!({"n": -9_007_199_254_740_991_i64})
        ));
        assert!(!is_accepted(
            &[("mcp-param-n", "9007199254740990")],
            json!({"n": 9_007_199_254_740_991_i64})
        ));
        for value in [json!(9_007_199_254_740_992_i64), json!(9_007_199_254_740_992.0), json!(u64::MAX)] {
            assert!(!is_accepted(&[("mcp-param-n", too_large)], json!({ "n": value })));
        }
        assert!(!is_accepted(&[("mcp-param-dry", "True")], json!({"dry": true})));
    }
}
