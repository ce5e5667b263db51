//! [`JsonTemplate`]: JSON whose texts are templates, for the bodies of requests.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value as Json};

use super::scope::Scope;
use super::template::Template;

/// Name of a member that is replaced by the members of an object.
const SPREAD: &str = "...";

/// JSON whose texts are templates. A text that is one expression alone becomes its value; a member whose
/// value is undefined is left out; the member `...` is replaced by the members of its object.
#[derive(Clone, Debug)]
pub(crate) enum JsonTemplate {
    Constant(Json),
    Text(Template),
    Array(Vec<JsonTemplate>),
    Object(Vec<(String, JsonTemplate)>),
}

impl JsonTemplate {
    fn parse(value: &Json, path: &str) -> Result<Self, String> {
        let inner = |name: &str, value| Self::parse(value, &format!("{path}.{name}"));
        Ok(match value {
            Json::String(text) => match Template::parse(text) {
                Ok(template) => Self::Text(template),
                Err(e) => return Err(format!("`{}`: the template `{text}` is not valid: {e}", &path[1..])),
            },
            Json::Array(items) => {
                let items = items.iter().enumerate().map(|(n, item)| inner(&n.to_string(), item));
                Self::Array(items.collect::<Result<_, _>>()?)
            }
            Json::Object(members) => {
                let members = members.iter().map(|(name, item)| Ok((name.clone(), inner(name, item)?)));
                Self::Object(members.collect::<Result<_, String>>()?)
            }
            constant => Self::Constant(constant.clone()),
        })
    }

    /// Returns the JSON. `None` if it is one expression whose value is undefined.
    ///
    /// # Errors
    /// Why there is none. The message contains no value.
    pub(crate) fn render(&self, scope: &Scope) -> Result<Option<Json>, String> {
        Ok(Some(match self {
            Self::Constant(value) => value.clone(),
            Self::Text(template) => return template.value(scope),
            Self::Array(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(|item| item.render(scope)).collect();
                Json::Array(items?.into_iter().flatten().collect())
            }
            Self::Object(members) => {
                let mut object = Map::new();
                for (name, member) in members {
                    match member.render(scope)? {
                        None => {}
                        Some(Json::Object(inner)) if name == SPREAD => object.extend(inner),
                        Some(_) if name == SPREAD => return Err("`...` needs an object".to_owned()),
                        Some(value) => drop(object.insert(name.clone(), value)),
                    }
                }
                Json::Object(object)
            }
        }))
    }

    /// Returns the names that the templates use, with their attributes.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        match self {
            Self::Constant(_) => BTreeSet::new(),
            Self::Text(template) => template.names(),
            Self::Array(items) => items.iter().flat_map(Self::names).collect(),
            Self::Object(members) => members.iter().flat_map(|(_, member)| member.names()).collect(),
        }
    }
}

impl<'de> Deserialize<'de> for JsonTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Json::deserialize(deserializer)?, "").map_err(de::Error::custom)
    }
}

impl JsonSchema for JsonTemplate {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "JsonTemplate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}
