//! [`Pattern`]: a resource address with parameters, such as `runbook://{service}`. It supports the simple
//! expressions of RFC 6570, and each expression matches one part of an address. It must not know which
//! resource is at an address.

use std::collections::BTreeMap;

use fluent_uri::Uri;
use percent_encoding::percent_decode_str;

/// A resource address with parameters.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    /// The literal text before each parameter, and the parameter's name.
    parameters: Vec<(String, String)>,
    /// The literal text after the last parameter.
    suffix: String,
}

/// Checks that an address is a URI (RFC 3986).
///
/// # Errors
/// If it is not a URI; the text explains why.
pub fn check(uri: &str) -> Result<(), String> {
    match Uri::parse(uri) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "\"{uri}\" is not a URI: write one such as \"runbook://deploy\", and percent-encode special \
             characters"
        )),
    }
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If the pattern is invalid; the text explains why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parameters, mut rest) = (Vec::<(String, String)>::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err("a `{` is not closed by a `}`".to_owned());
            };
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name {
                return Err(format!(
                    "`{{{name}}}` is not a parameter: write a name of letters, digits and `_`"
                ));
            }
            if parameters.iter().any(|(_, other)| other == name) {
                return Err(format!("`{{{name}}}` occurs twice"));
            }
            if before.is_empty() {
                return Err(format!("no text before `{{{name}}}`: add some, so that its start is clear"));
            }
            parameters.push((before.to_owned(), name.to_owned()));
            rest = after;
        }
        let pattern = Self { text: text.to_owned(), parameters, suffix: rest.to_owned() };
        check(&pattern.expand("x"))?;
        Ok(pattern)
    }

    /// Returns the pattern as it was written: a URI template.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the names of its parameters, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|(_, name)| name.as_str())
    }

    /// Returns the value of each parameter in an address of this pattern; `None` if the address does not
    /// match.
    pub fn read(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let (first, _) = self.parameters.first()?;
        let mut rest = uri.strip_prefix(first.as_str())?;
        let mut values = BTreeMap::new();
        for (index, (_, name)) in self.parameters.iter().enumerate() {
            let value = match self.parameters.get(index + 1) {
                Some((next, _)) => {
                    let (value, after) = rest.split_once(next.as_str())?;
                    rest = after;
                    value
                }
                None => rest.strip_suffix(self.suffix.as_str())?,
            };
            if value.is_empty() || value.contains(['/', '?', '#']) {
                return None;
            }
            values.insert(name.clone(), percent_decode_str(value).decode_utf8().ok()?.into_owned());
        }
        Some(values)
    }

    fn expand(&self, value: &str) -> String {
        let mut text = String::new();
        for (before, _) in &self.parameters {
            text.push_str(before);
            text.push_str(value);
        }
        text + &self.suffix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pattern: &str, uri: &str) -> Option<Vec<String>> {
        let values = Pattern::parse(pattern).unwrap().read(uri)?;
        Some(values.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    /// A placeholder of a pattern matches one part of a URI, decoded.
    #[test]
    fn uri_placeholder_matches_one_segment() {
        let values = |values: &[&str]| Some(values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>());
        assert_eq!(read("test://t/{id}/data", "test://t/12%203/data"), values(&["id=12 3"]));
        assert_eq!(read("x:{a}-{b}.md", "x:one-two-three.md"), values(&["a=one", "b=two-three"]));
        assert_eq!(read("x://{a}", "x://grüße"), values(&["a=grüße"]));
        for (pattern, uri) in [
            ("test://t/{id}/data", "test://t//data"),
            ("test://t/{id}/data", "test://t/a/b/data"),
            ("test://t/{id}/data", "test://t/a/data/more"),
            ("test://t/{id}/data", "other://t/a/data"),
            ("x://{a}", "x://a?b"),
            ("x://{a}", "x://%ff"),
            ("x:{a}-{b}", "x:one"),
        ] {
            assert_eq!(read(pattern, uri), None, "{pattern} {uri}");
        }
    }

    /// The error names the part of the pattern that is wrong.
    #[test]
    fn invalid_uri_pattern_is_refused() {
        for (text, part) in [
            ("x://{a", "not closed"),
            ("x://{+a}", "`{+a}` is not a parameter"),
            ("x://{}", "is not a parameter"),
            ("x://{a}/{a}", "twice"),
            ("{a}", "before `{a}`"),
            ("x://{a}{b}", "before `{b}`"),
            ("nothing", "is not a URI"),
            ("x://a b/{c}", "is not a URI"),
        ] {
            let message = Pattern::parse(text).unwrap_err();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
