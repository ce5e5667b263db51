//! Checks file arguments: the content or URI that a client may pass instead of a path. A client must never
//! reach a file outside the folders that the config allows, nor learn whether one exists there.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use taskbridge_sdk::SourceFile;

use super::sealed::{Content, FileArgument};

/// The config of one file parameter.
#[derive(Clone, Debug)]
pub struct FileRule {
    /// The folders that a `file:` URI may point into, as absolute paths. If empty, only content is
    /// accepted.
    pub roots: Vec<PathBuf>,
    /// Maximum size of a file, in bytes.
    pub max_bytes: u64,
}

impl FileRule {
    /// Returns the schema of the parameter as clients see it.
    pub fn client_schema(&self) -> Map<String, Value> {
        let content = json!({
            "type": "object",
            "properties": {
                "content": {"type": "string", "description": "The file's content."},
                "encoding": {
                    "enum": ["text", "base64"], "default": "text", "description": "The encoding of `content`.",
                },
                "name": {"type": "string", "description": "A plain file name."},
            },
            "required": ["content"],
            "additionalProperties": false,
        });
        let uri = json!({
            "type": "object",
            "properties": {
                "uri": {"type": "string", "format": "uri", "pattern": "^file:", "description": "A file on the server."},
            },
            "required": ["uri"],
            "additionalProperties": false,
        });
        let form =
            if self.roots.is_empty() { content } else { json!({"type": "object", "oneOf": [content, uri]}) };
        match form {
            Value::Object(members) => members,
            _ => unreachable!("both forms are objects"),
        }
    }

    /// Checks one file argument.
    ///
    /// # Errors
    /// If the argument is invalid; the text is for the caller.
    pub(super) fn parse(&self, parameter: &str, value: &Value) -> Result<FileArgument, String> {
        let invalid = |text: String| format!("`{parameter}`: {text}");
        let members = value.as_object().ok_or_else(|| invalid(self.expected()))?;
        let text = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(invalid(format!("`{name}` must be a string"))),
        };
        if let Some(unknown) =
            members.keys().find(|key| !["content", "encoding", "name", "uri"].contains(&key.as_str()))
        {
            return Err(invalid(format!("`{unknown}` is unknown; {}", self.expected())));
        }
        match (text("content")?, text("uri")?) {
            (Some(content), None) => {
                let bytes = self.decode(content, text("encoding")?).map_err(invalid)?;
                let name = match text("name")? {
                    Some(name) => check_file_name(name).map_err(invalid)?,
                    None => parameter.to_owned(),
                };
                let content = Content::inline(&bytes);
                Ok(FileArgument { parameter: parameter.to_owned(), name, content, max_bytes: None })
            }
            (None, Some(uri)) if members.len() == 1 => {
                let (path, name) = self.resolve(uri).map_err(invalid)?;
                let (content, max_bytes) = (Content::Path(path), Some(self.max_bytes));
                Ok(FileArgument { parameter: parameter.to_owned(), name, content, max_bytes })
            }
            _ => Err(invalid(self.expected())),
        }
    }

    fn expected(&self) -> String {
        let content = r#"{"content": "..", "encoding": "text" or "base64", "name": ".."}"#;
        if self.roots.is_empty() {
            format!("expected {content}")
        } else {
            format!(r#"expected {content} or {{"uri": "file:///.."}}"#)
        }
    }

    fn decode(&self, content: &str, encoding: Option<&str>) -> Result<Vec<u8>, String> {
        let bytes = match encoding.unwrap_or("text") {
            "text" => content.as_bytes().to_vec(),
            "base64" => STANDARD
                .decode(content.as_bytes())
                .map_err(|_| "`content` is not base64 (standard alphabet, padded)".to_owned())?,
            other => return Err(format!("`encoding` = \"{other}\": must be \"text\" or \"base64\"")),
        };
        self.check_size(bytes.len() as u64)?;
        Ok(bytes)
    }

    fn check_size(&self, size: u64) -> Result<(), String> {
        if size <= self.max_bytes {
            return Ok(());
        }
        Err(format!("the file has {size} bytes, the limit is {} (rule `max_bytes`)", self.max_bytes))
    }

    /// Resolves a URI to the real path of its file and the file's name.
    fn resolve(&self, uri: &str) -> Result<(PathBuf, String), String> {
        // The same error for a file outside the folders and for a missing one, so that clients cannot probe
        // for files.
        let not_allowed = || format!("{uri} is not a file under a folder that this parameter allows");
        if self.roots.is_empty() {
            return Err(self.expected());
        }
        let path = parse_file_uri(uri)?;
        let real = std::fs::canonicalize(&path).map_err(|_| not_allowed())?;
        let is_inside = |root: &PathBuf| std::fs::canonicalize(root).is_ok_and(|root| real.starts_with(root));
        if !self.roots.iter().any(is_inside) {
            return Err(not_allowed());
        }
        // Opened, so that the size of a file that was replaced by a link in the meantime is not disclosed.
        // The job's input is opened later.
        let file = SourceFile::new(&real, u64::MAX).open().map_err(|_| not_allowed())?;
        self.check_size(file.size())?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(not_allowed)?;
        Ok((real.clone(), check_file_name(name)?))
    }
}

