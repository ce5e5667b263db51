//! Runs the SDK's behaviour suite on this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use taskbridge_sdk::suite::{
    ArtifactJob, Claims, Fixture, InjectedFault, LogJob, NotesJob, QuestionJob, RefusedJob, RepeatedStart,
    fresh_key, job,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, Level, async_trait};

use crate::world::{World, script, wait_for_file};

/// Script that replaces the supervisor; its comments describe it.
const SUPERVISOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/supervisor.sh");

struct Machine {
    world: World,
    backend: Arc<dyn Backend>,
    program: PathBuf,
}

impl Machine {
    async fn new() -> Self {
        let world = World::new();
        let program = world.config_dir().join("supervisor");
        symlink(SUPERVISOR, &program).unwrap();
        symlink(env!("CARGO_BIN_EXE_taskbridge-local-supervisor"), program.with_extension("real")).unwrap();
        let backend = world.connect_with(json!({}), program.clone()).await;
        Self { world, backend, program }
    }

    /// Returns a job that counts its own start, then runs this command.
    fn counting_job(&self, command: &str) -> JobSpec {
        let dir = self.world.config_dir().display();
        script(&format!("echo 1 >> '{dir}'/count.$TASKBRIDGE_JOB; {command}"))
    }
}

#[async_trait]
impl Fixture for Machine {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
        questions: true,
        notes: true,
        logs: true,
        artifacts: true,
        wakeups: true,
        discovery: false,
        checkup: true,
        hooks: false,
        refuses: true,
        counts_starts: true,
        // The job's folder makes up for a lost reply, and a disk fault cannot be injected for one request
        // only. The modules `stop` and `start` test both.
        faults: &[InjectedFault::StartUnavailable],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        (self.counting_job("echo all is well"), "all is well".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        self.counting_job("echo out of paper >&2; exit 1")
    }

    fn long_job(&self) -> JobSpec {
        self.counting_job("exec sleep 100")
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new(format!("local:{}:{}", host_and_boot(), fresh_key()))
    }

    fn question_job(&self) -> Option<QuestionJob> {
        let job = self.counting_job(
            r#"cd "$TASKBRIDGE_QUESTIONS"
               echo '{"message": "Which colour?", "schema": {"type": "object", "properties": {"colour":
                     {"type": "string"}}}}' > new; mv new q.json
               n=0; while [ ! -e q.answer.json ] && [ $n -lt 2000 ]; do sleep 0.05; n=$((n + 1)); done
               if [ -e q.answer.json ]; then grep -q '"action":"' q.answer.json; fi"#,
        );
        Some(QuestionJob { job, answer: [("colour".to_owned(), json!("red"))].into_iter().collect() })
    }

    fn log_job(&self) -> Option<LogJob> {
        let lines = ["a first line", "and then Another", "the last of them"].map(str::to_owned).to_vec();
        Some(LogJob { job: script(&format!("echo '{}'", lines.join("\n"))), lines })
    }

    fn notes_job(&self) -> Option<NotesJob> {
        let job = self.counting_job(
            r#"echo 'log info Looking' >> "$TASKBRIDGE_EVENTS"; sleep 0.2
               echo 'log warning {"left": 3}' >> "$TASKBRIDGE_EVENTS"; echo 'log info Done' >> "$TASKBRIDGE_EVENTS""#,
        );
        let notes = [
            (Level::Info, json!("Looking")),
            (Level::Warning, json!({"left": 3})),
            (Level::Info, json!("Done")),
        ];
        Some(NotesJob { job, notes: notes.to_vec() })
    }

    fn artifact_job(&self) -> Option<ArtifactJob> {
        let job =
            script(r#"cd "$TASKBRIDGE_ARTIFACTS"; mkdir out; printf 'figures and words' > out/report.txt"#);
        Some(ArtifactJob { job, name: "out/report.txt".to_owned(), bytes: b"figures and words".to_vec() })
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let message = "`command[1]` needs the parameter `word`, which is missing".to_owned();
        Some(RefusedJob { job: job(json!({"command": ["echo", "{{ word }}"]}), json!({})), message })
    }

    fn missing_target(&self) -> Option<serde_json::Value> {
        Some(json!({"command": ["no-program-has-this-name"]}))
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        if !self.world.job(key).join("claim.json").exists() {
            return 0;
        }
        wait_for_file(&self.world.config_dir().join(format!("count.{key}"))).await.lines().count()
    }

    async fn inject(&self, kind: InjectedFault) {
        assert_eq!(kind, InjectedFault::StartUnavailable);
        fs::write(self.program.with_extension("fails"), "").unwrap();
    }
}

/// Returns host and boot in the format of handles.
fn host_and_boot() -> String {
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    format!("{host}:{}", boot.trim())
}

taskbridge_sdk::behaviour_suite!(Machine::new().await);
