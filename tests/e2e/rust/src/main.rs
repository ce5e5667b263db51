//! A driver of the Rust MCP SDK: `taskbridge-e2e rmcp2|rmcp3 [--modern] [--no-tasks] (--url URL | --stdio
//! COMMAND...)`. `drive.rs` documents its input and output.

mod drive;
mod rmcp2;
mod rmcp3;

use anyhow::{Context, Result, bail};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let setup = drive::setup();
    match std::env::args().nth(1).as_deref() {
        Some("rmcp2") => drive::serve(&version("rmcp2")?, rmcp2::Rmcp2::new(setup)).await,
        Some("rmcp3") => drive::serve(&version("rmcp3")?, rmcp3::Rmcp3::new(setup)).await,
        other => bail!("which library? not {other:?}"),
    }
}

/// Returns the library and its version, as `Cargo.toml` pins it.
fn version(name: &str) -> Result<String> {
    let line = include_str!("../Cargo.toml").lines().find(|line| line.starts_with(name));
    let version = line.and_then(|line| line.split('"').find_map(|word| word.strip_prefix('=')));
    Ok(format!("rmcp {}", version.context("the version is not pinned")?))
}
