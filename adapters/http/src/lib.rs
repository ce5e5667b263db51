//! `kind = "http"`: each job is a run of an engine with an HTTP and JSON API. The config says how the engine
//! is called: requests are templates, and replies are read with expressions. README.md is the tutorial and
//! the reference of the grammar, and `adapters/README.md` describes the layout. It must depend on nothing of
//! the server but the sdk.

mod auth;
mod net;
