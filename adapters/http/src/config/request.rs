//! A request: method, path, query, headers and body, as templates. It must not render them.

use std::collections::BTreeMap;

use reqwest::Url;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use crate::language::{Expression, JsonTemplate, Template};

/// Most pages of a list that one call may read.
pub(crate) const MAX_PAGES: u32 = 50;

/// One request.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Address in place of the backend's `base`, for an engine with several APIs. It gets the credentials, too.
    #[serde(default, deserialize_with = "own_base")]
    #[schemars(with = "Option<String>")]
    pub(crate) base: Option<Url>,
    /// Method.
    #[serde(default)]
    pub(crate) method: Method,
    /// Path below `base`. Each value in it is percent-encoded, unless it is `{{ VALUE | raw }}`.
    pub(crate) path: Template,
    /// Query. A parameter whose value is undefined is left out, and a list is repeated.
    #[serde(default)]
    pub(crate) query: BTreeMap<String, JsonTemplate>,
    /// Headers. A header whose value is undefined is left out.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Template>,
    /// Body as JSON.
    #[serde(default)]
    pub(crate) json: Option<JsonTemplate>,
    /// Body as `application/x-www-form-urlencoded`.
    #[serde(default)]
    pub(crate) form: Option<BTreeMap<String, JsonTemplate>>,
    /// Body as `multipart/form-data`.
    #[serde(default)]
    pub(crate) multipart: Option<BTreeMap<String, JsonTemplate>>,
    /// Body as GraphQL.
    #[serde(default)]
    pub(crate) graphql: Option<Graphql>,
}

/// Parses an address below which requests go.
pub(super) fn base_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let text = String::deserialize(deserializer)?;
    let fix = "write an address such as `https://engine.example.com/api`";
    let url = Url::parse(&text)
        .map_err(|e| de::Error::custom(format!("`{text}` is not an address ({e}): {fix}")))?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    match matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain && url.password().is_none() {
        true => Ok(url),
        false => Err(de::Error::custom(format!(
            "an address has `http` or `https`, and no user, query or fragment: {fix}"
        ))),
    }
}

fn own_base<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Url>, D::Error> {
    base_url(deserializer).map(Some)
}

/// Method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum Method {
    /// GET.
    #[default]
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
}

/// A GraphQL operation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Graphql {
    /// The operation. It is not a template.
    pub(crate) query: String,
    /// Its variables.
    #[serde(default)]
    pub(crate) variables: Option<JsonTemplate>,
}

/// Body of a request.
pub(crate) enum Body<'a> {
    None,
    Json(&'a JsonTemplate),
    Form(&'a BTreeMap<String, JsonTemplate>),
    Multipart(&'a BTreeMap<String, JsonTemplate>),
    Graphql(&'a Graphql),
}

impl Request {
    /// Returns the body.
    ///
    /// # Errors
    /// If the request has more than one.
    pub(crate) fn body(&self) -> Result<Body<'_>, String> {
        match (&self.json, &self.form, &self.multipart, &self.graphql) {
            (None, None, None, None) => Ok(Body::None),
            (Some(json), None, None, None) => Ok(Body::Json(json)),
            (None, Some(form), None, None) => Ok(Body::Form(form)),
            (None, None, Some(parts), None) => Ok(Body::Multipart(parts)),
            (None, None, None, Some(graphql)) => Ok(Body::Graphql(graphql)),
            _ => Err("a request has one of `json`, `form`, `multipart` and `graphql`".to_owned()),
        }
    }

    /// Returns the names that its path, query and headers use, which logs of proxies can show.
    pub(crate) fn visible_names(&self) -> impl Iterator<Item = String> {
        let query = self.query.values().flat_map(JsonTemplate::names);
        self.path.names().into_iter().chain(query).chain(self.headers.values().flat_map(Template::names))
    }
}

/// How the next page of a list is found. Exactly one of the ways is set.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pages {
    /// By the header `Link` with `rel="next"`.
    #[serde(default)]
    pub(crate) link: bool,
    /// By a cursor in the reply, which goes into the query as `as`.
    #[serde(default)]
    pub(crate) cursor: Option<Expression>,
    /// Name of the parameter for `cursor`: of the query, of a JSON body, or a variable of GraphQL.
    #[serde(default, rename = "as")]
    pub(crate) cursor_name: Option<String>,
    /// By an offset: name of the parameter. `size` is how many items a full page has.
    #[serde(default)]
    pub(crate) offset: Option<String>,
    /// By a number: name of the parameter.
    #[serde(default)]
    pub(crate) page: Option<String>,
    /// Number of the first page.
    #[serde(default = "one")]
    pub(crate) from: u64,
    /// How many items a full page has. A shorter page is the last one.
    #[serde(default)]
    pub(crate) size: Option<u64>,
    /// By an address in the reply.
    #[serde(default)]
    pub(crate) url: Option<Expression>,
    /// Most pages that are read.
    #[schemars(range(min = 1, max = 50))]
    pub(crate) pages: u32,
}

fn one() -> u64 {
    1
}

impl Pages {
    /// Returns what is wrong with it.
    pub(crate) fn problem(&self) -> Option<String> {
        let ways = [
            self.link,
            self.cursor.is_some(),
            self.offset.is_some(),
            self.page.is_some(),
            self.url.is_some(),
        ];
        if ways.into_iter().filter(|way| *way).count() != 1 {
            return Some("needs exactly one of `link`, `cursor`, `offset`, `page` and `url`".to_owned());
        }
        if self.cursor.is_some() != self.cursor_name.is_some() {
            return Some(
                "`cursor` needs `as`, the name of its parameter, and `as` needs `cursor`".to_owned(),
            );
        }
        if (self.offset.is_some() || self.page.is_some()) && self.size.unwrap_or(0) == 0 {
            return Some("`offset` and `page` need `size`: how many items a full page has".to_owned());
        }
        (!(1..=MAX_PAGES).contains(&self.pages))
            .then(|| format!("`pages` is {}: it is between 1 and {MAX_PAGES}", self.pages))
    }
}
