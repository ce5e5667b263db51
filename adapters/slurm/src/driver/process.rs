//! Runs one Slurm command with a timeout, on this machine or through `ssh` on a login node. It must not know
//! what a command means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use taskbridge_sdk::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::config::{Config, environment};
use crate::notation::quote::word;

/// Maximum number of bytes of a command's output that are read: 100,000 jobs take 20 MB.
const MAX_OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// The umask of other users' jobs. It lets us read the files in a job's folder through its group.
pub(crate) const OTHER_USER_UMASK: &str = "0027";

/// How to run commands.
pub(crate) struct Runner {
    /// The prefix of a command that runs on a login node: `ssh -o BatchMode=yes user@login1 --`.
    ssh_prefix: Vec<String>,
    /// The user that commands run as, if it is not our own user.
    user: Option<String>,
    /// The prefix of a command that runs as another user, here or on a login node: `sudo -n -u asmith --`.
    sudo_prefix: Vec<String>,
    /// The folder of Slurm's commands, if they are not on the `PATH`.
    commands_dir: Option<PathBuf>,
    /// The complete environment of a command on this machine, except for `extra_variables`.
    local_environment: BTreeMap<String, String>,
    /// Additional variables of a command, on this machine or on a login node.
    extra_variables: BTreeMap<String, String>,
    timeout: Duration,
    /// The setting that limits the timeout, for the operator's log.
    limited_by: &'static str,
}

/// The result of a command.
pub(crate) struct CommandOutput {
    pub(crate) success: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The error of a command without a result.
pub(crate) enum CommandFailure {
    /// The command never started: here, or because ssh made no session.
    NotStarted(Error),
    /// The command may have started, and its result is unknown: it timed out or was killed, its output could
    /// not be read, or ssh failed.
    OutcomeUnknown(Error),
}

impl From<CommandFailure> for Error {
    fn from(failure: CommandFailure) -> Self {
        match failure {
            CommandFailure::NotStarted(error) | CommandFailure::OutcomeUnknown(error) => error,
        }
    }
}

impl Runner {
    pub(crate) fn new(config: &Config, timeout: Duration, user: Option<&str>) -> Result<Self> {
        let mut extra_variables = BTreeMap::from([
            ("LC_ALL".to_owned(), "C".to_owned()),
            // Times are in seconds since 1970, in any time zone of the machine.
            ("SLURM_TIME_FORMAT".to_owned(), "%s".to_owned()),
            // The complete list of an array's tasks, however long it is.
            ("SLURM_BITSTR_LEN".to_owned(), "0".to_owned()),
        ]);
        if let Some(path) = &config.slurm_conf {
            extra_variables.insert("SLURM_CONF".to_owned(), path.to_string_lossy().into_owned());
        }
        if user.is_some() {
            extra_variables.insert("SLURM_UMASK".to_owned(), OTHER_USER_UMASK.to_owned());
        }
        let sudo_prefix = match user {
            Some(user) => config.sudo.iter().cloned().chain(["-u", user, "--"].map(str::to_owned)).collect(),
            None => Vec::new(),
        };
        let ssh_prefix = match &config.ssh {
            Some(ssh) => ssh.command.iter().cloned().chain([ssh.host.clone(), "--".to_owned()]).collect(),
            None => Vec::new(),
        };
        Ok(Self {
            ssh_prefix,
            user: user.map(str::to_owned),
            sudo_prefix,
            commands_dir: config.commands_dir.clone(),
            local_environment: environment::command_environment()?,
            extra_variables,
            timeout,
            limited_by: match timeout < config.command_timeout {
                true => "a sixth of the server's `reconciler.lease`",
                false => "`command_timeout`",
            },
        })
    }

    /// Returns the name of the submitting user, if it is known. The name of our own user on a login node is
    /// unknown.
    pub(crate) fn user(&self) -> Option<&str> {
        let own_user =
            self.local_environment.get("USER").map(String::as_str).filter(|_| self.ssh_prefix.is_empty());
        self.user.as_deref().or(own_user)
    }

