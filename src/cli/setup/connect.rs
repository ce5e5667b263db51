//! `taskbridge connect`: prints the settings with which an MCP client reaches this server, or writes them
//! into the client's file. It must not start the client or the server.

mod clients;
mod edit;
mod places;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use taskbridge_sdk::Registry;

use self::clients::{Block, Client, Connection, Transport};
use super::welcome::client_address;
use crate::cli::{File, find_config, print, print_error};
use crate::config::locate::Environment;
use crate::config::{self, AuthMode, Config};

#[derive(Args)]
pub(in crate::cli) struct Options {
    /// The client.
    #[arg(value_enum)]
    client: Client,
    #[command(flatten)]
    file: File,
    /// Connect over HTTP to a running server, at the address of the config. Without it, the client starts
    /// `taskbridge --stdio` by itself.
    #[arg(long)]
    http: bool,
    /// Connect over HTTP to this endpoint; no config is read.
    #[arg(long, value_name = "URL", conflicts_with_all = ["http", "config"])]
    url: Option<String>,
    /// The endpoint of --url requires an API key: refer to the variable TASKBRIDGE_KEY.
    #[arg(long, requires = "url")]
    key: bool,
    /// Whose settings: the user's, or those of the project in the current folder [default: user, if the
    /// client has such a file].
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    /// The name of the server in the client.
    #[arg(long, value_name = "NAME", default_value = "taskbridge", value_parser = server_name)]
    name: String,
    /// Write the block into the client's file, and keep everything else there.
    #[arg(long)]
    write: bool,
}

/// The settings that a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scope {
    /// All projects of this user.
    User,
    /// The project in the current folder.
    Project,
}

/// All clients accept these characters. 64 is the shortest limit that is documented, of VS Code.
fn server_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match (1..=64).contains(&text.len()) && text.chars().all(is_allowed) {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 64 letters, digits, - and _".to_owned()),
    }
}

/// Prints or writes the block.
pub(in crate::cli) fn run(registry: &Registry, options: &Options) -> Result<ExitCode, String> {
    let environment = Environment::of_process();
    let connection =
        Connection { name: options.name.clone(), transport: transport(registry, options, &environment)? };
    let block = clients::block(options.client, options.scope, &connection, &environment)
        .map_err(|text| format!("taskbridge: {text}"))?;
    match options.write {
        true => write(&block)?,
        false => {
            print_error(&format!("# {}: {}", block.client, block.file.display()));
            print(&edit::insert("", &block).map_err(|text| format!("taskbridge: {text}"))?);
        }
    }
    for note in &block.notes {
        print_error(&format!("# {note}"));
    }
    print_error(&format!("# {}", block.documentation));
    Ok(ExitCode::SUCCESS)
}

fn write(block: &Block) -> Result<(), String> {
    let file = block.file.display();
    let error_text = |text: String| {
        format!(
            "taskbridge: {file}: {text}. Nothing was written: without --write, the block is printed to paste"
        )
    };
    let was_there = edit::write(block).map_err(error_text)?;
    print(&format!("{file}: {} {}\n", if was_there { "replaced" } else { "added" }, block.path.join(".")));
    Ok(())
}

/// The settings that `init` prints as its last step.
pub(super) fn command_line(config: &std::path::Path) -> String {
    format!("taskbridge connect claude-code --config {} --write", config.display())
}

fn transport(registry: &Registry, options: &Options, environment: &Environment) -> Result<Transport, String> {
    if let Some(url) = &options.url {
        let is_http = url.starts_with("http://") || url.starts_with("https://");
        return match is_http && url.parse::<reqwest::Url>().is_ok() {
            true => Ok(Transport::Http { url: url.clone(), needs_key: options.key }),
            false => Err(format!(
                "taskbridge: --url {url}: not an address: write one such as http://127.0.0.1:8808/mcp"
            )),
        };
    }
    let config = read_config(registry, options, environment)?;
    if options.http {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/mcp", client_address(config.server.listen));
        return match config.auth.mode {
            AuthMode::Certificates => Err(
                "taskbridge: auth.mode: \"certificates\": no client has a documented setting for client certificates: \
                 use stdio, without --http"
                    .to_owned(),
            ),
            mode => Ok(Transport::Http { url, needs_key: mode == AuthMode::ApiKeys }),
        };
    }
    let text = |path: PathBuf, what: &str| {
        path.into_os_string()
            .into_string()
            .map_err(|path| format!("taskbridge: {what} {} is not UTF-8", path.display()))
    };
    let program = std::env::current_exe()
        .map_err(|error| format!("taskbridge: the path of this program cannot be determined: {error}"))?;
    // Clients start the server in a folder of their own.
    let file = config.dir.join(config.file.file_name().unwrap_or_default());
    Ok(Transport::Stdio {
        command: text(program, "the path of this program")?,
        arguments: vec!["--stdio".to_owned(), "--config".to_owned(), text(file, "the path of the config")?],
        variables: config.variables,
    })
}

/// Reads the config without its secrets: they need not be in the environment of this command.
fn read_config(registry: &Registry, options: &Options, environment: &Environment) -> Result<Config, String> {
    let file = find_config(&options.file, environment)?;
    config::check_without_secrets(&file, registry, environment.state_home.as_deref())
        .map_err(|problems| problems.to_string())
}
