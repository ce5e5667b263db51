//! Runs the SDK's behaviour suite on this adapter: one test per bullet of the contract.

use std::sync::Arc;

use serde_json::json;
use taskbridge_sdk::suite::{Claims, Fixture, Refusal, Repeat, job};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use super::Folder;

struct Jobs {
    folder: tempfile::TempDir,
}

impl Jobs {
    fn waits_for(&self, name: &str, within_seconds: u64) -> JobSpec {
        job(json!({"within_seconds": within_seconds}), json!({"path": self.folder.path().join(name)}))
    }
}

#[async_trait]
impl Fixture for Jobs {
    const CLAIMS: Claims = Claims {
        repeat: Repeat::SameJob,
        questions: false,
        notes: false,
        logs: false,
        artifacts: false,
        wakeups: false,
        discovery: false,
        checkup: false,
        hooks: false,
        refuses: true,
        counts_starts: true,
        troubles: &[],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(Folder(self.folder.path().to_owned()))
    }

    fn succeeds(&self) -> (JobSpec, String) {
        std::fs::write(self.folder.path().join("there"), "").unwrap();
        (self.waits_for("there", 60), "there is there".to_owned())
    }

    fn fails(&self) -> JobSpec {
        self.waits_for("never", 0)
    }

    fn runs_long(&self) -> JobSpec {
        self.waits_for("never", 120)
    }

    fn unknown(&self) -> JobHandle {
        JobHandle::new("tb-unknown/60")
    }

    fn refused(&self) -> Option<Refusal> {
        let job = job(json!({"within_seconds": 1}), json!({"path": "relative"}));
        Some(Refusal { job, words: "give an absolute path".to_owned() })
    }

    async fn starts(&self, key: &JobKey) -> usize {
        usize::from(self.folder.path().join(key.as_str()).is_symlink())
    }
}

taskbridge_sdk::behaviour_suite!(Jobs { folder: tempfile::tempdir().unwrap() });
