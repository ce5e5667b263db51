//! [`is_page_link`]: which addresses of an engine's pages are shown to people. It must not open any.

/// Maximum length of the address of a page, in bytes.
pub const MAX_LINK_BYTES: usize = 2048;

/// Returns true for an address that may be shown as a link: `https`, a host without credentials before it, at
/// most [`MAX_LINK_BYTES`] bytes, and only the ASCII characters of an address (RFC 3986, section 2).
pub fn is_page_link(link: &str) -> bool {
    let Some(rest) = link.strip_prefix("https://") else { return false };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_host_char = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let is_link_char = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c);
    link.len() <= MAX_LINK_BYTES
        && host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
        && host.chars().all(is_host_char)
        && rest.chars().all(is_link_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a plain `https` address is a link.
    #[test]
    fn only_https_pages_are_links() {
        for link in [
            "https://github.com/acme/api/actions/runs/4711/attempts/2",
            "https://ghe.example:8443/a?b=c&d=%20#e",
            "https://[::1]:8443/x",
            "https://airflow.example/dags/etl/grid?dag_run_id=manual__2026-07-01T00:00:00+00:00",
        ] {
            assert!(is_page_link(link), "{link}");
        }
        for link in [
            "",
            "https://",
            "https:///path",
            "http://ci.example/1",
            "javascript:alert(1)",
            "HTTPS://ci.example",
            "//ci.example/1",
            "https://user:secret@ci.example/",
            "https://ci.example@evil.example/",
            "https://ci.example/a b",
            "https://ci.example/\u{202E}gpj",
            "https://ci.example/\"onclick=\"x",
            "https://ci.example/<svg>",
            "https://ci.example\\@evil.example/",
            "https://ci.example/a\nb",
            "https://\u{435}xample.com/",
            "https://.example/",
        ] {
            assert!(!is_page_link(link), "{link}");
        }
        assert!(is_page_link(&format!("https://a.example/{}", "x".repeat(MAX_LINK_BYTES - 18))));
        assert!(!is_page_link(&format!("https://a.example/{}", "x".repeat(MAX_LINK_BYTES - 17))));
    }
}
