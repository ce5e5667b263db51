//! [`Registry`]: the explicit list of adapters that a program was built with. It must not discover adapters:
//! each is registered by a call.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;

use schemars::{Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Adapter, Backend, ConnectContext, Error, Helper, JobHandle, PolicyDocument, Problem, Result, ToolTarget,
};

type ConnectFuture = Pin<Box<dyn Future<Output = Result<Arc<dyn Backend>>> + Send>>;

/// An adapter with its types erased: what the server needs to read a config and to connect.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The adapter's `KIND`.
    pub kind: &'static str,
    /// JSON Schema of its `Config`.
    pub config_schema: fn(&mut SchemaGenerator) -> Schema,
    /// JSON Schema of its `Target`.
    pub target_schema: fn(&mut SchemaGenerator) -> Schema,
    /// Checks the config of a backend, offline.
    pub check_config: fn(&Value) -> Result<(), Problem>,
    /// Checks the shape of a target, offline.
    pub check_target_shape: fn(&Value) -> Result<(), Problem>,
    /// Checks a target against a valid config, offline.
    pub check_target: fn(&Value, &Value, &[&str]) -> Vec<Problem>,
    /// Returns the parameters that a job shows outside of the body of a request, given a valid config and
    /// target, offline.
    pub visible_parameters: fn(&Value, &Value) -> BTreeSet<String>,
    /// The adapter's `PRESETS`.
    pub presets: &'static [(&'static str, &'static str)],
    /// Returns the policies that jobs of these tools need, given a valid config, offline.
    pub policies: fn(&Value, &[ToolTarget]) -> Vec<PolicyDocument>,
    /// Returns handles of jobs that the engine should not have, given a valid config, offline.
    pub example_handles: fn(&Value) -> Vec<JobHandle>,
    /// Connects to the engine.
    pub connect: fn(Value, ConnectContext) -> ConnectFuture,
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
                catch_panic(|| A::check_config(&parse_config::<A>(config)?)).unwrap_or_else(Err)
            },
            check_target_shape: |target| {
                catch_panic(|| parse::<A::Target>(target).map(drop)).unwrap_or_else(Err)
            },
            check_target: |config, target, parameters| {
                catch_panic(|| {
                    let config = match parse_config::<A>(config) {
                        Ok(config) => config,
                        // `check_config` reports the error of the config itself.
                        Err(_) => return Vec::new(),
                    };
                    match parse::<A::Target>(target) {
                        Ok(target) => A::check(&config, &target, parameters),
                        Err(problem) => vec![problem],
                    }
                })
                .unwrap_or_else(|problem| vec![problem])
            },
            visible_parameters: |config, target| {
                catch_panic(|| match (parse_config::<A>(config), parse::<A::Target>(target)) {
                    (Ok(config), Ok(target)) => A::visible_parameters(&config, &target),
                    _ => BTreeSet::new(),
                })
                .unwrap_or_default()
            },
            presets: A::PRESETS,
            policies: |config, tools| {
                catch_panic(|| match parse_config::<A>(config) {
                    Ok(config) => A::policies(&config, tools),
                    Err(_) => Vec::new(),
                })
                .unwrap_or_default()
            },
            example_handles: |config| {
                catch_panic(|| parse_config::<A>(config).map(|config| A::example_handles(&config)))
                    .and_then(|handles| handles)
                    .unwrap_or_default()
            },
            connect: |config, context| {
                Box::pin(async move {
                    let config = parse_config::<A>(&config).map_err(|p| Error::config(p.message))?;
                    A::connect(config, &context).await
                })
            },
            secrets: A::SECRETS,
            one_machine: A::ONE_MACHINE,
            helper: A::HELPER,
        }
    }
}

/// Returns the result of a check, or a problem if it panicked. A panic must not stop a server that reloads
/// its config or checks the tools of an engine.
fn catch_panic<T>(check: impl FnOnce() -> T) -> Result<T, Problem> {
    panic::catch_unwind(AssertUnwindSafe(check)).map_err(|_| Problem {
        field: String::new(),
        message: "the adapter crashed while it checked this value: report this bug of the adapter".to_owned(),
    })
}

/// Parses the config of a backend, with what its fields imply.
fn parse_config<A: Adapter>(fields: &Value) -> Result<A::Config, Problem> {
    parse(&A::complete(fields)?)
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
    /// Creates a registry without adapters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an adapter. It replaces an earlier adapter of the same kind.
    #[must_use]
    pub fn with<A: Adapter>(mut self) -> Self {
        self.adapters.insert(A::KIND, Registration::of::<A>());
        self
    }

    /// Returns the adapter of this kind.
    pub fn get(&self, kind: &str) -> Option<&Registration> {
        self.adapters.get(kind)
    }

    /// Iterates over all adapters, ordered by kind.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.adapters.values()
    }
}
