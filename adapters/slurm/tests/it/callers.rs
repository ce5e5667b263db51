//! Each caller's jobs as a Unix user of their own. Where the tests run as root, that is real: by sudo, for users that every Debian has.
//! Otherwise a stand-in for sudo shows what would have been run as whom.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use taskbridge_sdk::{Error, ErrorKind, Finding, JobHandle, JobSpec, JobState, OnBehalfOf, Verdict};

use crate::world::{Held, World, assert_says, ended, number, runs, tried_otherwise};

/// Two users of a Debian that have groups of their names, and no job but what these tests submit.
const ANNS: &str = "daemon";
const BOBS: &str = "games";

/// The job as somebody asks for it.
fn of(caller: &str, job: JobSpec) -> JobSpec {
    JobSpec { on_behalf_of: Some(OnBehalfOf::named(caller)), ..job }
}

fn said(command: &mut Command) -> (bool, String) {
    let done = command.output().unwrap();
    (done.status.success(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

/// A stand-in for sudo that writes down what it is told, and runs the command as whoever it is. It says no to what is asked for as `games`.
fn stand_in(world: &World) -> Value {
    let path = world.script("sudo", &format!(
        "printf '%s\\n' \"$*\" >>{0}/sudo.calls\ncase $3 in games) echo 'sudo: a password is required' >&2; exit 1 ;; esac\nshift 4\nexec \"$@\"",
        world.folder().display()
    ));
    json!([path, "-n"])
}

/// The config by which ann's jobs and bob's are two users', in groups that whoever runs this is in.
fn two_users(sudo: Value) -> Value {
    let (_, group) = said(Command::new("id").arg("-gn"));
    let group = group.trim();
    json!({"sudo": sudo, "run_as": {"ann": {"user": ANNS, "group": group}, "bob": {"user": BOBS, "group": group}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_a_job_is_run_as_the_caller() {
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

    // Nobody of whom nothing is known, and nobody whom sudo refuses, has a job; least of all as our own user.
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
    // A user whom the config no longer names is not replaced by another.
    let gone = JobHandle::new(handle.as_str().replace("/daemon", "/mail"));
    assert_eq!(backend.observe(&gone).await.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(backend.cancel(&gone).await.unwrap_err().kind(), ErrorKind::Config);
    // Nor is such a job told as lost by a server whose config has no `run_as` any more.
    assert_eq!(world.backend.observe(&handle).await.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(world.backend.cancel(&handle).await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_as_whom_sudo_lets_us_act() {
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

/// The folder of a job, by its handle.
fn folder_of(world: &World, handle: &JobHandle) -> std::path::PathBuf {
    world.folder().join("jobs").join(handle.as_str().split('/').nth(2).unwrap())
}

/// What another user gets to see of a file.
fn can_read(user: &[&str], path: &Path) -> bool {
    said(Command::new("sudo").arg("-n").args(user).args(["--", "cat"]).arg(path)).0
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_two_users_are_theirs_and_closed_to_each_other() {
    if !is_root() {
        // Only root can be another user without a rule of sudo's.
        return tried_otherwise(
            "jobs of two Unix users, which takes root",
            "what is asked of sudo is looked at",
        );
    }
    let world = World::on(Held::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let people = json!({"ann": {"user": ANNS}, "bob": {"user": BOBS}});
    // Root needs no rule, and has none that lets variables through.
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

    // Of what lies in her folder, she reads what her job needs, who shares her group what her job wrote, and nobody else anything.
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

    // Bob does not reach her job, by its number or by its task.
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
    // Slurm has the jobs as theirs, and each is looked at with those of its user alone.
    let users = world.cluster.run("squeue", &["-h", "-t", "all", "-j", &number(&hers), "-o", "%u"]);
    assert_eq!(users.trim(), ANNS);
    assert_ne!(backend.group(&hers), backend.group(&forged));
    backend.cancel(&hers).await.unwrap();
    assert!(matches!(ended(&*backend, &hers).await.state, JobState::Cancelled(_)));
}

fn is_root() -> bool {
    said(Command::new("id").arg("-u")).1.trim() == "0"
}

#[tokio::test(flavor = "multi_thread")]
async fn by_slurmrestd_each_user_needs_a_token_of_their_own() {
    let world = World::on(Held::without_accounting(), json!({})).await;
    fs::set_permissions(world.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let rest = world.cluster.rest();
    let own = json!({"url": rest.address, "user": world.cluster.user, "token": rest.token});
    let config =
        |token: Option<&str>| json!({"rest": own, "run_as": {"ann": {"user": ANNS, "token": token}}});
    let Err(error) = world.another(config(None)).await else { panic!("it takes our own token") };
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    if !is_root() {
        // Nobody else has the cluster make a token for another.
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
    // A group that she is not in keeps her job out of its folder.
    let shut_out =
        json!({"user": ANNS, "group": BOBS, "token": token.trim().trim_start_matches("SLURM_JWT=")});
    let backend = world.another(json!({"rest": own, "run_as": {"ann": shut_out}})).await.unwrap();
    let handle = backend.start(&of("ann", world.job("shut-out", "id -un"))).await.unwrap().handle;
    assert_says(&ended(&*backend, &handle).await, &["could not open its output files"]);
    let error = backend.start(&of("bob", world.job("bob", "id -un"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// The rule that the README has for sudo, with these names in it.
fn rule(server: &str, callers: &str) -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, rest) = readme.split_once("```sudoers\n").unwrap();
    let rule = rest.split_once("```").unwrap().0;
    rule.replace("= taskbridge\n", &format!("= {server}\n")).replace("asmith, bjones", callers)
}

#[test]
fn the_rule_for_sudo_lets_the_server_run_slurms_commands_as_callers_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rule");
    fs::write(&path, rule("www-data", "daemon, games")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Slurm's commands say nothing without a config; that they find this one shows that its variable arrives.
    let conf = dir.path().join("slurm.conf");
    fs::write(&conf, "ClusterName=lab\nSlurmctldHost=localhost\n").unwrap();
    let (right, words) =
        said(Command::new("visudo").env("PATH", "/usr/sbin:/usr/bin").args(["-c", "-f"]).arg(&path));
    assert!(right, "{words}");
    // Where this process may have a mount of its own, sudo itself is asked.
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
