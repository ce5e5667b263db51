//! Media types of common file extensions, and which media types are text. Uncommon types are left to the
//! caller.

/// Returns the media type for a file name, by its extension. Returns `None` if the extension is not in the
/// list.
pub fn media_type(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        "xml" => "application/xml",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        _ => return None,
    })
}

/// Returns true if content of this media type should be shown as text.
pub fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.starts_with("text/")
        || essence.ends_with("+json")
        || essence.ends_with("+xml")
        || ["application/json", "application/xml", "application/yaml", "application/toml"].contains(&essence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_media_types_are_recognized() {
        for text in ["text/plain; charset=utf-8", "application/json", "image/svg+xml"] {
            assert!(is_text(text), "{text}");
        }
        for bytes in ["image/png", "application/octet-stream", "application/gzip"] {
            assert!(!is_text(bytes), "{bytes}");
        }
        assert_eq!(
            (media_type("a.b.MD"), media_type("md"), media_type("a.x")),
            (Some("text/markdown"), None, None)
        );
    }
}
