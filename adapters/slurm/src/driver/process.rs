//! Runs one Slurm command with a timeout, on this machine or through `ssh` on a login node. It must not know
//! what a command means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use taskbridge_sdk::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::config::Config;
use crate::environment;
use crate::quote::word;

/// Maximum number of bytes of a command's output that are read: 100,000 jobs take 20 MB.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// The umask of other users' jobs. It lets us read the files in a job's folder through its group.
pub(crate) const UMASK_OF_OTHERS: &str = "0027";

/// How to run commands.
pub(crate) struct Runner {
    /// The prefix of a command that runs on a login node: `ssh -o BatchMode=yes user@login1 --`.
    elsewhere: Vec<String>,
    /// The user that commands run as, if it is not our own user.
    user: Option<String>,
    /// The prefix of a command that runs as another user, here or on a login node: `sudo -n -u asmith --`.
    as_user: Vec<String>,
    /// The folder of Slurm's commands, if they are not on the `PATH`.
    commands: Option<PathBuf>,
    /// The complete environment of a command on this machine, except for `given`.
    here: BTreeMap<String, String>,
    /// Additional variables of a command, on this machine or on a login node.
    given: BTreeMap<String, String>,
    limit: Duration,
    /// The setting that limits the timeout, for the operator's log.
    limited_by: &'static str,
}

/// The result of a command.
pub(crate) struct CommandOutput {
    pub(crate) succeeded: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The error of a command without a result.
pub(crate) enum CommandFailure {
    /// The command never started: here, or because ssh made no session.
    NotRun(Error),
    /// The command may have started, and its result is unknown: it timed out or was killed, its output could
    /// not be read, or ssh failed.
    Lost(Error),
}

impl From<CommandFailure> for Error {
    fn from(unknown: CommandFailure) -> Self {
        match unknown {
            CommandFailure::NotRun(error) | CommandFailure::Lost(error) => error,
        }
    }
}

impl Runner {
    pub(crate) fn new(config: &Config, limit: Duration, user: Option<&str>) -> Result<Self> {
        let mut given = BTreeMap::from([
            ("LC_ALL".to_owned(), "C".to_owned()),
            // Times are in seconds since 1970, in any time zone of the machine.
            ("SLURM_TIME_FORMAT".to_owned(), "%s".to_owned()),
            // The complete list of an array's tasks, however long it is.
            ("SLURM_BITSTR_LEN".to_owned(), "0".to_owned()),
        ]);
        if let Some(path) = &config.slurm_conf {
            given.insert("SLURM_CONF".to_owned(), path.to_string_lossy().into_owned());
        }
        if user.is_some() {
            given.insert("SLURM_UMASK".to_owned(), UMASK_OF_OTHERS.to_owned());
        }
        let as_user = match user {
            Some(user) => config.sudo.iter().cloned().chain(["-u", user, "--"].map(str::to_owned)).collect(),
            None => Vec::new(),
        };
        let elsewhere = match &config.ssh {
            Some(ssh) => ssh.command.iter().cloned().chain([ssh.host.clone(), "--".to_owned()]).collect(),
            None => Vec::new(),
        };
        Ok(Self {
            elsewhere,
            user: user.map(str::to_owned),
            as_user,
            commands: config.commands_dir.clone(),
            here: environment::of_commands()?,
            given,
            limit,
            limited_by: match limit < config.command_timeout {
                true => "a sixth of the server's `reconciler.lease`",
                false => "`command_timeout`",
            },
        })
    }

    /// Returns the name of the submitting user, if it is known. The name of our own user on a login node is
    /// unknown.
    pub(crate) fn user(&self) -> Option<&str> {
        let ours = self.here.get("USER").map(String::as_str).filter(|_| self.elsewhere.is_empty());
        self.user.as_deref().or(ours)
    }

