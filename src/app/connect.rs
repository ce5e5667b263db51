//! Connects the backends of a config, all of them or none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use taskbridge_sdk::{Backend, Connect, Registry};

use super::AppError;
use crate::config::Config;

pub(super) async fn connect(
    config: &Config,
    registry: &Registry,
    program: PathBuf,
) -> Result<BTreeMap<String, Arc<dyn Backend>>, AppError> {
    let mut backends = BTreeMap::new();
    for (name, backend) in &config.backends {
        let place = || match backend.line {
            Some(line) => format!("{}:{line}", config.file.display()),
            None => config.file.display().to_string(),
        };
        let Some(adapter) = registry.get(&backend.kind) else {
            return Err(AppError::Config(format!("{}: no adapter of kind `{}`", place(), backend.kind)));
        };
        let context = Connect {
            name: name.clone(),
            config_dir: config.dir.clone(),
            state_dir: config.store.backends_dir.join(name),
            program: program.clone(),
        };
        let connected = (adapter.connect)(backend.fields.clone(), context).await;
        let connected =
            connected.map_err(|source| AppError::Backend { place: place(), name: name.clone(), source })?;
        backends.insert(name.clone(), connected);
    }
    Ok(backends)
}
