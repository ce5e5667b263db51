//! Backends for tests.

use std::path::Path;

use super::*;

impl Slurm {
    /// Creates a backend over this driver.
    pub(crate) fn for_test(driver: Box<dyn Driver>, jobs_dir: &Path) -> Self {
        jobs_folder::create(jobs_dir, &jobs_dir.join("state"), false).expect("the test's folder is writable");
        let setup = Setup {
            config_dir: jobs_dir.to_owned(),
            working_dir: None,
            env: BTreeMap::new(),
            max_array: None,
            user: None,
        };
        Self {
            setup,
            jobs_dir: jobs_dir.to_owned(),
            disks: Disks::new(Duration::from_secs(1)),
            state_dir: jobs_dir.join("state"),
            jobs_folder_created: OnceCell::new(),
            driver,
            cluster: OnceCell::new(),
            accounting: Some(false),
            accounting_wait: Duration::ZERO,
            retention: Duration::MAX,
            last_sweep: Mutex::new(None),
            discover: None,
            queue_cache: QueueCache::new(Duration::ZERO, Duration::ZERO),
            job_cache: JobCache::default(),
            controller_start: tokio::sync::Mutex::default(),
            plans: Mutex::default(),
            feasibility_cache: FeasibilityCache::default(),
            feasibility_timeout: FEASIBILITY_TIMEOUT,
        }
    }

    /// Pretends that there is an accounting database.
    pub(crate) fn assume_accounting(&mut self) {
        self.accounting = Some(true);
    }
}