/// Returns the path that a `file:` URI names on this machine (RFC 8089).
fn parse_file_uri(uri: &str) -> Result<PathBuf, String> {
    let invalid = || format!("{uri} is not a URI of a local file: write file:///absolute/path");
    let rest = uri.strip_prefix("file://").ok_or_else(invalid)?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err(invalid());
    }
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8().map_err(|_| invalid())?;
    if decoded.contains('\0') {
        return Err(invalid());
    }
    Ok(Path::new(decoded.as_ref()).to_path_buf())
}

/// Checks that a name is a plain file name, which cannot leave its folder.
fn check_file_name(name: &str) -> Result<String, String> {
    let is_valid = !name.is_empty()
        && name.len() <= 255
        && !matches!(name, "." | "..")
        && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control());
    if is_valid {
        return Ok(name.to_owned());
    }
    Err("`name` must be a plain file name: no `/`, no `\\`, no control characters, at most 255 bytes"
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestFolders {
        _folder: tempfile::TempDir,
        root: PathBuf,
        outside: PathBuf,
    }

    fn test_folders() -> TestFolders {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (root, outside) = (base.join("in"), base.join("out"));
        for dir in [&root, &outside] {
            std::fs::create_dir(dir).unwrap();
            std::fs::write(dir.join("a file.txt"), "12345").unwrap();
        }
        std::os::unix::fs::symlink(outside.join("a file.txt"), root.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("dir")).unwrap();
        TestFolders { _folder: folder, root, outside }
    }

    fn parse(rule: &FileRule, value: Value) -> Result<FileArgument, String> {
        rule.parse("doc", &value)
    }

    /// A file argument without a name gets the name of its parameter.
    #[test]
    fn file_content_is_text_or_base64() {
        let rule = FileRule { roots: vec![], max_bytes: 5 };
        let file = parse(&rule, json!({"content": "héy", "name": "a.txt"})).unwrap();
        assert_eq!((file.name.as_str(), file.content), ("a.txt", Content::inline("héy".as_bytes())));
        let file = parse(&rule, json!({"content": "AAEC", "encoding": "base64"})).unwrap();
        assert_eq!((file.name.as_str(), file.content), ("doc", Content::inline(&[0, 1, 2])));
    }

    /// The error names the parameter and what is wrong with it.
    #[test]
    fn invalid_file_argument_is_refused() {
        let rule = FileRule { roots: vec![], max_bytes: 5 };
        for (value, part) in [
            (json!("x"), "expected {\"content\""),
            (json!({}), "expected {\"content\""),
            (json!({"content": "x", "uri": "file:///x"}), "expected {\"content\""),
            (json!({"content": 1}), "`content` must be a string"),
            (json!({"content": "x", "path": "/x"}), "`path` is unknown"),
            (json!({"content": "123456"}), "6 bytes, the limit is 5"),
            (json!({"content": "?", "encoding": "base64"}), "not base64"),
            (json!({"content": "", "encoding": "utf-16"}), "\"text\" or \"base64\""),
            (json!({"content": "", "name": "../x"}), "plain file name"),
            (json!({"content": "", "name": ".."}), "plain file name"),
            (json!({"content": "", "name": "a\nb"}), "plain file name"),
            (json!({"uri": "file:///etc/passwd"}), "expected {\"content\""),
        ] {
            let text = parse(&rule, value.clone()).unwrap_err();
            assert!(text.starts_with("`doc`: ") && text.contains(part), "{value}: {text}");
        }
    }

    /// Links, parent folders and other schemes do not reach files outside the roots.
    #[test]
    fn file_uri_stays_below_roots() {
        let folders = test_folders();
        let rule = FileRule { roots: vec![folders.root.clone()], max_bytes: 5 };
        let uri = |path: &Path| format!("file://{}", path.display()).replace(' ', "%20");
        let file = parse(&rule, json!({"uri": uri(&folders.root.join("a file.txt"))})).unwrap();
        assert_eq!(file.content, Content::Path(folders.root.join("a file.txt")));
        assert_eq!(file.name, "a file.txt");

        let missing = folders.outside.join("none");
        for path in [
            &folders.outside.join("a file.txt"),
            &missing,
            &folders.root.join("../out/a file.txt"),
            &folders.root.join("link"),
            &folders.root.join("dir/a file.txt"),
            &folders.root,
            &folders.root.join("none"),
            Path::new("/dev/null"),
        ] {
            let text = parse(&rule, json!({"uri": uri(path)})).unwrap_err();
            assert!(text.ends_with("is not a file under a folder that this parameter allows"), "{text}");
        }
        let escaped = format!("file://{}/%2e%2e/out/a%20file.txt", folders.root.display());
        assert!(parse(&rule, json!({"uri": escaped})).unwrap_err().contains("is not a file under"));
        for uri in
            ["http://example.com/x", "file:relative", "file://host/x", "file:///x?y", "file:///%00", "/etc"]
        {
            let text = parse(&rule, json!({"uri": uri})).unwrap_err();
            assert!(text.contains("is not a URI of a local file"), "{text}");
        }
        std::fs::write(folders.root.join("big"), "123456").unwrap();
        assert!(
            parse(&rule, json!({"uri": uri(&folders.root.join("big"))})).unwrap_err().contains("6 bytes")
        );
    }
}