    /// Runs `name` with these arguments and this standard input.
    pub(crate) async fn run(
        &self,
        name: &str,
        arguments: &[String],
        input: &str,
    ) -> Result<CommandOutput, CommandFailure> {
        let program =
            self.commands_dir.as_deref().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        let mut command = self.command(&program, arguments);
        let spawned = command
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Dropping this future kills the command.
            .kill_on_drop(true)
            .spawn();
        let mut child =
            spawned.map_err(|e| CommandFailure::NotStarted(self.spawn_error(name, &program, e)))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let exchange = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A command that stops reading its input prints why.
                    let _ = stdin.write_all(input.as_bytes()).await;
                }
            };
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let read_out = async {
                match stdout {
                    Some(stdout) => stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut out).await,
                    None => Ok(0),
                }
            };
            let read_err = async {
                match stderr {
                    Some(stderr) => stderr.take(64 * 1024).read_to_end(&mut err).await,
                    None => Ok(0),
                }
            };
            let ((), stdout_result, stderr_result) = tokio::join!(write, read_out, read_err);
            stdout_result?;
            stderr_result?;
            let status = child.wait().await?;
            Ok::<_, std::io::Error>((status, out, err))
        };
        let result = tokio::time::timeout(self.timeout, exchange).await;
        let (status, out, err) =
            result.map_err(|_| CommandFailure::OutcomeUnknown(self.timeout_error(name)))?.map_err(|e| {
                CommandFailure::OutcomeUnknown(
                    Error::unavailable(format!("the output of {name} cannot be read")).caused_by(e),
                )
            })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let output = CommandOutput { success: status.success(), stdout: text(out), stderr: text(err) };
        // 255 is ssh's own failure, and the outcome of the command is unknown. The remote shell returns 127
        // for a missing command.
        match (self.ssh_prefix.is_empty(), status.code()) {
            (false, Some(255)) => {
                let error = super::error::parse("ssh", &output.stderr);
                let not_started =
                    output.stdout.is_empty() && super::error::is_connection_failure(&output.stderr);
                Err(if not_started {
                    CommandFailure::NotStarted(error)
                } else {
                    CommandFailure::OutcomeUnknown(error)
                })
            }
            (_, None) => {
                Err(CommandFailure::OutcomeUnknown(Error::unavailable(format!("{name} was killed"))))
            }
            _ => Ok(output),
        }
    }

    fn command(&self, program: &Path, arguments: &[String]) -> Command {
        let words = self.command_words(program, arguments);
        let (mut command, variables) = match self.ssh_prefix.split_first() {
            None => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]);
                (command, Some(&self.extra_variables))
            }
            Some((ssh, options)) => {
                let mut command = Command::new(ssh);
                command.args(options).arg(self.remote_line(&words));
                (command, None)
            }
        };
        command.env_clear().envs(&self.local_environment).envs(variables.into_iter().flatten());
        command
    }

    /// Returns the command and its arguments, after the prefix that runs it as another user.
    fn command_words(&self, program: &Path, arguments: &[String]) -> Vec<String> {
        let program = program.to_string_lossy().into_owned();
        self.sudo_prefix.iter().cloned().chain([program]).chain(arguments.iter().cloned()).collect()
    }

    /// Returns the timeout error. The log names the setting for the operator; a caller cannot change it.
    fn timeout_error(&self, name: &str) -> Error {
        let seconds = self.timeout.as_secs_f64();
        let limited_by = self.limited_by;
        tracing::warn!(
            command = name,
            seconds,
            "command timed out; the limit is {limited_by}, which can be raised"
        );
        Error::unavailable(format!("{name} timed out after {seconds:.1} s"))
    }

    fn spawn_error(&self, name: &str, program: &Path, error: std::io::Error) -> Error {
        let (setting, executable) = match (self.ssh_prefix.first(), self.sudo_prefix.first()) {
            (Some(ssh), _) => ("install it (openssh-client), or set `ssh.command`", ssh.clone()),
            (None, Some(sudo)) => ("install it, or set `sudo`", sudo.clone()),
            (None, None) => (
                "set `commands_dir` to the folder of Slurm's commands, `ssh` to run them on a login node, or `rest`",
                program.display().to_string(),
            ),
        };
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => Error::config(format!(
                "{name} cannot be run: `{executable}` does not exist or is not executable: {setting}"
            )),
            _ => Error::unavailable(format!("{name} cannot be run")),
        }
        .caused_by(error)
    }

    /// Returns the command line for the login node's shell. Every argument is one word. The job must not see
    /// more of the environment there than it would see here. ssh does not end a remote command, so `timeout`
    /// kills it there, up to a second after the timeout here.
    fn remote_line(&self, words: &[String]) -> String {
        let seconds = self.timeout.as_secs() + 1;
        let mut line = format!("exec timeout --signal=KILL {seconds} env -i");
        for name in environment::PASSED_VARIABLES {
            line.push_str(&format!(" ${{{name}+{name}=\"${name}\"}}"));
        }
        for (name, value) in &self.extra_variables {
            line.push_str(&format!(" {name}={}", word(value)));
        }
        for argument in words {
            line.push(' ');
            line.push_str(&word(argument));
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
        let command_line = |config: serde_json::Value, user: Option<&str>| -> Vec<String> {
            let config: Config = serde_json::from_value(config).unwrap();
            let runner = Runner::new(&config, Duration::from_secs(1), user).unwrap();
            let command = runner.command(Path::new("/opt/slurm/sbatch"), &["--comment=a b".to_owned()]);
            let command = command.as_std();
            let command_line = std::iter::once(command.get_program()).chain(command.get_args());
            command_line.map(|word| word.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(command_line(json!({}), None), ["/opt/slurm/sbatch", "--comment=a b"]);
        assert_eq!(
            command_line(json!({}), Some("asmith")),
            ["sudo", "-n", "-u", "asmith", "--", "/opt/slurm/sbatch", "--comment=a b"]
        );
        let line = command_line(json!({"ssh": {"host": "login1", "command": ["ssh"]}}), Some("asmith"));
        assert_eq!(line[..3], ["ssh", "login1", "--"]);
        // The variables are set before sudo, which passes on those that its rule names.
        let script = line[3].replace("exec sh -c ", "echo ");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let printed_line = String::from_utf8(output.stdout).unwrap();
        assert!(printed_line.starts_with("exec timeout --signal=KILL 2 env -i "), "{printed_line}");
        assert!(printed_line.contains(" SLURM_UMASK="), "{printed_line}");
        let expected_end =
            ["sudo", "-n", "-u", "asmith", "--", "/opt/slurm/sbatch", "--comment=a b"].map(word).join(" ");
        assert!(printed_line.ends_with(&format!(" {expected_end}\n")), "{printed_line}");
        assert!(!command_line(json!({"ssh": {"host": "login1"}}), None).join(" ").contains("SLURM_UMASK"));
    }

    /// Errors before the connection are distinct from a connection that broke later.
    #[tokio::test]
    async fn unreachable_ssh_host_runs_nothing() {
        for (message, not_started) in [
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
            let ssh = ["sh", "-c", &format!("printf '%s' '{message}' >&2; exit 255")];
            let config: Config =
                serde_json::from_value(json!({"ssh": {"host": "login1", "command": ssh}})).unwrap();
            let runner = Runner::new(&config, Duration::from_secs(20), None).unwrap();
            match runner.run("sbatch", &[], "").await {
                Err(CommandFailure::NotStarted(_)) => assert!(not_started, "{message}"),
                Err(CommandFailure::OutcomeUnknown(_)) => assert!(!not_started, "{message}"),
                Ok(_) => panic!("{message}"),
            }
        }
    }
}
