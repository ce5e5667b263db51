//! [`Postgres`]: a real PostgreSQL server for tests, in its own folder, on a free port of 127.0.0.1. A shell
//! supervises it: when the test process ends in any way, the shell's stdin closes, and it stops the server by
//! its process id.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use taskbridge_store::postgres::ConnectionConfig;

use super::port::Port;

/// The role that owns everything, and its password.
const USER: &str = "tester";
const PASSWORD: &str = "s3cret/with:odd@signs";

/// The role and its password, encoded for a URL.
const LOGIN: &str = "tester:s3cret%2Fwith%3Aodd%40signs";

/// Starts the server ($1 $2...) and prints `ready` when it accepts connections. Waits until stdin names a
/// signal or closes, stops the server, and deletes $REMOVE.
const SUPERVISOR_SCRIPT: &str = r#"
"$@" >>"$LOG" 2>&1 &
pid=$!
until "$READY" -q -h 127.0.0.1 -p "$PORT"; do
    kill -0 "$pid" 2>/dev/null || { echo failed; exit 1; }
    sleep 0.05
done
echo ready
read -r how || how=INT
kill -s "$how" "$pid"
wait "$pid"
[ -z "$REMOVE" ] || rm -rf "$REMOVE"
"#;

/// A server. Dropping it stops it.
pub(crate) struct Postgres {
    folder: PathBuf,
    port: Port,
    supervisor: Option<Child>,
    /// Settings in addition to the common ones.
    settings: Vec<String>,
    /// The environment of the server's processes, as `NAME=VALUE`.
    environment: Vec<String>,
    /// The folder of a server of one test, deleted with it.
    own_folder: Option<tempfile::TempDir>,
    /// The keeper deletes the folder of the shared server.
    is_shared: bool,
}

/// How a server is stopped. Both ways disconnect all clients.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// Gracefully.
    Fast,
    /// At once, as if it had crashed.
    Immediate,
}

/// Returns the server that tests share, each with its own schema.
pub(crate) fn shared() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("taskbridge-postgres-").tempdir().unwrap().keep();
        let mut server = Postgres::at(folder);
        server.is_shared = true;
        server.initialize_and_run()
    })
}

/// Returns a schema name that no other test uses.
pub(crate) fn schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The contents of the certificate.
const CERTIFICATE: &str = "[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = 127.0.0.1
[extensions]
subjectAltName = IP:127.0.0.1
basicConstraints = critical,CA:FALSE
";

