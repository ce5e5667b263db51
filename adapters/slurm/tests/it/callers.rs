//! Tests of jobs that run as each caller's own Unix user. As root, the tests use sudo and users that exist on
//! every Debian. Otherwise, a fake sudo records which command would run as which user.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use taskbridge_sdk::{Error, ErrorKind, Finding, JobHandle, JobSpec, JobState, OnBehalfOf, Verdict};

use crate::world::{Held, World, assert_says, ended, number, runs, tried_otherwise};

/// Two users of a Debian system that have groups of their own names, and no jobs except those of these tests.
const ANNS: &str = "daemon";
const BOBS: &str = "games";

/// Returns the job with this caller.
fn of(caller: &str, job: JobSpec) -> JobSpec {
    JobSpec { on_behalf_of: Some(OnBehalfOf::named(caller)), ..job }
}

fn said(command: &mut Command) -> (bool, String) {
    let done = command.output().unwrap();
    (done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

/// Returns a fake sudo that records its arguments and runs the command as the current user. It refuses
/// commands for `games`.
fn stand_in(world: &World) -> Value {
    let path = world.script("sudo", &format!(
        "printf '%s\\n' \"$*\" >>{0}/sudo.calls\ncase $3 in games) echo 'sudo: a password is required' >&2; exit 1 ;; esac\nshift 4\nexec \"$@\"",
        world.folder().display()
    ));
    json!([path, "-n"])
}

/// Returns a config in which ann's and bob's jobs run as two users, with a group of the user who runs the
/// tests.
fn two_users(sudo: Value) -> Value {
    let (_, group) = said(Command::new("id").arg("-gn"));
    let group = group.trim();
    json!({"sudo": sudo, "run_as": {"ann": {"user": ANNS, "group": group}, "bob": {"user": BOBS, "group": group}}})
}

/// A server without the caller in `run_as` reports the job as a config error, and not as gone.
#[tokio::test(flavor = "multi_thread")]
async fn job_commands_run_as_caller() {
    let world = World::on(Held::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let backend = world.another(two_users(stand_in(&world))).await.unwrap();
    world.commands.calls();
    let told = || fs::read_to_string(world.folder().join("sudo.calls")).unwrap_or_default();

    let waits = of("ann", world.job("waits", "exec sleep 600"));
    let handle = backend.start(&waits).await.unwrap().handle;
    assert!(handle.as_str().ends_with("/daemon"), "{handle}");
    runs(&*backend, &handle).await;
    backend.cancel(&handle).await.unwrap();
    let seen = ended(&*backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
    let calls = world.commands.calls();
    let lines = told();
    assert!(lines.lines().all(|line| line.starts_with("-n -u daemon -- ")), "{lines}");
    assert_eq!(lines.lines().count(), calls.len(), "nothing was run past it: {calls:?}\n{lines}");
    for name in ["sbatch", "scontrol", "squeue", "scancel"] {
        assert!(lines.lines().any(|line| line.contains(&format!("/{name} "))), "{name} is not in {lines}");
    }

    // Unknown callers, and callers that sudo refuses, get no job; in particular none as our own user.
    for (job, kind, says) in [
        (
            of("carol", world.job("carol", "echo no")),
            ErrorKind::Denied,
            "no Unix user runs the jobs of `carol`",
        ),
        (world.job("nobody", "echo no"), ErrorKind::Denied, "nobody in particular"),
        (of("bob", world.job("bob", "echo no")), ErrorKind::Config, "a password is required"),
    ] {
        let error: Error = backend.start(&job).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains(says)), (kind, true), "{error}");
        assert_eq!(world.queue(&job), [""; 0]);
    }
    let ran: Vec<String> = world.commands.calls().into_iter().map(|call| call[0].clone()).collect();
    assert!(!ran.iter().any(|name| name == "sbatch"), "{ran:?}");
    // A user that the config no longer names is not replaced by another.
    let gone = JobHandle::new(handle.as_str().replace("/daemon", "/mail"));
    assert_eq!(backend.observe(&gone).await.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(backend.cancel(&gone).await.unwrap_err().kind(), ErrorKind::Config);
    // A server without `run_as` in its config does not report such a job as lost either.
    assert_eq!(world.backend.observe(&handle).await.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(world.backend.cancel(&handle).await.unwrap_err().kind(), ErrorKind::Config);
}

/// `doctor` reports for each user in `run_as` whether sudo permits it.
#[tokio::test(flavor = "multi_thread")]
async fn doctor_checks_sudo_rights() {
    let world = World::on(Held::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let backend = world.another(two_users(stand_in(&world))).await.unwrap();
    let found = backend.checkup().unwrap().check_up(&[]).await;
    let about = |what: &str| -> &Finding { found.iter().find(|finding| finding.what == what).unwrap() };
    assert_eq!(about("as the user daemon").verdict, Verdict::Ok, "{found:?}");
    let refused = about("as the user games");
    assert_eq!(refused.verdict, Verdict::Fault, "{found:?}");
    assert!(refused.says.contains("a password is required"), "{refused:?}");
}

/// Returns the folder of a job.
fn folder_of(world: &World, handle: &JobHandle) -> std::path::PathBuf {
    world.folder().join("jobs").join(handle.as_str().split('/').nth(2).unwrap())
}

/// Returns whether another user can read a file.
fn can_read(user: &[&str], path: &Path) -> bool {
    said(Command::new("sudo").arg("-n").args(user).args(["--", "cat"]).arg(path)).0
}

/// Jobs run as the users of their callers, and one user cannot read another's files.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_users_are_isolated() {
    if !is_root() {
        // Only root can act as another user without a sudo rule.
        return tried_otherwise(
            "jobs of two Unix users, which takes root",
            "what is asked of sudo is looked at",
        );
    }
    let world = World::on(Held::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let people = json!({"ann": {"user": ANNS}, "bob": {"user": BOBS}});
    // Root needs no rule, and has none that passes variables.
    let sudo = ["sudo", "-n", "--preserve-env=SLURM_TIME_FORMAT,SLURM_BITSTR_LEN,SLURM_UMASK"];
    let backend = world.another(json!({"run_as": people, "sudo": sudo})).await.unwrap();

    let lines = "id -un; mkdir sub; echo a >sub/a.csv; chmod 700 sub; ln -s /etc/hostname b.csv; ln -s /etc sub/etc; cat $TASKBRIDGE_ARGUMENTS";
    let job = of(
        "ann",
        world.job_with("ann", lines, json!({"secret": "anns"}), json!({"artifacts": ["**/*.csv"]})),
    );
    let handle = backend.start(&job).await.unwrap().handle;
    let seen = ended(&*backend, &handle).await;
    assert_says(&seen, &[ANNS, "anns"]);
    let JobState::Succeeded(output) = &seen.state else { panic!("{seen:?}") };
    assert_eq!(output.artifacts.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["sub/a.csv"]);

    // She can read what her job needs, members of her group can read what her job wrote, and no other user
    // can read anything.
    let folder = folder_of(&world, &handle);
    let group = fs::metadata(&folder).unwrap().gid();
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o2710);
    for name in ["logs/out", "work/sub/a.csv", "ends/job.0"] {
        let metadata = fs::metadata(folder.join(name)).unwrap();
        assert_eq!((metadata.gid(), metadata.mode() & 0o007), (group, 0), "{name}");
        assert!(can_read(&["-u", ANNS], &folder.join(name)), "{name}");
        assert!(
            can_read(&["-u", "nobody", "-g", ANNS], &folder.join(name)),
            "the server shares her group: {name}"
        );
        assert!(!can_read(&["-u", BOBS], &folder.join(name)), "{name}");
    }
    for (name, is_hers) in [
        ("arguments.json", true),
        ("script", true),
        ("plan.json", false),
        ("observed.json", false),
        ("id", false),
    ] {
        assert_eq!(can_read(&["-u", ANNS], &folder.join(name)), is_hers, "{name}");
        assert!(!can_read(&["-u", BOBS], &folder.join(name)), "{name}");
    }
    let writes = |path: &str| {
        said(Command::new("sudo").args(["-n", "-u", ANNS, "--", "touch"]).arg(folder.join(path))).0
    };
    assert!(writes("work/more") && !writes("id") && !writes("new"), "her job does not write our marks");

    // Bob cannot reach her job, by its number or by its task.
    let waits = of("ann", world.job("waits", "exec sleep 600"));
    let hers = backend.start(&waits).await.unwrap().handle;
    runs(&*backend, &hers).await;
    for named in [json!(number(&hers)), json!(hers.as_str()), json!(hers.as_str().replace(ANNS, BOBS))] {
        for target in [
            json!({"script": null, "signal": {"job": "{{ job }}", "name": "TERM"}}),
            json!({"script": null, "attach": "{{ job }}"}),
            json!({"after": {"job": "{{ job }}", "when": "ended"}}),
        ] {
            let job = of("bob", world.job_with("bob", "echo no", json!({"job": named}), target.clone()));
            let error = backend.start(&job).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{target} {named}: {error}");
        }
    }
    let forged = JobHandle::new(hers.as_str().replace(ANNS, BOBS));
    backend.cancel(&forged).await.unwrap();
    assert_eq!(backend.observe(&forged).await.unwrap().state, JobState::Gone);
    assert_eq!(backend.observe(&hers).await.unwrap().state, JobState::Running);
    // In Slurm, each job belongs to its user. It is polled only with other jobs of that user.
    let users = world.cluster.run("squeue", &["-h", "-t", "all", "-j", &number(&hers), "-o", "%u"]);
    assert_eq!(users.trim(), ANNS);
    assert_ne!(backend.group(&hers), backend.group(&forged));
    backend.cancel(&hers).await.unwrap();
    assert!(matches!(ended(&*backend, &hers).await.state, JobState::Cancelled(_)));
}

fn is_root() -> bool {
    said(Command::new("id").arg("-u")).1.trim() == "0"
}

/// A user without a token is a config error, and a job uses the token of its caller.
#[tokio::test(flavor = "multi_thread")]
async fn slurmrestd_user_needs_own_token() {
    let world = World::on(Held::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let rest = world.cluster.rest();
    let own = json!({"url": rest.address, "user": world.cluster.user, "token": rest.token});
    let config =
        |token: Option<&str>| json!({"rest": own, "run_as": {"ann": {"user": ANNS, "token": token}}});
    let Err(error) = world.another(config(None)).await else { panic!("it takes our own token") };
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    if !is_root() {
        // Only root can have the cluster create a token for another user.
        return tried_otherwise(
            "slurmrestd with tokens of two users, which takes root",
            "that none is used for another is looked at",
        );
    }
    let token = world.cluster.run("scontrol", &["token", &format!("username={ANNS}"), "lifespan=3600"]);
    let backend = world.another(config(Some(token.trim().trim_start_matches("SLURM_JWT=")))).await.unwrap();
    let job = of("ann", world.job("ann", "id -un"));
    let handle = backend.start(&job).await.unwrap().handle;
    assert_says(&ended(&*backend, &handle).await, &[ANNS]);
    // Her job cannot access its folder through a group that she is not in.
    let shut_out =
        json!({"user": ANNS, "group": BOBS, "token": token.trim().trim_start_matches("SLURM_JWT=")});
    let backend = world.another(json!({"rest": own, "run_as": {"ann": shut_out}})).await.unwrap();
    let handle = backend.start(&of("ann", world.job("shut-out", "id -un"))).await.unwrap().handle;
    assert_says(&ended(&*backend, &handle).await, &["could not open its output files"]);
    let error = backend.start(&of("bob", world.job("bob", "id -un"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// Returns the README's sudo rule with these names.
fn rule(server: &str, callers: &str) -> String {
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
    fs::write(&path, rule("www-data", "daemon, games")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Slurm's commands fail without a config. If they find this one, `SLURM_CONF` was passed on.
    let conf = dir.path().join("slurm.conf");
    fs::write(&conf, "ClusterName=lab\nSlurmctldHost=localhost\n").unwrap();
    let (right, words) =
        said(Command::new("visudo").env("PATH", "/usr/sbin:/usr/bin").args(["-c", "-f"]).arg(&path));
    assert!(right, "{words}");
    // If this process may create mounts, sudo itself is tested.
    if !said(Command::new("unshare").args(["-m", "true"])).0 {
        return tried_otherwise(
            "that sudo holds to the README's rule, which takes a mount",
            "visudo reads the rule",
        );
    }
    let sudo = |words: &str| {
        let line = format!(
            "mount --bind {} /etc/sudoers && exec setpriv --reuid www-data --regid www-data --clear-groups env SLURM_CONF={} sudo -n {words}",
            path.display(),
            conf.display()
        );
        said(Command::new("unshare").args(["-m", "sh", "-c", &line]))
    };
    for user in ["daemon", "games"] {
        let (right, words) = sudo(&format!("-u {user} -- sbatch --version"));
        assert!(right && words.starts_with("slurm"), "{user}: {words}");
    }
    for refused in [
        "-u root -- sbatch --version",
        "-u mail -- sbatch --version",
        "-u daemon -- id",
        "-u daemon -- sh -c sbatch",
    ] {
        let (right, words) = sudo(refused);
        assert!(!right, "{refused}: {words}");
    }
}
