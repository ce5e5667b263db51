//! What can be wrong with the config of a backend beyond its shape, offline: fields that contradict each
//! other, names that no scope has, and recorded replies that mean something else.

use std::collections::BTreeSet;

use taskbridge_sdk::Problem;

use super::recorded;
use crate::config::{Config, Once, Pages, Request};
use crate::driver::auth::Auth;

/// Returns the first thing that is wrong.
pub(crate) fn check(config: &Config) -> Result<(), Problem> {
    let problem = |field: &str, message: String| Problem { field: field.to_owned(), message };
    Auth::check(&config.auth, config.per_caller.as_ref())
        .map_err(|(field, message)| problem(&field, message))?;
    for (field, request) in config.requests() {
        check_request(&field, request)?;
        if config.base.scheme() == "https" && request.base.as_ref().is_some_and(|own| own.scheme() != "https")
        {
            let message = "would send the credentials without TLS, and `base` has TLS: use https";
            return Err(problem(&format!("{field}.base"), message.to_owned()));
        }
    }
    for (field, pages) in pages(config) {
        if let Some(message) = pages.problem() {
            return Err(problem(&field, message));
        }
    }
    if config.observe.is_empty() {
        return Err(problem("observe", "needs a table: how a job is polled".to_owned()));
    }
    if config.start.handle.is_empty() {
        let message = "needs a member, such as `run = \"body.id\"`: what later requests need to name the job";
        return Err(problem("start.handle", message.to_owned()));
    }
    if config.start.key_lasts.is_some() && config.start.once == Once::None {
        return Err(problem(
            "start.key_lasts",
            "only with `once = \"key\"`: without a key, nothing lasts".to_owned(),
        ));
    }
    let uses_key = names_of(&config.start.request).iter().any(|name| name.starts_with("taskbridge."));
    if config.start.once == Once::Key && !uses_key {
        let message = "\"key\" needs a request with the key, such as `{{ taskbridge.key }}`: otherwise a repeated \
                       start is a second job";
        return Err(problem("start.once", message.to_owned()));
    }
    if config.start.look_first && config.find.is_empty() {
        return Err(problem("start.look_first", "needs `find`".to_owned()));
    }
    if config.ask.is_some() != config.answer.is_some() {
        return Err(problem("ask", "`ask` and `answer` belong together: write both, or none".to_owned()));
    }
    check_more(config)?;
    if let Some(hook) = &config.hook {
        let proofs = [hook.token.is_some(), hook.hmac.is_some(), hook.standard_webhooks.is_some()];
        if proofs.into_iter().filter(|proof| *proof).count() != 1 {
            let message = "needs exactly one proof: `token`, `hmac` or `standard_webhooks`";
            return Err(problem("hook", message.to_owned()));
        }
        if hook.jobs.is_none() && hook.keys.is_none() {
            return Err(problem("hook", "needs `jobs` or `keys`: which jobs a post is about".to_owned()));
        }
    }
    recorded::check(config)
}

fn check_more(config: &Config) -> Result<(), Problem> {
    let mut names = BTreeSet::new();
    for (n, more) in config.more.iter().enumerate() {
        let problem = |field: &str, message: String| Problem { field: format!("more[{n}]{field}"), message };
        if !names.insert(more.name.as_str()) {
            return Err(problem(".as", format!("`{}` is the name of another table too", more.name)));
        }
        if more.shared && names_of(&more.request).iter().any(|name| name.starts_with("handle")) {
            return Err(problem(".shared", "is for a request that does not use `handle`".to_owned()));
        }
        if more.next.is_some() && more.items.is_none() {
            return Err(problem(".next", "needs `items`".to_owned()));
        }
    }
    Ok(())
}

fn check_request(field: &str, request: &Request) -> Result<(), Problem> {
    let problem = |name: &str, message: String| Problem { field: format!("{field}{name}"), message };
    request.body().map(drop).map_err(|message| problem("", message))?;
    // An address out of a reply is a whole path, so only that may begin with a value.
    let path = format!("{:?}", request.path);
    if !path.starts_with('/') && !path.starts_with("{{") {
        return Err(problem(".path", format!("`{path}` must begin with `/`: it is below `base`")));
    }
    let caller = |name: &String| {
        let root = name.split('.').next().unwrap_or_default();
        !matches!(root, "handle" | "target" | "vars" | "item" | "detail" | "more" | "body" | "group")
    };
    if let Some(name) = request.path.raw_names().iter().find(|name| caller(name)) {
        let message = format!("`{name}` comes from a caller, so it must be encoded: remove `| raw`");
        return Err(problem(".path", message));
    }
    for name in request.headers.keys() {
        if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(problem(&format!(".headers.{name}"), "this is not the name of a header".to_owned()));
        }
    }
    Ok(())
}

fn names_of(request: &Request) -> BTreeSet<String> {
    let body = [&request.json].into_iter().flatten().flat_map(|json| json.names());
    let parts = [&request.form, &request.multipart].into_iter().flatten();
    let parts = parts.flat_map(|fields| fields.values().flat_map(|field| field.names()));
    let graphql = request.graphql.as_ref().and_then(|graphql| graphql.variables.as_ref());
    let graphql = graphql.map(|variables| variables.names()).unwrap_or_default();
    request.visible_names().chain(body).chain(parts).chain(graphql).collect()
}

fn pages(config: &Config) -> Vec<(String, &Pages)> {
    let find = config.find.iter().filter_map(|find| find.next.as_ref()).map(|next| ("find.next", next));
    let list = config.list.iter().filter_map(|list| list.next.as_ref()).map(|next| ("list.next", next));
    let log = config.log.iter().filter_map(|log| log.next.as_ref()).map(|next| ("log.next", next));
    let discover = config.discover.iter().filter_map(|discover| discover.next.as_ref());
    let named = find.chain(list).chain(log).chain(discover.map(|next| ("discover.next", next)));
    let more = config
        .more
        .iter()
        .enumerate()
        .filter_map(|(n, more)| Some((format!("more[{n}].next"), more.next.as_ref()?)));
    named.map(|(field, pages)| (field.to_owned(), pages)).chain(more).collect()
}