impl Postgres {
    /// Starts a server that only one test uses, and can stop.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Self::at(folder.path().to_owned());
        server.own_folder = Some(folder);
        server.initialize_and_run()
    }

    /// Starts a server in this folder, with these settings.
    pub(crate) fn start_in(folder: &Path, settings: &[&str]) -> Self {
        Self::start_with(folder, settings, Vec::new())
    }

    /// Starts a server with this environment (`NAME=VALUE`).
    pub(crate) fn start_with(folder: &Path, settings: &[&str], environment: Vec<String>) -> Self {
        let mut server = Self::at(folder.to_owned());
        server.settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        server.environment = environment;
        server.initialize_and_run()
    }

    fn at(folder: PathBuf) -> Self {
        Self {
            folder,
            port: Port::reserve(),
            supervisor: None,
            settings: Vec::new(),
            environment: Vec::new(),
            own_folder: None,
            is_shared: false,
        }
    }

    fn initialize_and_run(mut self) -> Self {
        let server = &mut self;
        fs::set_permissions(&server.folder, fs::Permissions::from_mode(0o755)).unwrap();
        let data = server.path("data");
        fs::create_dir(&data).unwrap();
        fs::write(server.path("password"), PASSWORD).unwrap();
        if rustix::process::geteuid().is_root() {
            // The server refuses to run as root, and the user that it runs as must have write access.
            let chown = Command::new("chown").args(["-R", "nobody"]).arg(&server.folder).status().unwrap();
            assert!(chown.success());
        }
        let mut init = as_nobody(&binary("initdb"));
        init.arg("--pgdata").arg(&data).args([
            "--username",
            USER,
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        init.args(["--auth-host=scram-sha-256", "--auth-local=trust"]);
        init.arg("--pwfile").arg(server.path("password")).current_dir(&server.folder);
        let output = init.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        server.run();
        self
    }

    /// Starts the server, also after it was stopped.
    pub(crate) fn run(&mut self) {
        let mut command = Command::new("sh");
        command.args(["-c", SUPERVISOR_SCRIPT, "keeper"]);
        // The variables are set after the change of the user, because a preloaded library may depend on the
        // user.
        let mut server = as_nobody(Path::new("env"));
        server.args(&self.environment).arg(binary("postgres"));
        command.arg(server.get_program()).args(server.get_args());
        command.arg("-D").arg(self.path("data")).arg("-k").arg(&self.folder);
        command.args(["-p", &self.port.number.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "max_connections=300", "-c", "shared_buffers=32MB", "-c", "fsync=off"]);
        let remove = if self.is_shared { self.folder.as_path() } else { Path::new("") };
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.env("LOG", self.path("log")).env("READY", binary("pg_isready"));
        command.env("PORT", self.port.number.to_string()).env("REMOVE", remove);
        // A separate process group does not receive signals that are sent to the tests.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut supervisor = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready", "{}", self.log());
        self.supervisor = Some(supervisor);
    }

    /// Stops the server and disconnects all clients.
    pub(crate) fn stop(&mut self) {
        self.stop_with(Stop::Fast);
    }

    /// Stops the server in this way.
    pub(crate) fn stop_with(&mut self, mode: Stop) {
        if let Some(mut supervisor) = self.supervisor.take() {
            let signal = match mode {
                Stop::Fast => "INT\n",
                Stop::Immediate => "QUIT\n",
            };
            // A keeper that is already gone has stopped the server.
            let _ = supervisor.stdin.take().unwrap().write_all(signal.as_bytes());
            supervisor.wait().unwrap();
        }
    }

    /// Returns true while the server's main process exists, whether it accepts connections or not.
    pub(crate) fn is_running(&self) -> bool {
        let pid = fs::read_to_string(self.path("data/postmaster.pid")).unwrap_or_default();
        pid.lines().next().is_some_and(|pid| Path::new("/proc").join(pid.trim()).exists())
    }

    /// Returns its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Restarts it with TLS and a certificate for 127.0.0.1, and returns the path of that certificate.
    pub(crate) fn with_tls(&mut self) -> PathBuf {
        self.stop();
        let (config, key, certificate) =
            (self.path("openssl.cnf"), self.path("key.pem"), self.path("cert.pem"));
        fs::write(&config, CERTIFICATE).unwrap();
        let mut openssl = as_nobody(Path::new("openssl"));
        openssl.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec"]);
        openssl.args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-config"]).arg(config);
        openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        let output = openssl.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.settings = vec![
            "ssl=on".to_owned(),
            format!("ssl_key_file={}", key.display()),
            format!("ssl_cert_file={}", certificate.display()),
        ];
        self.run();
        certificate
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the URL of its database, with the password.
    pub(crate) fn url(&self) -> String {
        format!("postgres://{LOGIN}@127.0.0.1:{}/postgres", self.port.number)
    }

    /// Returns the address without user, password and database: `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port.number)
    }

    /// Returns a schema of its database.
    pub(crate) fn connection_config(&self, schema: &str) -> ConnectionConfig {
        ConnectionConfig::parse(&self.url()).unwrap().in_schema(schema).unwrap()
    }

    /// Opens a connection in this schema.
    pub(crate) async fn client(&self, schema: &str) -> tokio_postgres::Client {
        self.try_client(schema).await.unwrap()
    }

    /// Opens a connection in this schema, or returns an error if the server is down.
    pub(crate) async fn try_client(
        &self,
        schema: &str,
    ) -> Result<tokio_postgres::Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await?;
        #[expect(clippy::disallowed_methods, reason = "a test's own connection needs somebody to drive it")]
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {schema}")).await?;
        Ok(client)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns a command that does not run as root.
fn as_nobody(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
    command
}

/// Returns the path of a PostgreSQL program: Debian keeps those of the server out of `PATH`.
fn binary(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists()).collect();
    found.sort();
    found.pop().unwrap_or_else(|| name.into())
}
