//! Refuses forms of other origins: by `Sec-Fetch-Site`, which browsers set and pages cannot, or by `Origin`
//! where a browser sends no such header. A request with neither is refused. It must not read the form.

use axum::http::{StatusCode, header};

use crate::console::Result;
use crate::console::request::Head;
use crate::console::respond::Refusal;

/// Checks that a POST comes from a page of the console.
pub(in crate::console) fn check(head: &Head) -> Result<()> {
    let is_same = match head.headers.get_all("sec-fetch-site").iter().collect::<Vec<_>>().as_slice() {
        [] => is_own_origin(head),
        [site] => *site == "same-origin",
        _ => false,
    };
    match is_same {
        true => Ok(()),
        false => Err(Refusal::plain(StatusCode::FORBIDDEN, "forms of other sites are refused")),
    }
}

/// Returns true if the `Origin` has the host that the request is addressed to.
fn is_own_origin(head: &Head) -> bool {
    let host = head.header(header::HOST.as_str());
    let origin = head.header(header::ORIGIN.as_str());
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    !host.is_empty() && authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    /// Only the page's own origin passes, by either header.
    #[test]
    fn foreign_forms_are_refused() {
        let check = |headers: &[(&str, &str)]| {
            let mut request = Request::builder().uri("/console/login").header("host", "localhost:8808");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            check(&Head::of(request.body(()).unwrap().into_parts().0)).is_ok()
        };
        assert!(check(&[("sec-fetch-site", "same-origin")]));
        assert!(check(&[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8808")]));
        assert!(
            check(&[("origin", "http://localhost:8808")]) && check(&[("origin", "http://LOCALHOST:8808")])
        );
        let foreign: [&[(&str, &str)]; 9] = [
            &[],
            &[("origin", "null")],
            &[("origin", "http://localhost:8809")],
            &[("origin", "http://evil.example")],
            &[("origin", "localhost:8808")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "same-site"), ("origin", "http://localhost:8808")],
            &[("sec-fetch-site", "none")],
            &[("sec-fetch-site", "same-origin"), ("sec-fetch-site", "same-origin")],
        ];
        for headers in foreign {
            assert!(!check(headers), "{headers:?}");
        }
    }
}
