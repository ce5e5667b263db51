//! The sign-in page, and its forms: a printed address, an API key that is typed once, a client certificate.
//! A GET shows, a POST signs in. Attempts are limited per address. It must not keep a key.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use maud::html;
use serde_json::json;
use zeroize::Zeroizing;

use super::{Session, issuer, sign_out};
use crate::audit::RequestContext;
use crate::audit::record::Kind;
use crate::auth::{Principal, SignIn, SignInMethods, Unauthorized};
use crate::console::html::layout;
use crate::console::request::{Fields, Head, read_unauthenticated_form};
use crate::console::respond::{self, Refusal};
use crate::console::{BASE, Console, Result};
use crate::limits::caller_key::CallerKey;

/// Maximum number of sign-ins of one address in a minute.
const MAX_SIGN_INS: u32 = 30;

/// Returns the sign-in page. The query has what it was opened with; after a refused form, that form has.
pub(in crate::console) fn page(console: &Console, opened_with: &Fields, problem: Option<&str>) -> Response {
    let methods = console.parts.access_control.rules().auth.sign_in_methods();
    let next = next_page(opened_with.get("next"));
    let once = opened_with.text("once").filter(|_| problem.is_none()).filter(|_| methods.printed_address);
    let action = "/console/login";
    let body = html! {
        h1 { "Sign in" }
        @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
        @if let Some(once) = once {
            form method="post" action=(action) {
                input type="hidden" name="once" value=(once);
                input type="hidden" name="next" value=(next);
                p { "This address signs in one browser, once." }
                button.primary type="submit" { "Sign in on this browser" }
            }
        } @else if methods.printed_address {
            p { "Open the address that the server printed when it started. It works once; the server prints the "
                "next one then." }
        }
        @for issuer in &methods.issuers {
            p { a.button.primary href=(issuer::address(issuer, &next)) { "Sign in at " (issuer::display_name(issuer)) } }
        }
        @if methods.key {
            form method="post" action=(action) {
                input type="hidden" name="next" value=(next);
                label for="key" { "API key" }
                input #key type="password" name="key" required autocomplete="off" spellcheck="false";
                p.hint { "It is exchanged for a session of this browser, and not kept." }
                button.primary type="submit" { "Sign in" }
            }
        }
        @if methods == SignInMethods::default() {
            p.note { "No way to sign in is configured. Add API keys, client certificates or " code { "sign_in" } " of an issuer to " code { "[auth]" } "." }
        }
        @if methods.certificate {
            form method="post" action=(action) {
                input type="hidden" name="certificate" value="yes";
                input type="hidden" name="next" value=(next);
                button type="submit" { "Sign in with the certificate of this browser" }
            }
        }
    };
    let status = if problem.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
    respond::html(status, &layout::bare("Sign in", &body))
}

/// Answers a request of nobody: a page leads to the sign-in, and a form is refused.
pub(in crate::console) fn redirect(head: &Head, is_post: bool) -> Result<Response> {
    if is_post || head.query.get("live").is_some() {
        let message = "you are not signed in, or your session has ended: open /console/login";
        return Err(Refusal::plain(StatusCode::UNAUTHORIZED, message));
    }
    // A strict cookie is not sent with a link of another site. The page loads itself again, as its own link.
    if matches!(head.header("sec-fetch-site"), "cross-site" | "same-site")
        && !head.headers.contains_key(header::COOKIE)
    {
        return Ok(respond::html(StatusCode::OK, &layout::reload(&head.address())));
    }
    let next = Fields::default().address("/console/login", &[("next", Some(&head.address()))]);
    Ok(respond::redirect(&next))
}

/// Signs in.
pub(in crate::console) async fn post(console: &Arc<Console>, head: &Head, body: Body) -> Result<Response> {
    limit_rate(console, head)?;
    let form = read_unauthenticated_form(console, head, body).await?;
    match credential(console, head, &form) {
        Ok(sign_in) => {
            let cookie = begin(console, head, sign_in).await?;
            Ok(respond::set_cookie(respond::redirect(&next_page(form.get("next"))), cookie))
        }
        Err(error) => {
            record_failure(console, head, &error);
            Ok(page(console, &form, Some(&explain(&error))))
        }
    }
}

