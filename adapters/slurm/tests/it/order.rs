//! Tests of requested options and files, as a real cluster and a real script see them, with both drivers.

use serde_json::json;
use taskbridge_sdk::{FileContent, InputFile, JobState, SourceFile};

use crate::harness::world::{World, assert_contains, job_number, poll_until_ended};

/// A reservation of this test, in the far future, so that it does not block other jobs.
struct Reservation<'a>(&'a World, String);

impl<'a> Reservation<'a> {
    fn new(world: &'a World) -> Self {
        let name = format!("tb-{}", std::process::id());
        let (name_option, user) =
            (format!("reservationname={name}"), format!("users={}", world.cluster.user));
        let arguments = [
            "create",
            "reservation",
            &name_option,
            &user,
            "starttime=now+20days",
            "duration=10",
            "corecnt=1",
        ];
        world.cluster.run("scontrol", &[&arguments[..], &["partition=main"]].concat());
        Self(world, name)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        drop(self.0.cluster.try_run("scontrol", &["delete", &format!("reservationname={}", self.1)]));
    }
}

/// Slurm shows the resources that the target and the script's directives ask for.
#[tokio::test(flavor = "multi_thread")]
async fn submission_matches_target_and_script() {
    let world = World::new().await;
    let reservation = Reservation::new(&world);
    let Reservation(_, name) = &reservation;
    let lines = "#SBATCH --time=1\n#SBATCH --mem=11M\ntrue";
    let all_resources =
        json!({"account": "other", "qos": "fast", "constraint": "intel", "reservation": name});
    let overrides = json!({"time": "7", "reservation": name});
    for backend in [world.backend.clone(), world.connect_by_rest(json!({})).await] {
        let mut handles = Vec::new();
        for (resources, expected) in [
            (&all_resources, format!("other fast intel {name} 1:00 11M")),
            (&overrides, format!("lab normal (null) {name} 7:00 11M")),
        ] {
            let job = world.job_with("asks", lines, json!({}), json!({"resources": resources}));
            let handle = backend.start(&job).await.unwrap().handle;
            let row =
                world.cluster.run("squeue", &["-h", "-j", &job_number(&handle), "-o", "%a %q %f %v %l %m"]);
            assert_eq!(row.trim(), expected);
            handles.push(handle);
        }
        for handle in handles {
            backend.cancel(&handle).await.unwrap();
            poll_until_ended(&*backend, &handle).await;
        }
    }
}

/// Files of a call are in the job's folder, whatever names they have.
#[tokio::test(flavor = "multi_thread")]
async fn call_files_keep_any_name() {
    let world = World::new().await;
    let path = world.folder().join("on the server's disk");
    std::fs::write(&path, "by path\n").unwrap();
    let file = |parameter: &str, name: &str, content| InputFile {
        parameter: parameter.to_owned(),
        name: name.to_owned(),
        content,
    };
    let inline = |text: &str| FileContent::Inline(text.as_bytes().to_vec());
    let args = json!({"args": ["{{ a }}", "{{ b }}", "{{ c }}"]});
    let arguments = json!({"a": "", "b": "", "c": ""});
    let lines = r#"cat "$1" "$2" "$3"; for file; do echo "<${file##*/}>"; done; rm "$3""#;
    for backend in [world.backend.clone(), world.connect_by_rest(json!({})).await] {
        let mut job = world.job_with("reads", lines, arguments.clone(), args.clone());
        job.files = vec![
            file("a", "../../it leads elsewhere", inline("of a name with slashes\n")),
            file("b", "it's $(a) \"name\"", inline("of a name with quotes\n")),
            file("c", "plain.txt", FileContent::Source(SourceFile::new(path.canonicalize().unwrap(), 1024))),
        ];
        let handle = backend.start(&job).await.unwrap().handle;
        let observation = poll_until_ended(&*backend, &handle).await;
        assert!(matches!(observation.state, JobState::Succeeded(_)), "{observation:?}");
        let printed = "of a name with slashes\nof a name with quotes\nby path\n\
                       <0-file>\n<1-it's $(a) \"name\">\n<2-plain.txt>\n";
        assert_contains(&observation, &[printed]);
        assert!(path.exists(), "a job has a copy of its own");
    }
}
