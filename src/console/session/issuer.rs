//! Sign-in at an issuer: one address sends the browser there, and the issuer sends it back to the other. What
//! the browser must remember in between is in a sealed cookie. Neither step takes a form, since a form may lead
//! to this origin only. It must not keep a token.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use taskbridge_sdk::Timestamp;

use super::cookie::Cookie;
use super::sign_in::{self, next_page};
use crate::auth::oauth::{CodeFlowError, PendingSignIn, Returned};
use crate::console::html::layout;
use crate::console::request::{Fields, Head};
use crate::console::respond::{self, Refusal};
use crate::console::{Console, Result};
use crate::seal::Purpose;

/// How long a person may take at the issuer.
const LASTS: Duration = Duration::from_secs(10 * 60);
const START: &str = "/console/login/start";
const CALLBACK: &str = "/console/login/callback";

/// A step of the sign-in.
#[derive(Clone, Copy)]
pub(in crate::console) enum Step {
    /// The browser leaves for the issuer.
    Start,
    /// The browser comes back.
    Callback,
}

impl Step {
    /// Returns the step of this request, if it is one.
    pub(in crate::console) fn parse(head: &Head) -> Option<Self> {
        match head.path.as_str() {
            START => Some(Self::Start),
            CALLBACK => Some(Self::Callback),
            _ => None,
        }
    }
}

/// What the browser keeps while its person is at the issuer.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    pending: PendingSignIn,
    /// The page to go on to.
    next: String,
    /// When it began.
    began: Timestamp,
}

/// Returns the address that begins a sign-in at this issuer.
pub(super) fn address(issuer: &str, next: &str) -> String {
    Fields::default().address(START, &[("issuer", Some(issuer)), ("next", Some(next))])
}

/// Returns the host of an issuer, which persons know it by.
pub(super) fn display_name(issuer: &str) -> &str {
    let rest = issuer.split_once("://").map_or(issuer, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// Serves a step.
pub(in crate::console) async fn serve(console: &Arc<Console>, head: &Head, step: Step) -> Result<Response> {
    sign_in::limit_rate(console, head)?;
    let answered = match step {
        Step::Start => start(console, head).await,
        Step::Callback => finish(console, head).await,
    };
    match answered {
        Ok(response) => Ok(response),
        Err(Failed::Refused(refusal)) => Err(refusal),
        Err(Failed::Explained(why)) => {
            sign_in::record_failure(console, head, &why);
            let page = sign_in::page(console, &Fields::default(), Some(&format!("Not signed in: {why}.")));
            Ok(without_pending(console, head, page)?)
        }
    }
}

/// Why a step fails.
enum Failed {
    /// For the person, on the sign-in page.
    Explained(String),
    /// As an error of the console.
    Refused(Refusal),
}

impl From<CodeFlowError> for Failed {
    fn from(error: CodeFlowError) -> Self {
        Self::Explained(error.to_string())
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Sends the browser to the issuer.
async fn start(console: &Console, head: &Head) -> Result<Response, Failed> {
    let context = &console.parts.bridge.context;
    let pending = PendingSignIn::new(head.query.get("issuer").unwrap_or_default(), &*context.entropy);
    let rules = console.parts.access_control.rules();
    let address = rules.auth.authorization_url(&pending, &redirect_uri(console)).await?;
    let kept = Kept { pending, next: next_page(head.query.get("next")), began: console.now() };
    let sealed = context.seal.seal(Purpose::SignIn, &kept);
    let cookie = Cookie::SignIn.set(head, console.parts.settings.is_secure, &sealed, LASTS)?;
    Ok(respond::set_cookie(respond::redirect(&address), cookie))
}

/// Signs in the person whom the issuer sent back.
async fn finish(console: &Arc<Console>, head: &Head) -> Result<Response, Failed> {
    let is_secure = console.parts.settings.is_secure;
    let sealed = Cookie::SignIn.get(head, is_secure);
    let kept: Option<Kept> =
        sealed.and_then(|sealed| console.parts.bridge.context.seal.open(Purpose::SignIn, sealed));
    let kept = kept.filter(|kept| console.now().since(kept.began) < LASTS).ok_or(CodeFlowError::Foreign)?;
    if let Some(error) = head.query.get("error") {
        return Err(Failed::Explained(format!("the issuer answers {:?}", known_error(error))));
    }
    let field = |name| head.query.get(name).unwrap_or_default();
    let returned = Returned { state: field("state"), code: field("code"), issuer: head.query.get("iss") };
    let rules = console.parts.access_control.rules();
    let sign_in = rules.auth.finish_sign_in(&kept.pending, &returned, &redirect_uri(console)).await?;
    let session = sign_in::begin(console, head, sign_in).await?;
    // The session's cookie is strict: only a page of this site may load the next one with it.
    let page = respond::html(StatusCode::OK, &layout::reload(&kept.next));
    Ok(without_pending(console, head, respond::set_cookie(page, session))?)
}

/// Removes the cookie of the sign-in: it counts once.
fn without_pending(console: &Console, head: &Head, response: Response) -> Result<Response> {
    let removed = Cookie::SignIn.remove(head, console.parts.settings.is_secure)?;
    Ok(respond::set_cookie(response, removed))
}

fn redirect_uri(console: &Console) -> String {
    format!("{}{CALLBACK}", console.parts.settings.url.as_deref().unwrap_or_default().trim_end_matches('/'))
}

/// Returns the error code of an issuer if the standards have it (RFC 6749, section 4.1.2.1; OpenID Connect
/// Core, section 3.1.2.6). Any site can send a browser here with any other text.
fn known_error(error: &str) -> &str {
    const KNOWN: [&str; 8] = [
        "access_denied",
        "invalid_request",
        "invalid_scope",
        "unauthorized_client",
        "server_error",
        "temporarily_unavailable",
        "interaction_required",
        "login_required",
    ];
    KNOWN.into_iter().find(|known| *known == error).unwrap_or("an unknown error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuer_is_shown_by_its_host() {
        assert_eq!(display_name("https://login.example.com/realms/one"), "login.example.com");
        assert_eq!(display_name("http://127.0.0.1:9000"), "127.0.0.1:9000");
        assert_eq!(known_error("<script>"), "an unknown error");
        assert_eq!(known_error("access_denied"), "access_denied");
    }
}
