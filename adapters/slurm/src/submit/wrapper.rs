//! The batch script that Slurm runs: `wrapper.sh`. It creates the fence of its run, runs the script of the
//! job's folder only if the fence did not exist, and writes the end marker (see [`crate::store::folder`]).
//! The format of the files that it reads and writes must not change, since jobs outlive the server's version.
//! Pure.

use crate::notation::quote::line_word;

/// The signals that the wrapper passes on to the script. Slurm sends the script's signals to the wrapper
/// only. Signals that stop, continue or kill a process would affect the wrapper and not reach the script.
pub(crate) const FORWARDED_SIGNALS: [&str; 9] =
    ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "ABRT", "URG"];

/// Returns the wrapper for the job with this folder. With `requeue`, each requeue is a run of its own. With
/// `shared`, the group can read what the script leaves in its folder. With `elements`, each task gets one
/// line of the folder's `tasks`.
pub(crate) fn wrapper(folder: &str, requeue: bool, shared: bool, elements: bool) -> String {
    include_str!("wrapper.sh")
        .replace("@FOLDER@", &line_word(folder))
        .replace("@SIGNALS@", &FORWARDED_SIGNALS.join(" "))
        .replace("@RESTART@", if requeue { "${SLURM_RESTART_COUNT:-0}" } else { "0" })
        .replace("@SHARED@", if shared { "yes" } else { "" })
        .replace("@ELEMENTS@", if elements { "yes" } else { "" })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use super::*;
    use crate::store::end_marker::{EndMarker, Run};
    use crate::store::folder::Folder;

    /// Waits for a signal, for at most a minute.
    const WAIT: &str = "for i in $(seq 1200); do sleep 0.05; done";

    const FIRST_RUN: Run = Run { task: None, restart: 0 };

    /// Creates the folder of a job with these script lines and these parameters.
    fn folder(dir: &Path, lines: &str, parameters: &str) -> Folder {
        let folder = Folder::new(dir, "it's a job");
        folder.create(None).unwrap();
        folder.write("script", format!("#!/bin/sh\n{lines}\n").as_bytes(), 0o700).unwrap();
        folder.write("parameters", parameters.as_bytes(), 0o600).unwrap();
        folder
    }

    fn command(folder: &Folder, elements: bool) -> Command {
        // The caller of the tests may ignore signals, as nohup does, and a shell cannot reset signals that
        // were ignored when it started.
        let mut bash = Command::new("/usr/bin/env");
        let script = wrapper(folder.path().to_str().unwrap(), false, false, elements);
        bash.args(["--default-signal", "/bin/bash", "--noprofile", "--norc", "-c", &script]);
        bash.env_clear().env("PATH", "/usr/bin:/bin");
        bash
    }

    fn run(folder: &Folder, variables: &[(&str, &str)]) -> (Output, Option<EndMarker>) {
        // An array task has a number; here, each one has an element.
        let output = command(folder, !variables.is_empty()).envs(variables.iter().copied()).output().unwrap();
        let ends = folder.all_runs().end_markers;
        assert!(ends.len() < 2, "{ends:?}");
        (output, ends.into_values().next())
    }

    /// Simulates a second start of a job after a crash of Slurm's controller, and a requeue.
    #[test]
    fn script_runs_once_per_requeue() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), "echo it ran; exit 3", "set --\n");
        let start = |requeue, restarts: &str| {
            let script = wrapper(folder.path().to_str().unwrap(), requeue, false, false);
            let mut bash = Command::new("/bin/bash");
            bash.args(["--noprofile", "--norc", "-c", &script]).env("SLURM_RESTART_COUNT", restarts);
            let output = bash.output().unwrap();
            (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
        };
        let (success, refusal) = (("it ran\n".to_owned(), Some(3)), (String::new(), Some(97)));
        let marker = || std::fs::read_to_string(folder.file("ends/job.0")).unwrap();
        // Whether another run found the fence.
        let fences = || {
            let run_state =
                |(run, fence): (Run, PathBuf)| (run, Folder::second_run_found(&fence).unwrap().unwrap());
            let mut fences: Vec<_> = folder.fences().unwrap().into_iter().map(run_state).collect();
            fences.sort();
            fences
        };
        assert_eq!(start(false, "0"), success);
        let (first, expected_fences) = (marker(), [(FIRST_RUN, true)]);
        assert_eq!(fences(), [(FIRST_RUN, false)]);
        for restarts in ["0", "1"] {
            assert_eq!(start(false, restarts), refusal);
            assert_eq!(fences(), expected_fences);
            assert_eq!((marker(), folder.all_runs().end_markers.len()), (first.clone(), 1));
        }
        let second = Run { task: None, restart: 1 };
        assert_eq!(start(true, "1"), success);
        assert_eq!(start(true, "1"), refusal);
        let expected_fences = [(FIRST_RUN, true), (second, true)];
        assert_eq!(fences(), expected_fences);
        assert_eq!((marker(), folder.all_runs().end_markers[&second].code), (first, 3));
    }

    /// A variable of the config does not change how the wrapper works.
    #[test]
    fn config_variables_reach_only_script() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dir.path().join("dataset");
        std::fs::create_dir_all(dataset.join("ran")).unwrap();
        std::fs::write(dataset.join("script"), "#!/bin/sh\necho theirs\n").unwrap();
        std::fs::set_permissions(dataset.join("script"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let variable_names =
            ["run", "script", "code", "told", "began", "late", "marker", "shared", "signal", "IFS"];
        let mut parameters = format!("export folder='{}'\nexport PATH=/nowhere\n", dataset.display());
        for name in variable_names {
            parameters.push_str(&format!("export {name}=x\n"));
        }
        parameters.push_str("set -- $'a b' $'c'\n");
        let folder = folder(dir.path(), r#"echo "ours $folder $PATH $run $code $# $1"; exit 3"#, &parameters);
        let (output, end) = run(&folder, &[]);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(printed, format!("ours {} /nowhere x x 2 a b\n", dataset.display()), "{output:?}");
        assert_eq!((end.map(|end| end.code), output.status.code()), (Some(3), Some(3)), "{output:?}");
        assert_eq!(folder.all_runs().started_runs.into_iter().collect::<Vec<_>>(), [(FIRST_RUN, false)]);
    }

    /// The line is found by Slurm's index, whatever variables the config sets.
    #[test]
    fn array_element_finds_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(
            dir.path(),
            r#"echo "$TASKBRIDGE_ELEMENT $1 $SLURM_ARRAY_TASK_ID""#,
            "export PATH=/nowhere SLURM_ARRAY_TASK_ID=0\nset --\n",
        );
        let tasks =
            "export TASKBRIDGE_ELEMENT=$'a'; set -- $'x'\nexport TASKBRIDGE_ELEMENT=$'b'; set -- $'y'\n";
        folder.write("tasks", tasks.as_bytes(), 0o600).unwrap();
        let (output, end) = run(&folder, &[("SLURM_ARRAY_TASK_ID", "1")]);
        assert_eq!((String::from_utf8_lossy(&output.stdout).as_ref(), end.unwrap().code), ("b y 0\n", 0));
        assert!(folder.all_runs().end_markers.contains_key(&Run { task: Some(1), restart: 0 }));
    }

    /// The wrapper passes each signal in `FORWARDED_SIGNALS` to the script.
    #[test]
    fn signals_reach_script() {
        let dir = tempfile::tempdir().unwrap();
        for signal in FORWARDED_SIGNALS {
            // The wrapper is the parent of the script.
            let lines = format!("trap 'echo got {signal}; exit 7' {signal}\nkill -s {signal} $PPID\n{WAIT}");
            let folder = folder(&dir.path().join(signal), &lines, "set --\n");
            let (output, end) = run(&folder, &[]);
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!((printed, end.unwrap().code), (format!("got {signal}\n"), 7), "{output:?}");
        }
    }

    #[test]
    fn unhandled_signal_ends_script() {
        let dir = tempfile::tempdir().unwrap();
        for (signal, number) in [("INT", 2), ("QUIT", 3), ("TERM", 15)] {
            let lines = format!("ulimit -c 0; kill -s {signal} $PPID; {WAIT}");
            let folder = folder(&dir.path().join(signal), &lines, "set --\n");
            let (output, end) = run(&folder, &[]);
            assert_eq!(end.unwrap().signal(), Some(number), "{output:?}");
        }
    }

    /// The shell's message about a signal is not printed, and errors of the wrapper are.
    #[test]
    fn stderr_has_only_script_text() {
        let dir = tempfile::tempdir().unwrap();
        for (signal, number) in
            [("KILL", 9), ("SEGV", 11), ("ILL", 4), ("XCPU", 24), ("TERM", 15), ("PIPE", 13)]
        {
            let lines = format!("ulimit -c 0; echo its own words >&2; kill -s {signal} $$");
            let folder = folder(&dir.path().join(signal), &lines, "set --\n");
            let (output, end) = run(&folder, &[]);
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(
                (printed.as_str(), end.unwrap().signal()),
                ("its own words\n", Some(number)),
                "{signal}"
            );
        }
        // Errors of the wrapper itself are still printed.
        let folder = folder(dir.path(), "", "set --\n");
        std::fs::remove_dir(folder.file("ends")).unwrap();
        let output = command(&folder, false).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("/ends/"), "{output:?}");
    }

    /// A script does not start without its parameters or its line of the array.
    #[test]
    fn missing_parameters_stop_script() {
        let dir = tempfile::tempdir().unwrap();
        let folder = folder(dir.path(), "echo begun", "set --\n");
        folder.write("tasks", b"set --\n", 0o600).unwrap();
        let (output, end) = run(&folder, &[("SLURM_ARRAY_TASK_ID", "7")]);
        assert_eq!(
            (output.stdout.len(), end.unwrap().code),
            (0, crate::store::end_marker::NO_FOLDER_EXIT_CODE)
        );
        // A file system on which the file is temporarily not visible.
        let missing_tasks = self::folder(&dir.path().join("gone"), "echo begun", "set --\n");
        let (output, end) = run(&missing_tasks, &[("SLURM_ARRAY_TASK_ID", "0")]);
        assert_eq!(
            (output.stdout.len(), end.unwrap().code),
            (0, crate::store::end_marker::NO_FOLDER_EXIT_CODE)
        );
        let other = self::folder(&dir.path().join("other"), "echo begun", "");
        std::fs::remove_file(other.file("parameters")).unwrap();
        let (output, end) = run(&other, &[]);
        assert_eq!(
            (output.stdout.len(), end.unwrap().code),
            (0, crate::store::end_marker::NO_FOLDER_EXIT_CODE)
        );
    }
}
