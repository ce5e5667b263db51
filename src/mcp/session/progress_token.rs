//! The progress token of a task: what this front end keeps in the origin of a task, which the core does not
//! read. It must not know a generation's wire types.

use serde_json::{Map, Value};

use crate::tasks::task::Origin;

/// The name under which the token is stored.
const NAME: &str = "progress_token";

/// Returns the data of the front end for a task whose progress is reported under this token, if any: a string
/// or an integer.
pub fn encode(token: Option<Value>) -> Map<String, Value> {
    token.map(|token| (NAME.to_owned(), token)).into_iter().collect()
}

/// Returns the token under which progress of a task is reported.
pub fn of(origin: &Origin) -> Option<&Value> {
    origin.front_end.get(NAME).filter(|token| !token.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Rows of earlier versions have the same form.
    #[test]
    fn origin_keeps_stored_form() {
        let stored = r#"{"session":"s","progress_token":7,"trace":{"parent":"p"}}"#;
        let origin: Origin = serde_json::from_str(stored).unwrap();
        assert_eq!((origin.channel.as_deref(), of(&origin)), (Some("s"), Some(&json!(7))));
        assert_eq!(origin.front_end, encode(Some(json!(7))));
        assert_eq!(serde_json::to_string(&origin).unwrap(), stored);
        assert_eq!(serde_json::to_string(&Origin::default()).unwrap(), "{}");
        assert_eq!(of(&serde_json::from_str(r#"{"progress_token":null}"#).unwrap()), None);
    }
}
