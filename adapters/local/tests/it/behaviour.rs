//! Runs the SDK's behaviour suite on this machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use taskbridge_sdk::suite::{
    Asking, Claims, Fixture, Leaving, Printing, Refusal, Repeat, Saying, Trouble, fresh_key, job,
};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, Level, async_trait};

use crate::world::{World, appears, script};

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
    fn counted(&self, then: &str) -> JobSpec {
        let count = self.world.config_dir().display();
        script(&format!("echo 1 >> '{count}'/count.$TASKBRIDGE_JOB; {then}"))
    }
}

#[async_trait]
impl Fixture for Machine {
    const CLAIMS: Claims = Claims {
        repeat: Repeat::SameJob,
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
        troubles: &[Trouble::StartUnavailable],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        self.backend.clone()
    }

    fn succeeds(&self) -> (JobSpec, String) {
        (self.counted("echo all is well"), "all is well".to_owned())
    }

    fn fails(&self) -> JobSpec {
        self.counted("echo out of paper >&2; exit 1")
    }

    fn runs_long(&self) -> JobSpec {
        self.counted("exec sleep 100")
    }

    fn unknown(&self) -> JobHandle {
        JobHandle::new(format!("local:{}:{}", here(), fresh_key()))
    }

    fn asks(&self) -> Option<Asking> {
        let job = self.counted(
            r#"cd "$TASKBRIDGE_QUESTIONS"
               echo '{"message": "Which colour?", "schema": {"type": "object", "properties": {"colour":
                     {"type": "string"}}}}' > new; mv new q.json
               n=0; while [ ! -e q.answer.json ] && [ $n -lt 2000 ]; do sleep 0.05; n=$((n + 1)); done
               if [ -e q.answer.json ]; then grep -q '"action":"' q.answer.json; fi"#,
        );
        Some(Asking { job, answer: [("colour".to_owned(), json!("red"))].into_iter().collect() })
    }

    fn prints(&self) -> Option<Printing> {
        let lines = ["a first line", "and then Another", "the last of them"].map(str::to_owned).to_vec();
        Some(Printing { job: script(&format!("echo '{}'", lines.join("\n"))), lines })
    }

    fn says(&self) -> Option<Saying> {
        let job = self.counted(
            r#"echo 'log info Looking' >> "$TASKBRIDGE_EVENTS"; sleep 0.2
               echo 'log warning {"left": 3}' >> "$TASKBRIDGE_EVENTS"; echo 'log info Done' >> "$TASKBRIDGE_EVENTS""#,
        );
        let notes = [
            (Level::Info, json!("Looking")),
            (Level::Warning, json!({"left": 3})),
            (Level::Info, json!("Done")),
        ];
        Some(Saying { job, notes: notes.to_vec() })
    }

    fn leaves(&self) -> Option<Leaving> {
        let job =
            script(r#"cd "$TASKBRIDGE_ARTIFACTS"; mkdir out; printf 'figures and words' > out/report.txt"#);
        Some(Leaving { job, name: "out/report.txt".to_owned(), bytes: b"figures and words".to_vec() })
    }

    fn refused(&self) -> Option<Refusal> {
        let words = "`command[1]` needs the parameter `word`, which was not given".to_owned();
        Some(Refusal { job: job(json!({"command": ["echo", "{{ word }}"]}), json!({})), words })
    }

    fn missing(&self) -> Option<serde_json::Value> {
        Some(json!({"command": ["no-program-has-this-name"]}))
    }

    async fn starts(&self, key: &JobKey) -> usize {
        if !self.world.job(key).join("claim.json").exists() {
            return 0;
        }
        appears(&self.world.config_dir().join(format!("count.{key}"))).await.lines().count()
    }

    async fn make(&self, trouble: Trouble) {
        assert_eq!(trouble, Trouble::StartUnavailable);
        fs::write(self.program.with_extension("fails"), "").unwrap();
    }
}

/// Returns host and boot in the format of handles.
fn here() -> String {
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    format!("{host}:{}", boot.trim())
}

taskbridge_sdk::behaviour_suite!(Machine::new().await);
