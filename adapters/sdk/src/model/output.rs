//! [`Output`]: the result of a job. Plain data in the shapes of MCP content blocks, which both generations
//! share (`ContentBlock` in the 2025-11-25 schema).

use std::io::Read;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, Result, excerpt, media_type};

/// The complete result of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Content blocks to show, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Result as data: any JSON value. The server wraps a value that is not an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Indexes of the blocks of `content` that are raw text which the job printed. They may be shown
    /// shortened if the full text can be read from the backend's `Logs`. What the job wrote as its result is
    /// not raw.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw: Vec<usize>,
    /// Files that the job left, readable through the backend's `Artifacts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Number of bytes of the job's files that the backend keeps on the server's own disks until the task
    /// expires. They count towards `limits.owner.max_bytes`. 0 for an engine that keeps its files itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Output {
    /// Creates an output with one block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// Adds a block of raw text that the job printed.
    pub fn push_raw(&mut self, text: impl Into<String>) {
        self.raw.push(self.content.len());
        self.content.push(Content::text(text));
    }

    /// Shortens raw text to `max_bytes` in total, if the line that replaces the omitted part of a block fits
    /// (see [`excerpt()`]). `full_text_hint` describes where to read the rest. Every other block stays
    /// unchanged.
    pub fn shorten_raw(&mut self, max_bytes: usize, full_text_hint: &str) {
        let (mut remaining, mut full_text_hint) = (max_bytes, full_text_hint);
        for (nth, at) in self.raw.iter().enumerate() {
            let Some(Content::Text { text }) = self.content.get_mut(*at) else { continue };
            // A block that needs less than its share leaves the rest to the blocks after it.
            if let Some(short) = excerpt(text, remaining / (self.raw.len() - nth), full_text_hint) {
                *text = short;
                // Only the first shortened block describes where to read the rest.
                full_text_hint = "they are in the same log";
            }
            remaining = remaining.saturating_sub(text.len());
        }
    }
}

/// One content block to show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Its bytes in base64.
        data: String,
        /// Its media type, such as `image/png`.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// Audio.
    Audio {
        /// Its bytes in base64.
        data: String,
        /// Its media type, such as `audio/wav`.
        #[serde(rename = "mimeType")]
        mime_type: String,
    },
    /// A link to a resource.
    ResourceLink {
        /// Address of the resource.
        uri: String,
        /// Short name.
        name: String,
        /// Description for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Its media type.
        #[serde(default, rename = "mimeType", skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Its size in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// A resource that is embedded in the output.
    Resource {
        /// The resource.
        resource: Embedded,
    },
}

impl Content {
    /// Creates a block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text { text: text.into() }
    }
}

/// An embedded resource. Exactly one of `text` and `blob` is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Embedded {
    /// Address of the resource.
    pub uri: String,
    /// Its media type.
    #[serde(default, rename = "mimeType", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// A file that a job left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// Relative path with `/` between its parts and without `..`; unique within the job.
    pub name: String,
    /// Its media type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its size in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Content of an artifact, read completely.
#[derive(Clone, Debug, PartialEq)]
pub struct ArtifactData {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Their media type, if known.
    pub mime_type: Option<String>,
}

impl ArtifactData {
    /// Reads a file completely. `size` is its expected size, for the error message. The media type comes from
    /// the name.
    ///
    /// # Errors
    /// Returns `Rejected` with the size if the file has more than `max_bytes` bytes, and `Unavailable` if it
    /// cannot be read.
    pub fn read(name: &str, file: impl Read, size: u64, max_bytes: u64) -> Result<Self> {
        let mut bytes = Vec::new();
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|e| Error::unavailable(format!("the artifact `{name}` cannot be read")).caused_by(e))?;
        let bytes_read = bytes.len() as u64;
        if bytes_read > max_bytes {
            let size = size.max(bytes_read);
            return Err(Error::rejected(format!(
                "the artifact `{name}` has {size} bytes, and at most {max_bytes} can be read at once"
            )));
        }
        Ok(Self { bytes, mime_type: media_type(name).map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn only_raw_text_is_shortened() {
        let long = "x".repeat(1000);
        let mut output = Output::text(long.clone());
        output.push_raw("short");
        output.push_raw(long.clone());
        output.shorten_raw(300, "see the log");
        let lengths = output.content.iter().map(|block| match block {
            Content::Text { text } => text.len(),
            _ => 0,
        });
        let lengths: Vec<_> = lengths.collect();
        assert_eq!(lengths[..2], [1000, 5]);
        assert!((200..=295).contains(&lengths[2]), "{lengths:?}");
    }

    #[test]
    fn log_hint_is_given_once() {
        let mut output = Output::default();
        (0..2).for_each(|_| output.push_raw("x".repeat(1000)));
        output.shorten_raw(600, "see the log");
        let text = |at: usize| match &output.content[at] {
            Content::Text { text } => text.as_str(),
            other => panic!("{other:?}"),
        };
        assert!(text(0).contains("see the log") && !text(1).contains("see the log"), "{output:?}");
        assert!(text(1).contains(" bytes left out; they are in the same log ...]"), "{output:?}");
    }

    /// An artifact is read as a whole or refused with its size.
    #[test]
    fn oversized_artifact_error_states_size() {
        let read = |max| ArtifactData::read("x.txt", &b"0123456789"[..], 10, max);
        let data = ArtifactData { bytes: b"0123456789".to_vec(), mime_type: Some("text/plain".to_owned()) };
        assert_eq!(read(10).unwrap(), data);
        assert_eq!(read(u64::MAX).unwrap(), data);
        let error = read(8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert_eq!(error.to_string(), "the artifact `x.txt` has 10 bytes, and at most 8 can be read at once");
    }
}
