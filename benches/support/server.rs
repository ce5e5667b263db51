//! A server as a process of its own: started on the servers' CPU, found by the address that it prints, stopped when it
//! is dropped.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;
use super::echo::Sizes;
use super::place::Places;
use super::process::Meter;

/// How long a server may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server.
pub(crate) struct Server {
    process: Child,
    folder: PathBuf,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// What it uses.
    pub(crate) meter: Meter,
}

impl Server {
    /// The bare server: this executable in another mode.
    pub(crate) fn echo(places: &Places, name: &str, sizes: Sizes) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("echo").args([sizes.create, sizes.get, sizes.result].map(|size| size.to_string()));
        Self::start(places, &format!("echo-{name}"), |_| Ok(command))
    }

    /// The bridge, with a new database on the disk that has the build.
    pub(crate) fn bridge(places: &Places, name: &str) -> Result<Self> {
        Self::start(places, &format!("bridge-{name}"), |folder| {
            let config = folder.join("sim.toml");
            fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/sim.toml"), &config)?;
            let mut command = Command::new(env!("CARGO_BIN_EXE_taskbridge"));
            command.arg("serve").arg("--config").arg(config);
            Ok(command)
        })
    }

    fn start(places: &Places, name: &str, command: impl FnOnce(&Path) -> Result<Command>) -> Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let log = folder.join("log");
        let file = File::create(&log)?;
        let mut command = command(&folder)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut process = places.as_server(|| Ok(command.spawn()?))?;
        match wait_for_address(&mut process, &log) {
            Ok(address) => {
                let meter = Meter::of(process.id());
                Ok(Self { process, folder, address, meter })
            }
            Err(error) => {
                stop(&mut process);
                Err(error)
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.process);
        // What is left is in the build's folder, and the next run removes it first.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn stop(process: &mut Child) {
    // It may have ended by itself.
    let _ = process.kill();
    let _ = process.wait();
}

/// Reads what the server prints until there is a line with its address.
fn wait_for_address(process: &mut Child, log: &Path) -> Result<SocketAddr> {
    let since = Instant::now();
    loop {
        let text = fs::read_to_string(log)?;
        let address = text.split_once("http://").and_then(|(_, rest)| rest.split_once("/mcp"));
        if let Some((address, _)) = address {
            return Ok(address.parse()?);
        }
        if let Some(status) = process.try_wait()? {
            return Err(format!("the server ended with {status}:\n{text}").into());
        }
        if since.elapsed() > PATIENCE {
            return Err(format!("the server does not say where it listens:\n{text}").into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
