//! [`Scope`]: the names that a template or an expression can use. It must not hold credentials.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, Serde};
use serde::Serialize;

/// Names and their values. A clone shares the values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope(Arc<Names>);

#[derive(Clone, Debug, Default)]
struct Names(BTreeMap<String, Value>);

impl Object for Names {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get(key.as_str()?).cloned()
    }
}

impl Scope {
    /// Returns the scope with one more name. It replaces an earlier one.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        Arc::make_mut(&mut self.0).0.insert(name.to_owned(), Value::from(Serde(&value)));
        self
    }

    /// Returns the scope without a name.
    #[must_use]
    pub(crate) fn without(mut self, name: &str) -> Self {
        Arc::make_mut(&mut self.0).0.remove(name);
        self
    }

    /// Returns the scope with the names of another, which replace earlier ones.
    #[must_use]
    pub(crate) fn extended(mut self, other: &Self) -> Self {
        let names = other.0.0.iter().map(|(name, value)| (name.clone(), value.clone()));
        Arc::make_mut(&mut self.0).0.extend(names);
        self
    }

    /// Returns the key of the job that is started or searched for.
    pub(crate) fn key(&self) -> Option<String> {
        let key = self.0.0.get("taskbridge")?.get_attr("key").ok()?;
        key.as_str().map(str::to_owned)
    }

    pub(super) fn value(&self) -> Value {
        Value::from_dyn_object(self.0.clone())
    }
}
