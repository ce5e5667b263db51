//! The command line: parses arguments, dispatches commands, and prints results. It must not implement what
//! the commands do.

#[cfg(feature = "process")]
mod adapter;
mod audit;
mod call;
mod doctor;
mod key;
mod operate;
mod output;
mod presets;
mod setup;
mod store;
mod tasks;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use taskbridge_sdk::Registry;

use self::output::{GOOD, print, print_error, print_failure, styled};
use self::setup::{connect, dev, init, manual, welcome};
use crate::app::{self, App, Origin, pluralize};
use crate::clock::{Clock as _, System};
use crate::config::locate::Environment;
use crate::config::{self, Config, Sources};
use crate::shutdown::{self, Hangups, Shutdown};
use crate::telemetry;

/// Lets MCP clients run work in the engines you already have, as durable tasks.
#[derive(Parser)]
#[command(name = "taskbridge", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    serve: Serve,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve MCP over HTTP, or over stdio (the default command).
    Serve(Serve),
    /// Call a tool of a running server, watch its job, answer its questions, and print its result.
    Call(call::Options),
    /// Serve demo tools, for a first try: without a config, and nothing is kept.
    Dev(dev::Options),
    /// Write a config for your engine, check it, and print what to run next.
    Init(init::Options),
    /// Print the settings with which an MCP client reaches this server, or write them into its file.
    Connect(connect::Options),
    /// Check a config file without starting anything, and report all its errors.
    Check {
        #[command(flatten)]
        file: File,
        /// Do not read secrets: neither environment variables nor secret files.
        #[arg(long)]
        no_secrets: bool,
    },
    /// Check the config, the store, the backends and everything else that a server needs, without changing
    /// anything, and print what to fix. Exits with 1 if something will not work.
    Doctor(doctor::Options),
    /// Print the tools that backends offer, as config to paste.
    Discover(doctor::DiscoverOptions),
    /// Print the JSON Schema of config files.
    Schema,
    /// List the engines that are known, print what is known of one, as config, or try it against your engine.
    Presets(presets::Options),
    /// Generate API keys.
    #[command(subcommand)]
    Key(key::Command),
    /// Migrate the schema of a PostgreSQL store, and print what was done.
    #[cfg(feature = "postgres")]
    Migrate {
        #[command(flatten)]
        file: File,
    },
    /// List tasks and their history, and cancel or retry a task, while servers run.
    #[command(subcommand)]
    Tasks(tasks::Command),
    /// Check the audit log for tampering, and print its entries.
    #[command(subcommand)]
    Audit(audit::Command),
    /// Test, describe and create adapter programs.
    #[cfg(feature = "process")]
    #[command(subcommand)]
    Adapter(adapter::Command),
    /// Maintain the store itself.
    #[command(subcommand)]
    Store(store::Command),
    /// Print the completions of a shell.
    Completions(manual::Shells),
    /// Write the manual pages into a folder.
    Man(manual::Folder),
}

/// What the server prints at its start.
#[derive(Clone, Copy)]
enum Greeting {
    /// How to connect.
    Config,
    /// What to try with the demo tools.
    Demo,
}

#[derive(Args)]
struct Serve {
    #[command(flatten)]
    file: File,
    /// The address and port to listen on, instead of the config's.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "stdio")]
    listen: Option<SocketAddr>,
    /// Serve one client over standard input and output.
    #[arg(long)]
    stdio: bool,
    /// Do not start unless every backend connects.
    #[arg(long)]
    strict: bool,
}