    /// Runs `name` with these arguments and this standard input.
    pub(crate) async fn run(
        &self,
        name: &str,
        arguments: &[String],
        input: &str,
    ) -> Result<CommandOutput, CommandFailure> {
        let program =
            self.commands.as_deref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        let mut command = self.command(&program, arguments);
        let spawned = command
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Dropping this future kills the command.
            .kill_on_drop(true)
            .spawn();
        let mut child = spawned.map_err(|e| CommandFailure::NotRun(self.not_spawned(name, &program, e)))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let talk = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A command that stops reading its input prints why.
                    let _ = stdin.write_all(input.as_bytes()).await;
                }
            };
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let read_out = async {
                match stdout {
                    Some(stdout) => stdout.take(MOST_BYTES).read_to_end(&mut out).await,
                    None => Ok(0),
                }
            };
            let read_err = async {
                match stderr {
                    Some(stderr) => stderr.take(64 * 1024).read_to_end(&mut err).await,
                    None => Ok(0),
                }
            };
            let ((), read, heard) = tokio::join!(write, read_out, read_err);
            read?;
            heard?;
            let status = child.wait().await?;
            Ok::<_, std::io::Error>((status, out, err))
        };
        let ended = tokio::time::timeout(self.limit, talk).await;
        let (status, out, err) =
            ended.map_err(|_| CommandFailure::Lost(self.timed_out(name)))?.map_err(|e| {
                CommandFailure::Lost(Error::unavailable(format!("{name} cannot be heard")).caused_by(e))
            })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let printed = CommandOutput { succeeded: status.success(), out: text(out), err: text(err) };
        // 255 is ssh's own failure, and the outcome of the command is unknown. The remote shell returns 127
        // for a missing command.
        match (self.elsewhere.is_empty(), status.code()) {
            (false, Some(255)) => {
                let error = super::refusal::error("ssh", &printed.err);
                let never_began = printed.out.is_empty() && super::refusal::is_of_no_session(&printed.err);
                Err(if never_began { CommandFailure::NotRun(error) } else { CommandFailure::Lost(error) })
            }
            (_, None) => Err(CommandFailure::Lost(Error::unavailable(format!("{name} was killed")))),
            _ => Ok(printed),
        }
    }

    fn command(&self, program: &Path, arguments: &[String]) -> Command {
        let words = self.words(program, arguments);
        let (mut command, given) = match self.elsewhere.split_first() {
            None => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                (command, Some(&self.given))
            }
            Some((ssh, options)) => {
                let mut command = Command::new(ssh);
                command.args(options).arg(self.remote_line(&words));
                (command, None)
            }
        };
        command.env_clear().envs(&self.here).envs(given.into_iter().flatten());
        command
    }

    /// Returns the command and its arguments, after the prefix that runs it as another user.
    fn words(&self, program: &Path, arguments: &[String]) -> Vec<String> {
        let program = program.to_string_lossy().into_owned();
        self.as_user.iter().cloned().chain([program]).chain(arguments.iter().cloned()).collect()
    }

    /// Returns the timeout error. The log names the setting for the operator; a caller cannot change it.
    fn timed_out(&self, name: &str) -> Error {
        let seconds = self.limit.as_secs_f64();
        let limited_by = self.limited_by;
        tracing::warn!(
            command = name,
            seconds,
            "a command of Slurm timed out; the limit is {limited_by}, which can be raised"
        );
        Error::unavailable(format!("{name} timed out after {seconds:.1} s"))
    }

    fn not_spawned(&self, name: &str, program: &Path, error: std::io::Error) -> Error {
        let (what, shown) = match (self.elsewhere.first(), self.as_user.first()) {
            (Some(ssh), _) => ("`ssh.command`", ssh.clone()),
            (None, Some(sudo)) => ("`sudo`", sudo.clone()),
            (None, None) => ("`commands_dir`", program.display().to_string()),
        };
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => Error::config(format!(
                "{name} cannot be run: `{shown}` is not there or is no program; see {what}"
            )),
            _ => Error::unavailable(format!("{name} cannot be run")),
        }
        .caused_by(error)
    }

    /// Returns the command line for the login node's shell. Every argument is one word. The job must not see
    /// more of the environment there than it would see here. ssh does not end a remote command, so `timeout`
    /// kills it there, up to a second after the timeout here.
    fn remote_line(&self, words: &[String]) -> String {
        let seconds = self.limit.as_secs() + 1;
        let mut line = format!("exec timeout --signal=KILL {seconds} env -i");
        for name in environment::KEPT {
            line.push_str(&format!(" ${{{name}+{name}=\"${name}\"}}"));
        }
        for (name, value) in &self.given {
            line.push_str(&format!(" {name}={}", word(value)));
        }
        for one in words {
            line.push(' ');
            line.push_str(&word(one));
        }
        // The user's login shell may not understand this syntax.
        format!("exec sh -c {}", word(&line))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The command runs through sudo, on this machine and over SSH, with the umask of the user.
    #[test]
    fn commands_of_users_use_sudo() {
        let words = |config: serde_json::Value, user: Option<&str>| -> Vec<String> {
            let config: Config = serde_json::from_value(config).unwrap();
            let runner = Runner::new(&config, Duration::from_secs(1), user).unwrap();
            let command = runner.command(Path::new("/opt/slurm/sbatch"), &["--comment=a b".to_owned()]);
            let command = command.as_std();
            let words = std::iter::once(command.get_program()).chain(command.get_args());
            words.map(|word| word.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(words(json!({}), None), ["/opt/slurm/sbatch", "--comment=a b"]);
        assert_eq!(
            words(json!({}), Some("asmith")),
            ["sudo", "-n", "-u", "asmith", "--", "/opt/slurm/sbatch", "--comment=a b"]
        );
        let line = words(json!({"ssh": {"host": "login1", "command": ["ssh"]}}), Some("asmith"));
        assert_eq!(line[..3], ["ssh", "login1", "--"]);
        // The variables are set before sudo, which passes on those that its rule names.
        let shown = line[3].replace("exec sh -c ", "echo ");
        let shown = std::process::Command::new("sh").args(["-c", &shown]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.starts_with("exec timeout --signal=KILL 2 env -i "), "{shown}");
        assert!(shown.contains(" SLURM_UMASK="), "{shown}");
        let end =
            ["sudo", "-n", "-u", "asmith", "--", "/opt/slurm/sbatch", "--comment=a b"].map(word).join(" ");
        assert!(shown.ends_with(&format!(" {end}\n")), "{shown}");
        assert!(!words(json!({"ssh": {"host": "login1"}}), None).join(" ").contains("SLURM_UMASK"));
    }

    /// Errors before the connection are distinct from a connection that broke later.
    #[tokio::test]
    async fn unreachable_ssh_host_runs_nothing() {
        for (words, never_began) in [
            ("ssh: connect to host login1 port 22: Connection refused", true),
            ("ssh: Could not resolve hostname login1: Name or service not known", true),
            ("bridge@login1: Permission denied (publickey).", true),
            ("No ED25519 host key is known for login1.\nHost key verification failed.", true),
            ("Connection to login1 closed by remote host.", false),
            ("client_loop: send disconnect: Broken pipe", false),
            // Output of the command before the connection broke.
            (
                "sbatch: error: Socket timed out\nssh: connect to host login1 port 22: Connection refused",
                false,
            ),
            ("", false),
        ] {
            let ssh = ["sh", "-c", &format!("printf '%s' '{words}' >&2; exit 255")];
            let config: Config =
                serde_json::from_value(json!({"ssh": {"host": "login1", "command": ssh}})).unwrap();
            let runner = Runner::new(&config, Duration::from_secs(20), None).unwrap();
            match runner.run("sbatch", &[], "").await {
                Err(CommandFailure::NotRun(_)) => assert!(never_began, "{words}"),
                Err(CommandFailure::Lost(_)) => assert!(!never_began, "{words}"),
                Ok(_) => panic!("{words}"),
            }
        }
    }
}
