//! Tests of jobs that run as each caller's own Unix user. As root, the tests use sudo and users that exist on
//! every Debian. Otherwise, a fake sudo records which command would run as which user.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use taskbridge_sdk::{Error, ErrorKind, Finding, JobHandle, JobSpec, JobState, OnBehalfOf, Verdict};

use crate::harness::world::{
    TestCluster, World, assert_contains, job_number, poll_until_ended, report_untested, wait_until_running,
};

/// Two users of a Debian system that have groups of their own names, and no jobs except those of these tests.
const ANNS_USER: &str = "daemon";
const BOBS_USER: &str = "games";

/// Returns the job with this caller.
fn on_behalf_of(caller: &str, job: JobSpec) -> JobSpec {
    JobSpec { on_behalf_of: Some(OnBehalfOf::named(caller)), ..job }
}

fn run_command(command: &mut Command) -> (bool, String) {
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Returns a fake sudo that records its arguments and runs the command as the current user. It refuses
/// commands for `games`.
fn fake_sudo(world: &World) -> Value {
    let path = world.script("sudo", &format!(
        "printf '%s\\n' \"$*\" >>{0}/sudo.calls\ncase $3 in games) echo 'sudo: a password is required' >&2; exit 1 ;; esac\nshift 4\nexec \"$@\"",
        world.folder().display()
    ));
    json!([path, "-n"])
}

/// Returns a config in which ann's and bob's jobs run as two users, with a group of the user who runs the
/// tests.
fn config_with_two_users(sudo: Value) -> Value {
    let (_, group) = run_command(Command::new("id").arg("-gn"));
    let group = group.trim();
    json!({"sudo": sudo, "run_as": {"ann": {"user": ANNS_USER, "group": group}, "bob": {"user": BOBS_USER, "group": group}}})
}

/// A server without the caller in `run_as` reports the job as a config error, and not as gone.
#[tokio::test(flavor = "multi_thread")]
async fn job_commands_run_as_caller() {
    let world = World::on(TestCluster::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let backend = world.connect_another(config_with_two_users(fake_sudo(&world))).await.unwrap();
    world.commands.calls();
    let sudo_calls = || fs::read_to_string(world.folder().join("sudo.calls")).unwrap_or_default();

    let waiting_job = on_behalf_of("ann", world.job("waits", "exec sleep 600"));
    let handle = backend.start(&waiting_job).await.unwrap().handle;
    assert!(handle.as_str().ends_with("/daemon"), "{handle}");
    wait_until_running(&*backend, &handle).await;
    backend.cancel(&handle).await.unwrap();
    let observation = poll_until_ended(&*backend, &handle).await;
    assert!(matches!(observation.state, JobState::Cancelled(_)), "{observation:?}");
    let calls = world.commands.calls();
    let lines = sudo_calls();
    assert!(lines.lines().all(|line| line.starts_with("-n -u daemon -- ")), "{lines}");
    assert_eq!(lines.lines().count(), calls.len(), "a command ran without sudo: {calls:?}\n{lines}");
    for name in ["sbatch", "scontrol", "squeue", "scancel"] {
        assert!(lines.lines().any(|line| line.contains(&format!("/{name} "))), "{name} is not in {lines}");
    }

    // Unknown callers, and callers that sudo refuses, get no job; in particular none as our own user.
    for (job, kind, expected) in [
        (
            on_behalf_of("carol", world.job("carol", "echo no")),
            ErrorKind::Denied,
            "no Unix user for the caller `carol`",
        ),
        (world.job("nobody", "echo no"), ErrorKind::Denied, "no authenticated caller"),
        (on_behalf_of("bob", world.job("bob", "echo no")), ErrorKind::Config, "a password is required"),
    ] {
        let error: Error = backend.start(&job).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains(expected)), (kind, true), "{error}");
        assert_eq!(world.queue(&job), [""; 0]);
    }
    let command_names: Vec<String> = world.commands.calls().into_iter().map(|call| call[0].clone()).collect();
    assert!(!command_names.iter().any(|name| name == "sbatch"), "{command_names:?}");
    // A user that the config no longer names is not replaced by another.
    let other_handle = JobHandle::new(handle.as_str().replace("/daemon", "/mail"));
    assert_eq!(backend.observe(&other_handle).await.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(backend.cancel(&other_handle).await.unwrap_err().kind(), ErrorKind::Config);
    // A server without `run_as` in its config does not report such a job as lost either.
    assert_eq!(world.backend.observe(&handle).await.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(world.backend.cancel(&handle).await.unwrap_err().kind(), ErrorKind::Config);
}

/// `doctor` reports for each user in `run_as` whether sudo permits it.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_sudo_rights() {
    let world = World::on(TestCluster::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let backend = world.connect_another(config_with_two_users(fake_sudo(&world))).await.unwrap();
    let findings = backend.abilities().checkup.unwrap().check_up(&[]).await;
    let finding_for =
        |name: &str| -> &Finding { findings.iter().find(|finding| finding.what == name).unwrap() };
    assert_eq!(finding_for("as the user daemon").verdict, Verdict::Ok, "{findings:?}");
    let games_finding = finding_for("as the user games");
    assert_eq!(games_finding.verdict, Verdict::Fault, "{findings:?}");
    assert!(games_finding.says.contains("a password is required"), "{games_finding:?}");
}

/// Returns the folder of a job.
fn folder_of(world: &World, handle: &JobHandle) -> std::path::PathBuf {
    world.folder().join("jobs").join(handle.as_str().split('/').nth(2).unwrap())
}

/// Returns whether another user can read a file.
fn can_read(user: &[&str], path: &Path) -> bool {
    run_command(Command::new("sudo").arg("-n").args(user).args(["--", "cat"]).arg(path)).0
}

/// Jobs run as the users of their callers, and one user cannot read another's files.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_users_are_isolated() {
    if !is_root() {
        // Only root can act as another user without a sudo rule.
        return report_untested(
            "jobs of two Unix users, which needs root",
            "another test checks the calls of sudo",
        );
    }
    let world = World::on(TestCluster::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let people = json!({"ann": {"user": ANNS_USER}, "bob": {"user": BOBS_USER}});
    // Root needs no rule, and has none that passes variables.
    let sudo = ["sudo", "-n", "--preserve-env=SLURM_TIME_FORMAT,SLURM_BITSTR_LEN,SLURM_UMASK"];
    let backend = world.connect_another(json!({"run_as": people, "sudo": sudo})).await.unwrap();

    let lines = "id -un; mkdir sub; echo a >sub/a.csv; chmod 700 sub; ln -s /etc/hostname b.csv; ln -s /etc sub/etc; cat $TASKBRIDGE_ARGUMENTS";
    let job = on_behalf_of(
        "ann",
        world.job_with("ann", lines, json!({"secret": "anns"}), json!({"artifacts": ["**/*.csv"]})),
    );
    let handle = backend.start(&job).await.unwrap().handle;
    let observation = poll_until_ended(&*backend, &handle).await;
    assert_contains(&observation, &[ANNS_USER, "anns"]);
    let JobState::Succeeded(output) = &observation.state else { panic!("{observation:?}") };
    assert_eq!(output.artifacts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["sub/a.csv"]);

    // She can read what her job needs, members of her group can read what her job wrote, and no other user
    // can read anything.
    let folder = folder_of(&world, &handle);
    let group = fs::metadata(&folder).unwrap().gid();
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o2710);
    for name in ["logs/out", "work/sub/a.csv", "ends/job.0"] {
        let metadata = fs::metadata(folder.join(name)).unwrap();
        assert_eq!((metadata.gid(), metadata.mode() & 0o007), (group, 0), "{name}");
        assert!(can_read(&["-u", ANNS_USER], &folder.join(name)), "{name}");
        assert!(
            can_read(&["-u", "nobody", "-g", ANNS_USER], &folder.join(name)),
            "the server shares her group: {name}"
        );
        assert!(!can_read(&["-u", BOBS_USER], &folder.join(name)), "{name}");
    }
    for (name, is_hers) in [
        ("arguments.json", true),
        ("script", true),
        ("plan.json", false),
        ("observed.json", false),
        ("id", false),
    ] {
        assert_eq!(can_read(&["-u", ANNS_USER], &folder.join(name)), is_hers, "{name}");
        assert!(!can_read(&["-u", BOBS_USER], &folder.join(name)), "{name}");
    }
    let can_write = |path: &str| {
        run_command(Command::new("sudo").args(["-n", "-u", ANNS_USER, "--", "touch"]).arg(folder.join(path)))
            .0
    };
    assert!(
        can_write("work/more") && !can_write("id") && !can_write("new"),
        "her job cannot write the server's files"
    );

    // Bob cannot reach her job, by its number or by its task.
    let waiting_job = on_behalf_of("ann", world.job("waits", "exec sleep 600"));
    let anns_handle = backend.start(&waiting_job).await.unwrap().handle;
    wait_until_running(&*backend, &anns_handle).await;
    for reference in [
        json!(job_number(&anns_handle)),
        json!(anns_handle.as_str()),
        json!(anns_handle.as_str().replace(ANNS_USER, BOBS_USER)),
    ] {
        for target in [
            json!({"script": null, "signal": {"job": "{{ job }}", "name": "TERM"}}),
            json!({"script": null, "attach": "{{ job }}"}),
            json!({"after": {"job": "{{ job }}", "when": "ended"}}),
        ] {
            let job = on_behalf_of(
                "bob",
                world.job_with("bob", "echo no", json!({"job": reference}), target.clone()),
            );
            let error = backend.start(&job).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{target} {reference}: {error}");
        }
    }
    let forged = JobHandle::new(anns_handle.as_str().replace(ANNS_USER, BOBS_USER));
    backend.cancel(&forged).await.unwrap();
    assert_eq!(backend.observe(&forged).await.unwrap().state, JobState::Gone);
    assert_eq!(backend.observe(&anns_handle).await.unwrap().state, JobState::Running);
    // In Slurm, each job belongs to its user. It is polled only with other jobs of that user.
    let users =
        world.cluster.run("squeue", &["-h", "-t", "all", "-j", &job_number(&anns_handle), "-o", "%u"]);
    assert_eq!(users.trim(), ANNS_USER);
    assert_ne!(backend.group(&anns_handle), backend.group(&forged));
    backend.cancel(&anns_handle).await.unwrap();
    assert!(matches!(poll_until_ended(&*backend, &anns_handle).await.state, JobState::Cancelled(_)));
}

fn is_root() -> bool {
    run_command(Command::new("id").arg("-u")).1.trim() == "0"
}

/// A user without a token is a config error, and a job uses the token of its caller.
#[tokio::test(flavor = "multi_thread")]
async fn slurmrestd_user_needs_own_token() {
    let world = World::on(TestCluster::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let rest = world.cluster.rest();
    let own = json!({"url": rest.address, "user": world.cluster.user, "token": rest.token});
    let config =
        |token: Option<&str>| json!({"rest": own, "run_as": {"ann": {"user": ANNS_USER, "token": token}}});
    let Err(error) = world.connect_another(config(None)).await else {
        panic!("the server's own token is used")
    };
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    if !is_root() {
        // Only root can have the cluster create a token for another user.
        return report_untested(
            "slurmrestd with tokens of two users, which needs root",
            "the test checks that a user without a token is refused",
        );
    }
    let token = world.cluster.run("scontrol", &["token", &format!("username={ANNS_USER}"), "lifespan=3600"]);
    let backend =
        world.connect_another(config(Some(token.trim().trim_start_matches("SLURM_JWT=")))).await.unwrap();
    let job = on_behalf_of("ann", world.job("ann", "id -un"));
    let handle = backend.start(&job).await.unwrap().handle;
    assert_contains(&poll_until_ended(&*backend, &handle).await, &[ANNS_USER]);
    // Her job cannot access its folder through a group that she is not in.
    let excluded_user = json!({"user": ANNS_USER, "group": BOBS_USER, "token": token.trim().trim_start_matches("SLURM_JWT=")});
    let backend =
        world.connect_another(json!({"rest": own, "run_as": {"ann": excluded_user}})).await.unwrap();
    let handle = backend.start(&on_behalf_of("ann", world.job("shut-out", "id -un"))).await.unwrap().handle;
    assert_contains(&poll_until_ended(&*backend, &handle).await, &["could not open the output files"]);
    let error = backend.start(&on_behalf_of("bob", world.job("bob", "id -un"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// Returns the README's sudo rule with these names.
fn sudo_rule(server: &str, callers: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```sudoers\n").unwrap();
    let rule = rest.split_once("```").unwrap().0;
    rule.replace("= taskbridge\n", &format!("= {server}\n")).replace("asmith, bjones", callers)
}

/// The documented rule permits Slurm's commands as the callers, and nothing else.
#[test]
fn sudo_rule_permits_only_slurm_commands() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rule");
    fs::write(&path, sudo_rule("www-data", "daemon, games")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Slurm's commands fail without a config. If they find this one, `SLURM_CONF` was passed on.
    let conf = dir.path().join("slurm.conf");
    fs::write(&conf, "ClusterName=lab\nSlurmctldHost=localhost\n").unwrap();
    let (is_valid, output) =
        run_command(Command::new("visudo").env("PATH", "/usr/sbin:/usr/bin").args(["-c", "-f"]).arg(&path));
    assert!(is_valid, "{output}");
    // If this process may create mounts, sudo itself is tested.
    if !run_command(Command::new("unshare").args(["-m", "true"])).0 {
        return report_untested(
            "that sudo enforces the README's rule, which needs a mount",
            "visudo reads the rule",
        );
    }
    let sudo = |arguments: &str| {
        let line = format!(
            "mount --bind {} /etc/sudoers && exec setpriv --reuid www-data --regid www-data --clear-groups env SLURM_CONF={} sudo -n {arguments}",
            path.display(),
            conf.display()
        );
        run_command(Command::new("unshare").args(["-m", "sh", "-c", &line]))
    };
    for user in ["daemon", "games"] {
        let (succeeded, output) = sudo(&format!("-u {user} -- sbatch --version"));
        assert!(succeeded && output.starts_with("slurm"), "{user}: {output}");
    }
    for refused in [
        "-u root -- sbatch --version",
        "-u mail -- sbatch --version",
        "-u daemon -- id",
        "-u daemon -- sh -c sbatch",
    ] {
        let (succeeded, output) = sudo(refused);
        assert!(!succeeded, "{refused}: {output}");
    }
}
