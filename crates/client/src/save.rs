//! Saves the content and the linked resources of a result under a folder: pictures, sounds, blobs,
//! artifacts and logs. A server's names never lead out of the folder. It must not print.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::error::ServerCallError;
use super::output::bytes_of;
use super::session::Session;
use super::wait::retry_until_reached;

/// The result of saving.
#[derive(Debug, Default)]
pub(super) struct SaveResult {
    /// The files that were written.
    pub(super) files: Vec<PathBuf>,
    /// The items that could not be saved, with the reasons.
    pub(super) problems: Vec<String>,
}

/// Saves the blocks with data and the linked resources of a result. Text blocks are not saved.
pub(super) async fn save(session: &Session, result: &Value, folder: &Path) -> SaveResult {
    let mut saved = SaveResult::default();
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    for (number, block) in blocks.enumerate() {
        let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str);
        let (name, bytes) = match (text("/type"), bytes_of(block)) {
            (Some("resource_link"), _) => {
                let uri = text("/uri").unwrap_or_default();
                let name = text("/name").unwrap_or(uri).to_owned();
                match fetch(session, uri).await {
                    Ok(bytes) => (name, bytes),
                    Err(call_error) => {
                        saved.problems.push(format!("{name} cannot be fetched: {call_error}"));
                        continue;
                    }
                }
            }
            (_, Some(bytes)) => {
                let mime_type = text("/mimeType").or_else(|| text("/resource/mimeType")).unwrap_or_default();
                let uri_name = text("/resource/uri").and_then(|uri| uri.rsplit('/').next());
                let file_name = uri_name.filter(|name| !name.is_empty()).map(str::to_owned);
                (file_name.unwrap_or_else(|| format!("{}.{}", number + 1, extension_for(mime_type))), bytes)
            }
            (_, None) => continue,
        };
        match write(folder, &name, &saved.files, &bytes) {
            Ok(file) => saved.files.push(file),
            Err(error) => saved.problems.push(format!("{name} cannot be saved: {error}")),
        }
    }
    saved
}

/// Reads a whole resource with `resources/read`.
async fn fetch(session: &Session, uri: &str) -> Result<Vec<u8>, ServerCallError> {
    let response = retry_until_reached(
        async || session.request_with_timeout("resources/read", json!({ "uri": uri })).await,
        |_| {},
    )
    .await?;
    let contents = response.get("contents").and_then(Value::as_array).into_iter().flatten();
    let mut bytes = Vec::new();
    for content in contents {
        if let Some(text) = content.get("text").and_then(Value::as_str) {
            bytes.extend_from_slice(text.as_bytes());
        } else if let Some(blob) = content.get("blob").and_then(Value::as_str) {
            let blob = STANDARD.decode(blob);
            bytes.extend(
                blob.map_err(|_| ServerCallError::InvalidResponse("content is not base64".to_owned()))?,
            );
        }
    }
    Ok(bytes)
}

/// Writes a file under the folder atomically. An older file of the same name is replaced; a link of that
/// name is not followed.
fn write(folder: &Path, name: &str, existing: &[PathBuf], bytes: &[u8]) -> io::Result<PathBuf> {
    let relative = relative_path(name);
    let mut file = folder.join(&relative);
    for number in 2.. {
        if !existing.contains(&file) {
            break;
        }
        file = folder.join(&relative).with_file_name(numbered_name(&relative, number));
    }
    let is_link = |path: &Path| folder.join(path).is_symlink();
    if relative.ancestors().skip(1).any(|path| !path.as_os_str().is_empty() && is_link(path)) {
        return Err(io::Error::other("a symbolic link in the folder may lead out of it"));
    }
    let parent = file.parent().unwrap_or(folder);
    fs::create_dir_all(parent)?;
    let temp_file = parent.join(format!(".taskbridge-{}.part", std::process::id()));
    fs::write(&temp_file, bytes)?;
    fs::rename(&temp_file, &file).inspect_err(|_| {
        let _ = fs::remove_file(&temp_file);
    })?;
    Ok(file)
}

/// Converts a server's name into a path inside the folder.
fn relative_path(name: &str) -> PathBuf {
    let clean = |part: &str| part.replace(|c: char| c.is_control() || c == '\\', "_");
    let parts = Path::new(name).components().filter_map(|part| match part {
        Component::Normal(part) => part.to_str().map(clean),
        _ => None,
    });
    let relative: PathBuf = parts.collect();
    if relative.as_os_str().is_empty() { PathBuf::from("unnamed") } else { relative }
}

fn numbered_name(name: &Path, number: usize) -> String {
    let text =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).unwrap_or_default().to_owned();
    match name.extension() {
        Some(extension) => format!("{}-{number}.{}", text(name.file_stem()), text(Some(extension))),
        None => format!("{}-{number}", text(name.file_name())),
    }
}

/// Returns the file name extension for a media type.
fn extension_for(mime_type: &str) -> String {
    let essence = mime_type.split(';').next().unwrap_or_default().trim();
    let subtype = essence.rsplit('/').next().unwrap_or_default();
    match subtype {
        "jpeg" => "jpg".to_owned(),
        "svg+xml" => "svg".to_owned(),
        "mpeg" => "mp3".to_owned(),
        "plain" => "txt".to_owned(),
        other if !other.is_empty() && other.chars().all(|c| c.is_ascii_alphanumeric()) => other.to_owned(),
        _ => "bin".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Absolute names and parent folders are reduced to a path below the folder.
    #[test]
    fn saved_name_stays_in_folder() {
        for (name, expected) in [
            ("a.txt", "a.txt"),
            ("reports/a.txt", "reports/a.txt"),
            ("../../etc/passwd", "etc/passwd"),
            ("/etc/passwd", "etc/passwd"),
            ("..", "unnamed"),
            ("a\\b\n", "a_b_"),
        ] {
            assert_eq!(relative_path(name), Path::new(expected), "{name}");
        }
    }

    /// A file never overwrites one of the same call, and a link is replaced and not followed.
    #[test]
    fn save_writes_whole_files_only() {
        let temp_dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (temp_dir.path().join("in"), temp_dir.path().join("out"));
        fs::create_dir_all(&outside).unwrap();
        let first = write(&folder, "a.txt", &[], b"one").unwrap();
        let second = write(&folder, "a.txt", std::slice::from_ref(&first), b"two").unwrap();
        assert_eq!(second, folder.join("a-2.txt"));
        std::os::unix::fs::symlink(outside.join("x"), folder.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("dir")).unwrap();
        write(&folder, "link", &[], b"three").unwrap();
        assert!(fs::read_dir(&outside).unwrap().next().is_none());
        assert!(write(&folder, "dir/x", &[], b"four").unwrap_err().to_string().contains("may lead out"));
        assert_eq!(fs::read(folder.join("a.txt")).unwrap(), b"one");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
    }
}
