//! Runs the sdk's behaviour suite on this adapter: its tests are the contract of a backend.

use std::sync::Arc;

use serde_json::json;
use taskbridge_sdk::suite::{Claims, Fixture, RefusedJob, RepeatedStart, job};
use taskbridge_sdk::{Backend, JobHandle, JobKey, JobSpec, async_trait};

use super::Folder;

struct Jobs {
    folder: tempfile::TempDir,
}

impl Jobs {
    fn wait_job(&self, name: &str, within_seconds: u64) -> JobSpec {
        job(json!({"within_seconds": within_seconds}), json!({"path": self.folder.path().join(name)}))
    }
}

#[async_trait]
impl Fixture for Jobs {
    const CLAIMS: Claims = Claims {
        repeated_start: RepeatedStart::SameJob,
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
        faults: &[],
    };

    fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(Folder(self.folder.path().to_owned()))
    }

    fn succeeding_job(&self) -> (JobSpec, String) {
        std::fs::write(self.folder.path().join("there"), "").unwrap();
        (self.wait_job("there", 60), "there exists".to_owned())
    }

    fn failing_job(&self) -> JobSpec {
        self.wait_job("never", 0)
    }

    fn long_job(&self) -> JobSpec {
        self.wait_job("never", 120)
    }

    fn unknown_handle(&self) -> JobHandle {
        JobHandle::new("tb-unknown/60")
    }

    fn refused_job(&self) -> Option<RefusedJob> {
        let job = job(json!({"within_seconds": 1}), json!({"path": "relative"}));
        Some(RefusedJob { job, message: "give an absolute path".to_owned() })
    }

    async fn count_starts(&self, key: &JobKey) -> usize {
        usize::from(self.folder.path().join(key.as_str()).is_symlink())
    }
}

taskbridge_sdk::behaviour_suite!(Jobs { folder: tempfile::tempdir().unwrap() });
