//! Tests of the console through the front door: what a browser gets and what it cannot do. A [`Browser`] keeps
//! its cookie, and sends forms as browsers do.

mod pages;
mod safety;
mod sign_in;

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, redirect};
use sha2::{Digest as _, Sha256};

use crate::support::{Server, TestApp, TestDir};

/// Tools of the simulated engine: a quick job, one with slow polls, one that asks, a long one, and one of ann
/// alone.
const TOOLS: &str = r#"
[reconciler]
quickest_look = "20ms"
slowest_look = "100ms"

[backends.engine]
kind = "sim"

[backends.slow_engine]
kind = "sim"
faults = { slow_ms = 500 }

[tools.job]
description = "A quick <b>job</b>"
backend = "engine"
target = { delay_ms = 10, lines = ["printed <script>alert(1)</script>"], files = { "a.html" = "<script>alert(2)</script>" } }

[tools.job.parameters]
word = { type = "string", description = "Any \"word\"", default = "x" }

[tools.slow]
backend = "slow_engine"
target = { delay_ms = 200 }

[tools.asks]
backend = "engine"
target = { delay_ms = 10, question = { message = "Which <i>colour</i>?", at_once = true, schema = { type = "object", required = ["colour"], properties = { colour = { type = "string" } } } } }

[tools.long]
backend = "engine"
target = { delay_ms = 3600000 }
"#;

/// A tool of one caller, for servers that know their callers.
const ANNS: &str =
    "[tools.anns]\nbackend = \"engine\"\ntarget = {}\naccess.call = { principals = [\"ann\"] }\n";

/// Starts a server for its single user.
fn start() -> TestApp {
    TestApp::start(TOOLS)
}

/// Returns a folder for a server with the keys `key-of-ann-0123456789` and `key-of-bob-0123456789`, and this
/// additional config.
fn dir_with_keys(extra: &str) -> TestDir {
    let keys = ["ann", "bob"].map(|name| {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(format!("key-of-{name}-0123456789")));
        format!("{{ principal = \"{name}\", sha256 = \"{digest}\" }}")
    });
    TestDir::new(&format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nmax_polls_per_second = 100000\n[store]\npath = \"state/taskbridge.db\"\n\
         [auth]\nmode = \"api_keys\"\nkeys = [{}]\n[console]\nenabled = true\n{TOOLS}{ANNS}{extra}",
        keys.join(", ")
    ))
}

/// Adds a form to a request, as browsers encode it.
fn with_form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

/// A browser with one cookie.
struct Browser {
    http: Client,
    origin: String,
    cookie: Option<String>,
}

/// What a browser got.
struct Got {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// Returns the value of the hidden field with this name in the first form.
    fn field(&self, name: &str) -> &str {
        let mark = format!("name=\"{name}\" value=\"");
        let (_, rest) =
            self.text.split_once(&mark).unwrap_or_else(|| panic!("no field {name} in {}", self.text));
        rest.split('"').next().unwrap()
    }
}

impl Browser {
    /// Opens a browser that is not signed in.
    fn new(server: &Server) -> Self {
        let http = Client::builder().redirect(redirect::Policy::none()).build().unwrap();
        let origin = server.url().strip_suffix("/mcp").unwrap().to_owned();
        Self { http, origin, cookie: None }
    }

    /// Opens a browser that is signed in as the single user.
    async fn of_single_user(app: &mut TestApp) -> Self {
        let address = app.server.console_address();
        let mut browser = Self::new(&app.server);
        let once = address.rsplit_once("once=").unwrap().1;
        let got = browser.post("/console/login", &[("once", once)]).await;
        assert_eq!(got.status, StatusCode::SEE_OTHER, "{}", got.text);
        browser
    }

    /// Opens a browser that is signed in by an API key.
    async fn with_key(server: &Server, name: &str) -> Self {
        let mut browser = Self::new(server);
        let key = format!("key-of-{name}-0123456789");
        let got = browser.post("/console/login", &[("key", key.as_str())]).await;
        assert_eq!(got.status, StatusCode::SEE_OTHER, "{}", got.text);
        browser
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.origin));
        match &self.cookie {
            Some(cookie) => request.header("cookie", cookie),
            None => request,
        }
    }

    async fn send(&mut self, request: RequestBuilder) -> Got {
        let response = request.send().await.unwrap();
        self.keep_cookie(&response);
        let (status, headers) = (response.status(), response.headers().clone());
        Got { status, headers, text: response.text().await.unwrap() }
    }

    fn keep_cookie(&mut self, response: &Response) {
        for cookie in response.headers().get_all("set-cookie") {
            let (pair, rest) = cookie.to_str().unwrap().split_once(';').unwrap();
            self.cookie = (!rest.contains("Max-Age=0")).then(|| pair.to_owned());
        }
    }

    /// Opens a page.
    async fn get(&mut self, path: &str) -> Got {
        let request = self.request(Method::GET, path).header("sec-fetch-site", "same-origin");
        self.send(request).await
    }

    /// Sends a form as a page of the console does.
    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Got {
        let request = self.request(Method::POST, path).header("sec-fetch-site", "same-origin");
        self.send(with_form(request, fields)).await
    }

    /// Sends a form with the token of the session.
    async fn act(&mut self, path: &str, fields: &[(&str, &str)]) -> Got {
        let token = self.get("/console/tools").await.field("form_token").to_owned();
        let fields: Vec<_> = fields.iter().copied().chain([("form_token", token.as_str())]).collect();
        self.post(path, &fields).await
    }

    /// Starts a task by the form of a tool, and returns its path.
    async fn start(&mut self, tool: &str, fields: &[(&str, &str)]) -> String {
        let got = self.act(&format!("/console/tools/{tool}/start"), fields).await;
        assert_eq!(got.status, StatusCode::SEE_OTHER, "{}", got.text);
        got.header("location").to_owned()
    }

    /// Reads the live stream of a page until `is_done` accepts its content.
    async fn follow(&mut self, path: &str, is_done: impl Fn(&str) -> bool) -> String {
        let mut response = self.request(Method::GET, path).send().await.unwrap();
        assert_eq!(
            response.headers().get("content-type"),
            Some(&HeaderValue::from_static("text/event-stream"))
        );
        let mut text = String::new();
        while !is_done(&text) {
            let chunk = response.chunk().await.unwrap();
            let chunk = chunk.unwrap_or_else(|| panic!("the stream ended after {text}"));
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
        text
    }
}
