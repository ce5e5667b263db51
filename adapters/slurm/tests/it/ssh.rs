//! Tests of a login node over ssh: a real sshd on this machine, with its own keys.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use taskbridge_sdk::{ErrorKind, JobState, OnBehalfOf};

use crate::harness::port::Port;
use crate::harness::world::{TestCluster, World, assert_contains, eventually, poll_until_ended};

/// An sshd that ends with the test.
struct Sshd {
    process: Child,
    dir: tempfile::TempDir,
    _port: Port,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Sshd {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let status =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)]).status();
            assert!(status.unwrap().success());
        }
        fs::copy(path("user.pub"), path("authorized")).unwrap();
        let reserved = Port::reserve();
        let port = reserved.number;
        let host = fs::read_to_string(path("host.pub")).unwrap();
        fs::write(path("known"), format!("[127.0.0.1]:{port} {host}")).unwrap();
        // sshd needs this folder when it runs as root.
        let _ = fs::create_dir("/run/sshd");
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\nStrictModes no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\n",
            path("host"),
            path("authorized"),
        );
        fs::write(path("sshd_config"), config).unwrap();
        let client = format!(
            "Host login1\nHostName 127.0.0.1\nPort {port}\nIdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nGlobalKnownHostsFile none\n",
            path("user"),
            path("known"),
        );
        fs::write(path("ssh_config"), client).unwrap();
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f", &path("sshd_config")])
            .stdin(Stdio::null())
            .stderr(fs::File::create(path("log")).unwrap())
            .spawn()
            .unwrap();
        let sshd = Self { process, dir, _port: reserved };
        eventually("sshd answers", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
        sshd
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Returns the ssh command for the config of a backend.
    fn command(&self) -> Vec<String> {
        let config = self.dir.path().join("ssh_config").display().to_string();
        ["ssh", "-F", &config, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"].map(str::to_owned).to_vec()
    }
}

/// A login node without sshd means that nothing was sent.
#[tokio::test(flavor = "multi_thread")]
async fn ssh_jobs_are_submitted_and_cancelled() {
    let mut sshd = Sshd::start().await;
    let ssh = json!({"host": "login1", "command": sshd.command()});
    let world = World::on(
        TestCluster::without_accounting(),
        json!({"ssh": ssh, "env": {"WORDS": "it's $HOME \"here\""}}),
    )
    .await;
    let lines = r#"echo "$1 and $WORDS"; echo "${SSH_CONNECTION:-no trace of ssh}"; exit 4"#;
    let job =
        world.job_with("fails", lines, json!({"word": "a 'b' $(c)\nd"}), json!({"args": ["{{ word }}"]}));
    let (_, observation) = world.run(&job).await;
    assert_contains(
        &observation,
        &["exit code 4", "a 'b' $(c)\nd and it's $HOME \"here\"", "no trace of ssh"],
    );

    let handle = world.backend.start(&world.job("waits", "exec sleep 600")).await.unwrap().handle;
    world.backend.cancel(&handle).await.unwrap();
    assert!(matches!(poll_until_ended(&*world.backend, &handle).await.state, JobState::Cancelled(_)));

    // Without an sshd, a start does not count as one that may have arrived.
    sshd.stop();
    let error = world.backend.start(&world.job("late", "true")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// The commands on a login node run through sudo as the caller.
#[tokio::test(flavor = "multi_thread")]
async fn ssh_jobs_run_as_caller() {
    let sshd = Sshd::start().await;
    let world = World::on(TestCluster::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let sudo = world
        .script("sudo", "printf '%s\\n' \"$1 $2 $3 $4 $5\" >>\"${0%/*}/sudo.calls\"; shift 4; exec \"$@\"");
    let group = Command::new("id").arg("-gn").output().unwrap().stdout;
    let person = json!({"user": "daemon", "group": String::from_utf8(group).unwrap().trim()});
    let ssh = json!({"host": "login1", "command": sshd.command()});
    let backend = world
        .connect_another(json!({"ssh": ssh, "sudo": [sudo, "-n"], "run_as": {"ann": person}}))
        .await
        .unwrap();
    let mut job = world.job("ann", "echo hers");
    job.on_behalf_of = Some(OnBehalfOf::named("ann"));
    let handle = backend.start(&job).await.unwrap().handle;
    assert_contains(&poll_until_ended(&*backend, &handle).await, &["hers"]);
    let sudo_calls = fs::read_to_string(world.folder().join("sudo.calls")).unwrap();
    assert!(sudo_calls.lines().all(|line| line.starts_with("-n -u daemon -- ")), "{sudo_calls}");
    assert!(sudo_calls.contains("/sbatch\n") && sudo_calls.contains("/scontrol\n"), "{sudo_calls}");
}
