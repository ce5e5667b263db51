//! The sealed part of a call's arguments in its row: secrets, and files. Sealing also prevents forgery:
//! only a validated path is ever passed on.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use taskbridge_sdk::{Error, FileContent, InputFile, Result, SourceFile};

use crate::seal::{Purpose, Seal};
use crate::tasks::task::Spec;
use crate::tasks::tools::OpenedSpec;

/// The sealed part of a call's arguments.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct SealedArguments {
    /// The sensitive arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) arguments: Map<String, Value>,
    /// The file arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) files: Vec<FileArgument>,
}

/// One file argument.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FileArgument {
    /// See [`InputFile::parameter`].
    pub(super) parameter: String,
    /// See [`InputFile::name`].
    pub(super) name: String,
    /// Its content.
    pub(super) content: Content,
    /// Maximum number of bytes to read from a path. Rows of earlier versions have no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_bytes: Option<u64>,
}

/// The content of a file argument.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    /// Its bytes in base64.
    Inline(String),
    /// Its real path, verified to be under an allowed folder.
    Path(PathBuf),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Content::Inline(text) => write!(f, "Inline({} characters)", text.len()),
            Content::Path(path) => write!(f, "Path({})", path.display()),
        }
    }
}

impl Content {
    pub(super) fn inline(bytes: &[u8]) -> Self {
        Content::Inline(STANDARD.encode(bytes))
    }
}

impl SealedArguments {
    /// Returns the sealed form, if there is anything to seal.
    pub(super) fn seal(&self, seal: &Seal) -> Option<String> {
        let is_empty = self.arguments.is_empty() && self.files.is_empty();
        (!is_empty).then(|| seal.seal(Purpose::Arguments, self))
    }
}

/// Implements [`crate::tasks::tools::ToolCatalog::open`]. A file argument gets the file's name as its value;
/// the adapter replaces it by the path.
pub(super) fn open(spec: &Spec, seal: &Seal) -> Result<OpenedSpec> {
    let Some(text) = &spec.sealed else {
        return Ok(OpenedSpec { arguments: spec.arguments.clone(), files: Vec::new() });
    };
    let sealed: SealedArguments = seal.open(Purpose::Arguments, text).ok_or_else(|| {
        Error::config("the call's sealed arguments cannot be opened: they were sealed with a different key")
    })?;
    let mut arguments = spec.arguments.as_object().cloned().unwrap_or_default();
    arguments.extend(sealed.arguments);
    let mut files = Vec::with_capacity(sealed.files.len());
    for file in sealed.files {
        arguments.insert(file.parameter.clone(), Value::String(file.name.clone()));
        files.push(InputFile { content: file_content(&file)?, parameter: file.parameter, name: file.name });
    }
    Ok(OpenedSpec { arguments: Value::Object(arguments), files })
}

fn file_content(file: &FileArgument) -> Result<FileContent> {
    match &file.content {
        Content::Inline(text) => STANDARD
            .decode(text)
            .map(FileContent::Inline)
            .map_err(|error| Error::config("a sealed file cannot be read").caused_by(error)),
        // The adapter checks it when it opens it: a running job is found again even if its file is gone.
        Content::Path(path) => {
            Ok(FileContent::Source(SourceFile::new(path, file.max_bytes.unwrap_or(u64::MAX))))
        }
    }
}
