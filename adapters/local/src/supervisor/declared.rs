//! Results that a job declares in files: data in `$TASKBRIDGE_OUTPUT`, content blocks in
//! `$TASKBRIDGE_CONTENT`. An invalid file is an error with a message for the author of the job.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use taskbridge_sdk::{Content, count_values};

use crate::files::{self, MAX_JSON_VALUES};

/// Maximum size of each of these files, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Returns the structured result of the job, if it declared one.
pub(super) fn structured(path: &Path) -> Result<Option<Value>, String> {
    match files::read(path, MAX_BYTES) {
        Ok(None) => Ok(None),
        Ok(Some(file)) if count_values(&file.bytes) > MAX_JSON_VALUES => Err(format!(
            "the job's $TASKBRIDGE_OUTPUT has {} JSON values, the limit is {MAX_JSON_VALUES}",
            count_values(&file.bytes)
        )),
        Ok(Some(file)) => match taskbridge_sdk::from_json(&file.bytes) {
            Ok(mut value) => {
                taskbridge_sdk::limit_depth(&mut value);
                Ok(Some(value))
            }
            Err(e) => Err(format!("the job wrote no valid JSON to $TASKBRIDGE_OUTPUT: {e}")),
        },
        Err(e) => Err(format!("the job's $TASKBRIDGE_OUTPUT cannot be read: {e}")),
    }
}

/// Returns the content blocks of the job, if it declared any.
pub(super) fn content(path: &Path) -> Result<Option<Vec<Content>>, String> {
    let invalid = |e: &dyn std::fmt::Display| {
        format!("the job wrote no valid content blocks to $TASKBRIDGE_CONTENT: {e}")
    };
    match files::read(path, MAX_BYTES) {
        Ok(None) => Ok(None),
        Ok(Some(file)) => {
            let blocks: Vec<Content> = serde_json::from_slice(&file.bytes).map_err(|e| invalid(&e))?;
            for (i, block) in blocks.iter().enumerate() {
                check(block).map_err(|e| invalid(&format!("block {i}: {e}")))?;
            }
            Ok(Some(blocks))
        }
        Err(e) => Err(invalid(&e)),
    }
}

/// Checks the rules that the type alone cannot express.
fn check(block: &Content) -> Result<(), String> {
    let base64 = |field: &str, data: &str| match BASE64.decode(data) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("`{field}` is not base64 (in one line, with its padding): {e}")),
    };
    match block {
        Content::Text { .. } | Content::ResourceLink { .. } => Ok(()),
        Content::Image { data, .. } | Content::Audio { data, .. } => base64("data", data),
        Content::Resource { resource } => match (&resource.text, &resource.blob) {
            (Some(_), None) => Ok(()),
            (None, Some(blob)) => base64("resource.blob", blob),
            _ => Err("`resource` must have either `text` or `blob`".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_content(text: &str) -> Result<Option<Vec<Content>>, String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("c"), text).unwrap();
        content(&dir.path().join("c"))
    }

    #[test]
    fn every_kind_of_block_is_understood() {
        let blocks = json!([
            {"type": "text", "text": "a"},
            {"type": "image", "data": "iVBORw==", "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "https://example.com/x", "name": "x"},
            {"type": "resource", "resource": {"uri": "x:/y", "text": "t"}},
            {"type": "resource", "resource": {"uri": "x:/y", "blob": "AAAA", "mimeType": "a/b"}},
        ]);
        assert_eq!(read_content(&blocks.to_string()).unwrap().unwrap().len(), 6);
    }

    #[test]
    fn many_small_values_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.json");
        let json_with = |objects: usize| format!("[{}0]", r#"{"":0},"#.repeat(objects));
        std::fs::write(&path, json_with(1000)).unwrap();
        assert!(structured(&path).unwrap().is_some());
        std::fs::write(&path, json_with(250_000)).unwrap();
        let error = structured(&path).unwrap_err();
        assert!(error.ends_with("$TASKBRIDGE_OUTPUT has 500002 JSON values, the limit is 500000"), "{error}");
    }

    #[test]
    fn a_wrong_block_is_named() {
        for (text, part) in [
            ("{}", "expected a sequence"),
            (r#"[{"type": "picture"}]"#, "unknown variant `picture`"),
            (
                r#"[{"type": "text", "text": ""}, {"type": "image", "data": "?", "mimeType": "a/b"}]"#,
                "block 1: `data`",
            ),
            (r#"[{"type": "resource", "resource": {"uri": "x:/y"}}]"#, "block 0: `resource` must have"),
        ] {
            let error = read_content(text).unwrap_err();
            assert!(error.contains("$TASKBRIDGE_CONTENT") && error.contains(part), "{error}");
        }
    }
}
