//! [`Registry`]: the explicit list of adapters that a program was built with. It must not discover anything by
//! itself: one line per adapter.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Adapter, Backend, Connect, Error, Helper, PolicyDocument, Problem, Result, ToolTarget};

type Connecting = Pin<Box<dyn Future<Output = Result<Arc<dyn Backend>>> + Send>>;

/// An adapter with its types erased: what the server needs to read a config and connect.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The adapter's `KIND`.
    pub kind: &'static str,
    /// The JSON Schema of its `Config`.
    pub config_schema: fn(&mut SchemaGenerator) -> Schema,
    /// The JSON Schema of its `Target`.
    pub target_schema: fn(&mut SchemaGenerator) -> Schema,
    /// Checks a backend's config, offline.
    pub check_config: fn(&Value) -> Result<(), Problem>,
    /// Checks a target's shape, offline.
    pub check_target_shape: fn(&Value) -> Result<(), Problem>,
    /// Checks a target against a config that was found right, offline.
    pub check_target: fn(&Value, &Value, &[&str]) -> Vec<Problem>,
    /// The policies that jobs of these tools need, by a config that was found right, offline.
    pub policies: fn(&Value, &[ToolTarget]) -> Vec<PolicyDocument>,
    /// Connects.
    pub connect: fn(Value, Connect) -> Connecting,
    /// The adapter's `SECRETS`.
    pub secrets: &'static [&'static str],
    /// The adapter's `ONE_MACHINE`.
    pub one_machine: bool,
    /// The adapter's helper role.
    pub helper: Option<Helper>,
}

impl Registration {
    fn of<A: Adapter>() -> Self {
        Self {
            kind: A::KIND,
            config_schema: |generator| generator.subschema_for::<A::Config>(),
            target_schema: |generator| generator.subschema_for::<A::Target>(),
            check_config: |config| {
                unless_it_crashes(|| parse::<A::Config>(config).map(drop)).unwrap_or_else(Err)
            },
            check_target_shape: |target| {
                unless_it_crashes(|| parse::<A::Target>(target).map(drop)).unwrap_or_else(Err)
            },
            check_target: |config, target, parameters| {
                unless_it_crashes(|| {
                    let config = match parse::<A::Config>(config) {
                        Ok(config) => config,
                        // The config's own fault is reported once, where it stands.
                        Err(_) => return Vec::new(),
                    };
                    match parse::<A::Target>(target) {
                        Ok(target) => A::check(&config, &target, parameters),
                        Err(problem) => vec![problem],
                    }
                })
                .unwrap_or_else(|problem| vec![problem])
            },
            policies: |config, tools| {
                unless_it_crashes(|| match parse::<A::Config>(config) {
                    Ok(config) => A::policies(&config, tools),
                    Err(_) => Vec::new(),
                })
                .unwrap_or_default()
            },
            connect: |config, context| {
                Box::pin(async move {
                    let config = parse::<A::Config>(&config).map_err(|p| Error::config(p.message))?;
                    A::connect(config, &context).await
                })
            },
            secrets: A::SECRETS,
            one_machine: A::ONE_MACHINE,
            helper: A::HELPER,
        }
    }
}

/// What a check says, or that it panicked: a server that reads its config again, or tools of an engine, goes on.
fn unless_it_crashes<T>(check: impl FnOnce() -> T) -> Result<T, Problem> {
    panic::catch_unwind(AssertUnwindSafe(check)).map_err(|_| Problem {
        field: String::new(),
        message: "the adapter crashed while it checked this, which is a bug of the adapter".to_owned(),
    })
}

fn parse<T: DeserializeOwned>(value: &Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { String::new() } else { path };
        Problem { field, message: error.into_inner().to_string() }
    })
}

/// The adapters of one program, by kind.
#[derive(Clone, Default)]
pub struct Registry {
    adapters: BTreeMap<&'static str, Registration>,
}

impl Registry {
    /// A registry without any adapter.
    pub fn new() -> Self {
        Self::default()
    }

    /// The registry with one more adapter. A later one of the same kind replaces an earlier one.
    #[must_use]
    pub fn with<A: Adapter>(mut self) -> Self {
        self.adapters.insert(A::KIND, Registration::of::<A>());
        self
    }

    /// The adapter of a kind.
    pub fn get(&self, kind: &str) -> Option<&Registration> {
        self.adapters.get(kind)
    }

    /// All adapters, in the order of their kinds.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.adapters.values()
    }
}
