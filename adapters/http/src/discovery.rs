//! Tools that the engine offers. It must not start anything.

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Map, Value};
use taskbridge_sdk::{DiscoveredTool, Discovery, Error, Result, async_trait, tool_name};

use crate::config::Discover;
use crate::core::Http;
use crate::core::form::add_properties;
use crate::driver::auth::By;
use crate::language::{Expression, Scope};

/// Most tools of an engine.
const MAX_TOOLS: usize = 1000;
/// Requests for details that run at the same time.
const CONCURRENT_DETAILS: usize = 4;

#[async_trait]
impl Discovery for Http {
    async fn discover(&self) -> Result<Vec<DiscoveredTool>> {
        let Some(discover) = &self.config.discover else { return Ok(Vec::new()) };
        let scope = self.base_scope();
        let found = self
            .items("discover", &discover.request, discover.next.as_ref(), &discover.items, &scope, None)
            .await?;
        let mut details = Vec::new();
        for item in found.items.iter().take(MAX_TOOLS) {
            details.push(self.tool(discover, scope.clone().with("item", item)).boxed());
        }
        let tools: Vec<Option<DiscoveredTool>> =
            stream::iter(details).buffered(CONCURRENT_DETAILS).try_collect().await?;
        let mut tools: Vec<DiscoveredTool> = tools.into_iter().flatten().collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        // Two things of the engine with one name would be one tool that means either.
        tools.dedup_by(|one, other| one.name == other.name);
        Ok(tools)
    }
}

impl Http {
    /// Returns the tool of an item. `None` if the item is none.
    async fn tool(&self, discover: &Discover, mut scope: Scope) -> Result<Option<DiscoveredTool>> {
        if let Some(matches) = &discover.matches
            && !matches.is_true(&scope).map_err(unreadable)?
        {
            return Ok(None);
        }
        if let Some(detail) = &discover.detail {
            let reply = self.call(detail, &scope, &[], By::Own).await.map_err(|e| e.of_read("discover"))?;
            let reply = self.expect_success("discover.detail", reply, &scope)?;
            scope = scope.with("detail", reply.value());
        }
        tool(discover, &scope).map_err(unreadable)
    }
}

fn tool(discover: &Discover, scope: &Scope) -> Result<Option<DiscoveredTool>, String> {
    let text = |expression: &Option<Expression>| expression.as_ref().map_or(Ok(None), |e| e.text(scope));
    let Some(name) = discover.name.text(scope)? else { return Ok(None) };
    let mut target = Map::new();
    for (field, expression) in &discover.target {
        // A target is a template: what the engine says is text.
        target.extend(expression.some(scope)?.map(|value| (field.clone(), escaped(value))));
    }
    Ok(Some(DiscoveredTool {
        name: tool_name(&name),
        title: text(&discover.title)?,
        description: text(&discover.description)?,
        input_schema: schema(discover, scope)?,
        target: target.into(),
        more: Map::new(),
    }))
}

/// Returns a value whose texts are no templates.
fn escaped(value: Value) -> Value {
    match value {
        Value::String(text) if text.contains("{{") || text.contains("{%") || text.contains("{#") => {
            let literal = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
            // The braces are apart, so that the template has one expression.
            let literal = literal.replace('{', "\\u007b").replace('}', "\\u007d");
            Value::String(format!("{{{{ '{literal}' }}}}"))
        }
        other => other,
    }
}

fn schema(discover: &Discover, scope: &Scope) -> Result<Map<String, Value>, String> {
    if let Some(schema) = discover.schema.as_ref().map_or(Ok(None), |schema| schema.some(scope))? {
        return match schema {
            Value::Object(schema) if schema.get("type").is_none_or(|kind| kind == "object") => {
                let mut schema = schema;
                schema.insert("type".to_owned(), "object".into());
                Ok(schema)
            }
            _ => Err("`discover.schema` is not the schema of an object".to_owned()),
        };
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Map::new().into());
    add_properties(&mut schema, discover.properties.as_ref(), &discover.property, scope)?;
    Ok(schema)
}

fn unreadable(message: String) -> Error {
    Error::unavailable(format!("discover: the reply cannot be read: {message}"))
}
