//! The simulated engine as a separate process: `taskbridge adapter-helper sim --listen 127.0.0.1:PORT ...`.
//! It must not listen on any address but loopback.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use humantime_serde::re::humantime::parse_duration;
use tokio::net::TcpListener;

use super::{Config, SimEngine, serve};

const USAGE: &str = "\
usage: taskbridge adapter-helper sim --listen ADDRESS [options]
  --listen ADDRESS    loopback address and port; port 0 selects a free port, which is printed
  --mode MODE         keyed (default) or unkeyed
  --journal FILE      append a line KEY HANDLE TEXT for every accepted start
  --remember N        how many ended jobs are remembered (default 100000)
  --seed N            selects the requests that get faults (default 0)
  --start-lag TIME    how long a new job is unknown to polls, searches and cancellations, such as 5s (default 0s)
  --faults JSON       probabilities, such as {\"lost_reply\": 0.1, \"slow_ms\": 20}
";

/// Parsed command-line arguments.
struct Options {
    listen: SocketAddr,
    journal: Option<PathBuf>,
    config: Config,
}

/// Runs the helper role: serves an engine until the process is killed. The first line on stdout is
/// `listening on ADDRESS`.
pub(super) fn run(arguments: &[OsString]) -> ExitCode {
    let (code, message) = match parse(arguments) {
        Err(problem) => (2, format!("{problem}\n{USAGE}")),
        Ok(options) => match listen(&options) {
            Ok(error) => (1, format!("the listener failed: {error}\n")),
            Err(e) => (1, format!("{e}\n")),
        },
    };
    // If stderr is closed, only the exit code reports the failure.
    drop(io::stderr().write_all(message.as_bytes()));
    ExitCode::from(code)
}

fn parse(arguments: &[OsString]) -> Result<Options, String> {
    let (mut listen, mut journal, mut config) = (None, None, Config::default());
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let option = option.to_string_lossy();
        let value = rest.next().ok_or_else(|| format!("{option} needs a value"))?;
        let text = value.to_string_lossy();
        let invalid = |e: &dyn std::fmt::Display| format!("{option} {text}: {e}");
        match option.as_ref() {
            "--listen" => listen = Some(text.parse::<SocketAddr>().map_err(|e| invalid(&e))?),
            "--mode" => {
                config.mode = serde_json::from_value(text.as_ref().into()).map_err(|e| invalid(&e))?
            }
            "--journal" => journal = Some(PathBuf::from(value)),
            "--remember" => config.remember = text.parse().map_err(|e| invalid(&e))?,
            "--seed" => config.seed = text.parse().map_err(|e| invalid(&e))?,
            "--start-lag" => config.start_lag = parse_duration(&text).map_err(|e| invalid(&e))?,
            "--key-lifetime" => {
                config.key_lifetime = Some(parse_duration(&text).map_err(|e| invalid(&e))?);
            }
            "--faults" => config.faults = serde_json::from_str(&text).map_err(|e| invalid(&e))?,
            _ => return Err(format!("{option} is not an option")),
        }
    }
    let listen = listen.ok_or("--listen is missing")?;
    if !listen.ip().is_loopback() {
        return Err(format!("--listen {listen}: write a loopback address, such as 127.0.0.1:0"));
    }
    Ok(Options { listen, journal, config })
}

fn listen(options: &Options) -> io::Result<io::Error> {
    let engine = SimEngine::from_config(&options.config);
    if let Some(file) = &options.journal {
        engine.keep_journal(file)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(options.listen).await?;
        let mut stdout = io::stdout();
        writeln!(stdout, "listening on {}", listener.local_addr()?)?;
        stdout.flush()?;
        Ok(serve(listener, engine).await)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(arguments: &[&str]) -> String {
        let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
        parse(&arguments).err().expect("these arguments are wrong")
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(problem(&[]), "--listen is missing");
        assert_eq!(problem(&["--listen"]), "--listen needs a value");
        assert_eq!(problem(&["--port", "1"]), "--port is not an option");
        assert!(problem(&["--listen", "0.0.0.0:1"]).contains("write a loopback address"));
        assert!(problem(&["--mode", "keyd"]).starts_with("--mode keyd: unknown variant"));
        assert!(problem(&["--faults", "{\"lost\": 1}"]).contains("unknown field `lost`"));
    }
}
