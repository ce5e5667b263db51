//! A server as a separate process: started on the servers' CPU, located by the address that it prints, and
//! stopped on drop.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Result;
use super::echo::Sizes;
use super::place::Places;
use super::process::Meter;

/// Time limit for the start of a server.
const PATIENCE: Duration = Duration::from_secs(120);

/// The store in the config file.
const FILE: &str = "path = \"tasks.db\"";

/// The engine in the config file.
const ENGINE: &str = "kind = \"sim\"";

/// The addresses of parts that a bridge shares with others, and its extra config.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shared<'a> {
    /// The URL of the database.
    pub(crate) database: Option<&'a str>,
    /// The address of the engine.
    pub(crate) engine: Option<&'a str>,
    /// Text to append to its config.
    pub(crate) more: &'a str,
}

/// A running server.
pub(crate) struct Server {
    process: Child,
    folder: PathBuf,
    /// The address on which it listens.
    pub(crate) address: SocketAddr,
    /// Its resource usage.
    pub(crate) meter: Meter,
}

impl Server {
    /// Starts the bare server: this executable in another mode. With `durable` it writes a row before it
    /// answers a call.
    pub(crate) fn echo(places: &Places, name: &str, sizes: Sizes, durable: bool) -> Result<Self> {
        Self::start(places, &format!("echo-{name}"), |folder| {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("echo").args([sizes.create, sizes.get, sizes.result].map(|size| size.to_string()));
            if durable {
                command.arg(folder.join("rows.db"));
            }
            Ok(command)
        })
    }

    /// Starts a bridge, with a new database on the disk of the build, or over shared parts. With `tells` its
    /// log has a line for each call to the engine or to the store.
    pub(crate) fn bridge(places: &Places, name: &str, shared: Shared<'_>, tells: bool) -> Result<Self> {
        Self::start(places, &format!("bridge-{name}"), |folder| {
            let mut text =
                fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/sim.toml"))?;
            if let Some(url) = shared.database {
                text = text.replace(FILE, &format!("kind = \"postgres\"\nurl = \"{url}\""));
            }
            if let Some(address) = shared.engine {
                text = text.replace(ENGINE, &format!("{ENGINE}\naddress = \"{address}\""));
            }
            text.push_str(shared.more);
            let config = folder.join("sim.toml");
            fs::write(&config, text)?;
            let mut command = serve(&config);
            if tells {
                command.env("TASKBRIDGE_LOG", "warn,calls=trace");
            }
            Ok(command)
        })
    }

    /// Returns the number of its calls to the engine and to the store, from its log.
    pub(crate) fn calls(&self) -> Result<(u64, u64)> {
        let (mut to_engine, mut to_store) = (0, 0);
        for line in BufReader::new(File::open(self.folder.join("log"))?).lines() {
            let line = line?;
            to_engine += u64::from(line.contains("to the engine"));
            to_store += u64::from(line.contains("to the store"));
        }
        Ok((to_engine, to_store))
    }

    /// Restarts the server over the same store, and returns the time until it listened.
    pub(crate) fn restart(&mut self, places: &Places) -> Result<Duration> {
        stop(&mut self.process);
        let log = self.folder.join("log");
        let since = Instant::now();
        (self.process, self.address) = run(places, serve(&self.folder.join("sim.toml")), &log)?;
        let took = since.elapsed();
        self.meter = Meter::of(self.process.id());
        Ok(took)
    }

    fn start(places: &Places, name: &str, command: impl FnOnce(&Path) -> Result<Command>) -> Result<Self> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let (process, address) = run(places, command(&folder)?, &folder.join("log"))?;
        let meter = Meter::of(process.id());
        Ok(Self { process, folder, address, meter })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.process);
        // The folder is below the build's folder. If it remains, the next run removes it first.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn serve(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taskbridge"));
    command.arg("serve").arg("--config").arg(config);
    command
}

/// Starts a server, and returns once it has printed its address.
fn run(places: &Places, mut command: Command, log: &Path) -> Result<(Child, SocketAddr)> {
    let file = File::create(log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut process = places.as_server(|| Ok(command.spawn()?))?;
    match wait_for_address(&mut process, log) {
        Ok(address) => Ok((process, address)),
        Err(error) => {
            stop(&mut process);
            Err(error)
        }
    }
}

fn stop(process: &mut Child) {
    // It may have ended by itself.
    let _ = process.kill();
    let _ = process.wait();
}

/// Reads the server's output until there is a line with its address.
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
        std::thread::sleep(Duration::from_millis(1));
    }
}