#[derive(Args)]
struct File {
    /// The config file. Without it: $TASKBRIDGE_CONFIG, then ./config/taskbridge.toml, then
    /// $XDG_CONFIG_HOME/taskbridge/taskbridge.toml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The role in which an adapter runs this program as a helper of its jobs.
const HELPER_ROLE: &str = "adapter-helper";

/// Limit on open files that the process requests. The usual 1,024 is less than the number of clients that may
/// wait.
const MAX_OPEN_FILES: u64 = 32_768;

/// How long running threads may delay the exit of the process.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs the program with these adapters: parses the command line and executes the command.
pub fn main_with(registry: Registry) -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Other processes of the same user, such as local jobs, must not read this process's memory or
    // environment. A seccomp filter may deny the call; the server then works without this protection.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // Before any thread exists: a helper may have to stay single-threaded.
    if arguments.get(1).is_some_and(|role| role == HELPER_ROLE) {
        return run_helper(&registry, &arguments[2..]);
    }
    crate::isolation::install_panic_hook();
    let cli = Cli::parse_from(arguments);
    let done = |result: Result<(), String>| result.map(|()| ExitCode::SUCCESS);
    let result = match cli.command {
        None => done(serve(&registry, cli.serve, Greeting::Config)),
        Some(Command::Serve(options)) => done(serve(&registry, options, Greeting::Config)),
        Some(Command::Dev(options)) => done(dev::run(&registry, &options)),
        Some(Command::Init(options)) => init::run(&registry, &options),
        Some(Command::Connect(options)) => connect::run(&registry, &options),
        Some(Command::Check { file, no_secrets }) => done(check(&registry, &file, no_secrets)),
        Some(Command::Call(options)) => call::call(options),
        Some(Command::Tasks(command)) => tasks::run(&registry, command),
        Some(Command::Audit(command)) => audit::run(&registry, command),
        Some(Command::Doctor(options)) => doctor::run(&registry, &options),
        Some(Command::Discover(options)) => done(doctor::discover(&registry, &options)),
        #[cfg(feature = "postgres")]
        Some(Command::Migrate { file }) => done(store::postgres::migrate(&registry, &file)),
        Some(Command::Store(command)) => store::run(&registry, command),
        #[cfg(feature = "process")]
        Some(Command::Adapter(command)) => adapter::run(command),
        Some(Command::Key(command)) => {
            key::run(&command);
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Presets(options)) => presets::run(&registry, &options),
        Some(Command::Schema) => {
            print(&format!("{:#}\n", config::schema::generate(&registry)));
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Completions(shells)) => {
            manual::completions(&shells, Cli::command());
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Man(folder)) => done(manual::pages(&folder, Cli::command())),
    };
    result.unwrap_or_else(|message| {
        print_failure(&message);
        ExitCode::FAILURE
    })
}

fn run_helper(registry: &Registry, arguments: &[OsString]) -> ExitCode {
    let kind = arguments.first().and_then(|kind| kind.to_str()).unwrap_or_default();
    match registry.get(kind).and_then(|adapter| adapter.helper) {
        Some(helper) => helper(&arguments[1..]),
        None => {
            print_error(&format!("taskbridge: no adapter of kind `{kind}` has a helper"));
            ExitCode::FAILURE
        }
    }
}

/// Finds the config file.
fn find_config(file: &File, environment: &Environment) -> Result<PathBuf, String> {
    let found = environment.find_config(file.config.as_deref(), Path::new(""));
    found.map_err(|text| format!("taskbridge: {text}"))
}

/// Finds and reads the config. Errors are returned as they are, one per line.
fn load(registry: &Registry, file: &File, environment: &Environment) -> Result<(Config, Sources), String> {
    let file = find_config(file, environment)?;
    let config_load = config::read(&file, registry, environment.state_home.as_deref());
    let config = config_load.config.map_err(|problems| problems.to_string())?;
    Ok((config, config_load.sources))
}

fn check(registry: &Registry, file: &File, no_secrets: bool) -> Result<(), String> {
    let environment = Environment::of_process();
    let config = match no_secrets {
        false => load(registry, file, &environment)?.0,
        true => {
            let file = find_config(file, &environment)?;
            let result = config::check_without_secrets(&file, registry, environment.state_home.as_deref());
            result.map_err(|problems| problems.to_string())?
        }
    };
    let extras = [(config.resources.count(), "resource"), (config.prompts.count(), "prompt")];
    let extras =
        extras.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {}", pluralize(n, what)));
    let extras: String = extras.collect();
    print(&format!(
        "{}: {}{}: {} on {}{}\n",
        config.file.display(),
        styled(GOOD, "all right"),
        if no_secrets { ", secrets not checked" } else { "" },
        pluralize(config.tools.len(), "tool"),
        pluralize(config.backends.len(), "backend"),
        extras,
    ));
    // Without secrets it is unknown whether connections use TLS.
    let warnings = if no_secrets { Vec::new() } else { config.warnings(System.now()) };
    for warning in warnings {
        print_error(&format!("warning: {warning}"));
    }
    Ok(())
}