/// Refuses too many attempts from one address.
pub(super) fn limit_rate(console: &Console, head: &Head) -> Result<()> {
    let client_address = head.peer.address.map(|address| address.ip());
    let stranger = Principal { client_address, ..Principal::anonymous() };
    if console.sign_in_rate.take(CallerKey::of(&stranger), MAX_SIGN_INS, Instant::now()).is_err() {
        console.parts.bridge.context.audit.limit_exceeded("sign-ins");
        return Err(Refusal::plain(StatusCode::TOO_MANY_REQUESTS, "too many sign-ins: wait a minute"));
    }
    Ok(())
}

/// Records a failed attempt in the audit log.
pub(super) fn record_failure(console: &Console, head: &Head, error: &dyn std::fmt::Display) {
    let address = head.peer.address.map(|address| address.ip());
    console.parts.bridge.context.audit.auth_failed(address, &format!("console: {error}"));
}

/// Begins a session of this credential, and returns its cookie.
pub(super) async fn begin(console: &Arc<Console>, head: &Head, sign_in: SignIn) -> Result<HeaderValue> {
    let how = match &sign_in {
        SignIn::Issuer { .. } => "issuer",
        SignIn::SingleUser => "printed address",
        SignIn::Key(_) => "API key",
        SignIn::Certificate(_) => "client certificate",
    };
    let principal = console.parts.access_control.rules().signed_in(&sign_in, &head.peer);
    let principal = principal.map_err(|error| Refusal::plain(StatusCode::FORBIDDEN, explain(&error)))?;
    // A sign-out everywhere in this very millisecond would end the new session, too.
    let ended_at = sign_out::everywhere_at(console, &principal.owner).await?;
    let issued =
        ended_at.map_or(console.now(), |at| console.now().max(at + std::time::Duration::from_millis(1)));
    let session = Session::new(console, sign_in, principal.owner.clone(), issued);
    let cookie = session.cookie(console, head)?;
    let audit = &console.parts.bridge.context.audit;
    let context = Arc::new(RequestContext::of_console(&principal, "login"));
    context.sync_scope(|| audit.server_event(Kind::ConsoleSignedIn, "ok", json!({"how": how})));
    audit.flush_request(&context).await?;
    if how == "printed address" {
        console.print_address();
    }
    Ok(cookie)
}

/// Returns the credential that a form presents.
fn credential(console: &Console, head: &Head, form: &Fields) -> std::result::Result<SignIn, Unauthorized> {
    let rules = console.parts.access_control.rules();
    let methods = rules.auth.sign_in_methods();
    if let Some(once) = form.text("once") {
        let entropy = &console.parts.bridge.context.entropy;
        return match methods.printed_address && console.one_time.take(once, entropy) {
            true => Ok(SignIn::SingleUser),
            false => Err(Unauthorized::Missing),
        };
    }
    if let Some(key) = form.text("key") {
        let key = Zeroizing::new(key.to_owned());
        return rules.auth.sign_in_with_key(&key);
    }
    rules.auth.sign_in_with_certificate(&rules.trusted_peer(&head.peer))
}

fn explain(error: &Unauthorized) -> String {
    match error {
        Unauthorized::Missing => {
            "The address was used before, or is of an earlier start: open the one that the server printed last."
                .to_owned()
        }
        Unauthorized::NoCertificate => "The browser presented no certificate.".to_owned(),
        error => format!("Not signed in: {error}."),
    }
}

/// Returns the page to go on to: one of the console, whatever was asked for.
pub(in crate::console) fn next_page(asked: Option<&str>) -> String {
    let is_ours = |next: &&str| {
        let rest = next.strip_prefix(BASE);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
            && !next.contains(['\\', '#'])
            && !next.contains("/.")
            && next.bytes().all(|byte| byte.is_ascii_graphic())
            && !next.starts_with("/console/login")
            && next.len() <= 2_000
    };
    asked.filter(is_ours).unwrap_or(BASE).to_owned()
}

/// Returns the response that removes the cookie and leads to the sign-in.
pub(super) fn signed_out(cookie: HeaderValue) -> Response {
    respond::set_cookie(respond::redirect("/console/login"), cookie).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sign-in never leads to another site.
    #[test]
    fn next_page_stays_in_console() {
        for ours in ["/console", "/console/tasks?state=failed", "/console/tasks/abc"] {
            assert_eq!(next_page(Some(ours)), ours);
        }
        for other in [
            "",
            "/",
            "//evil.example",
            "/consolex",
            "https://evil.example",
            "/console\\@evil",
            "/mcp",
            "/console/\r\nSet-Cookie: a=b",
            "/console/login?next=x",
            "/console/#x",
            "/console/../../evil",
        ] {
            assert_eq!(next_page(Some(other)), BASE, "{other}");
        }
    }
}
