//! The files that pages load: the style sheet, the script, and htmx with its extension for server-sent
//! events, unchanged from the npm package htmx.org 4.0.1 (`vendor/`, with its licence; a test compares the
//! digests). The names in pages contain a digest, so that browsers may keep the files. It must not serve
//! anything else.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

const FILES: [(&str, &str, &[u8]); 5] = [
    (
        "console.css",
        "text/css; charset=utf-8",
        concat!(include_str!("console.css"), include_str!("../../recorder/recorder.css")).as_bytes(),
    ),
    ("console.js", "text/javascript; charset=utf-8", include_bytes!("console.js")),
    ("htmx.min.js", "text/javascript; charset=utf-8", include_bytes!("vendor/htmx.min.js")),
    ("hx-sse.min.js", "text/javascript; charset=utf-8", include_bytes!("vendor/hx-sse.min.js")),
    ("icon.svg", "image/svg+xml", include_bytes!("icon.svg")),
];

/// The names of the files with their digests, in the order of [`FILES`].
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let name = |(name, _, bytes): &(&str, &str, &[u8])| {
        format!("{}.{name}", &data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))[..16])
    };
    FILES.iter().map(name).collect()
});

/// Returns the address of a file.
pub(super) fn address(name: &str) -> String {
    let at = FILES.iter().position(|(file, ..)| *file == name);
    format!("/console/assets/{}", at.map_or(name, |at| NAMES[at].as_str()))
}

/// Returns the file with this name, which contains its digest.
pub(super) fn serve(name: &str) -> Option<Response> {
    let (_, kind, bytes) = FILES[NAMES.iter().position(|file| file == name)?];
    let headers =
        [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    Some((headers, bytes).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of htmx are those of its package.
    #[test]
    fn vendored_files_are_unchanged() {
        for (name, sha256) in [
            ("htmx.min.js", "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130"),
            ("hx-sse.min.js", "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103"),
        ] {
            let (.., bytes) = FILES.iter().find(|(file, ..)| *file == name).unwrap();
            assert_eq!(data_encoding::HEXLOWER.encode(&Sha256::digest(bytes)), sha256, "{name}");
        }
    }

    #[test]
    fn only_listed_files_are_served() {
        let address = address("console.css");
        assert!(serve(address.strip_prefix("/console/assets/").unwrap()).is_some());
        for name in ["console.css", "", "../mod.rs", "x.console.css"] {
            assert!(serve(name).is_none(), "{name}");
        }
    }
}