fn serve(registry: &Registry, options: Serve, greeting: Greeting) -> Result<(), String> {
    let environment = Environment::of_process();
    let (mut config, sources) = load(registry, &options.file, &environment)?;
    if let Some(address) = options.listen {
        config.listen_on(address).map_err(|text| format!("taskbridge: --listen {address}: {text}"))?;
    }
    if options.stdio && config.audit.stdout {
        return Err(format!(
            "taskbridge: {}: audit.to: --stdio uses standard output for its client: write \"file\" or \"store\"",
            config.file.display()
        ));
    }
    let mut exporter = telemetry::init(&config.log, environment.log.as_deref(), config.telemetry.as_ref())
        .map_err(|text| format!("taskbridge: {text}"))?;
    let program = std::env::current_exe()
        .map_err(|error| format!("taskbridge: the path of this program cannot be determined: {error}"))?;
    let (file, state_home) = (config.file.clone(), environment.state_home.clone());
    let origin =
        Origin { file, sources, registry: registry.clone(), program, state_home, strict: options.strict };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| format!("taskbridge: threads cannot be started: {error}"))?;
    let result = runtime.block_on(async {
        let stop = Shutdown::default();
        let signals = shutdown::listen(stop.clone()).map_err(|error| error.to_string())?;
        let hangups = Hangups::listen(&stop).map_err(|error| error.to_string())?;
        shutdown::ignore_file_size_signal().map_err(|error| error.to_string())?;
        let serving = async {
            if options.stdio {
                over_stdio(config, origin, hangups, &stop).await
            } else {
                over_http(config, origin, hangups, &stop, greeting).await
            }
        };
        let exporting = async {
            match &mut exporter {
                Some(exporter) => exporter.run().await,
                None => std::future::pending().await,
            }
        };
        let result = tokio::select! {
            result = serving => result,
            never = exporting => match never {},
            () = stop.immediate.cancelled() => Ok(()),
            () = async { signals.await; std::future::pending().await } => Ok(()),
        };
        if let Some(exporter) = &mut exporter {
            exporter.finish().await;
        }
        result
    });
    // A read of standard input blocks its thread, and nothing can interrupt it.
    runtime.shutdown_timeout(EXIT_TIMEOUT);
    result.map_err(|text| format!("taskbridge: {text}"))
}

async fn over_http(
    config: Config,
    origin: Origin,
    hangups: Hangups,
    stop: &Shutdown,
    greeting: Greeting,
) -> Result<(), String> {
    allow_many_connections();
    // Binds the address first, so that a second server started by mistake changes nothing.
    let listener = app::listen(&config).await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let metrics_listener = app::listen_for_metrics(&config).await.map_err(|error| error.to_string())?;
    let welcome = match greeting {
        Greeting::Demo => dev::welcome(&format!("http://{address}/mcp")),
        Greeting::Config => welcome::text(
            &config,
            address,
            metrics_listener.as_ref().and_then(|socket| socket.local_addr().ok()),
        ),
    };
    config.warnings(System.now()).iter().for_each(|warning| tracing::warn!("{warning}"));
    // If the audit log uses standard output, nothing else may write there.
    let greet = if config.audit.stdout { print_error } else { print };
    let console_listener = app::listen_for_console(&config).await.map_err(|error| error.to_string())?;
    let app = build(config, origin, hangups).await?.with_metrics_listener(metrics_listener);
    let app = app.with_console(console_listener, Box::new(greet));
    greet(&welcome);
    app.serve_http(listener, stop.graceful.clone()).await.map_err(|error| error.to_string())
}

async fn over_stdio(config: Config, origin: Origin, hangups: Hangups, stop: &Shutdown) -> Result<(), String> {
    // A client may start one server for each of its windows, and only the first can bind the address.
    let metrics_listener = app::listen_for_metrics(&config).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "metrics of this process are not available");
        None
    });
    let app = build(config, origin, hangups).await?.with_metrics_listener(metrics_listener);
    if io::stdin().is_terminal() {
        print_error(
            "taskbridge: --stdio waits for MCP messages of a client on standard input; Ctrl-C stops it. To try tools \
             by hand, run `taskbridge` without --stdio, and `taskbridge call` in another terminal",
        );
    }
    let input = tokio::io::BufReader::new(tokio::io::stdin());
    app.serve_stdio(input, tokio::io::stdout(), stop.graceful.clone())
        .await
        .map_err(|error| error.to_string())
}

async fn build(config: Config, origin: Origin, hangups: Hangups) -> Result<App, String> {
    let result = App::build(config, &origin.registry, origin.program.clone(), origin.strict).await;
    Ok(result.map_err(|error| error.to_string())?.with_reload(origin, hangups))
}

/// Raises the soft limit on open files, up to the hard limit. Without it the server supports fewer concurrent
/// clients.
fn allow_many_connections() {
    let limit = getrlimit(Resource::Nofile);
    let soft_limit = limit.maximum.map_or(MAX_OPEN_FILES, |hard| hard.min(MAX_OPEN_FILES));
    if limit.current.is_some_and(|soft| soft < soft_limit)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(soft_limit), ..limit })
    {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
}
