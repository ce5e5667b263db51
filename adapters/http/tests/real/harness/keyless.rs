//! What holds of every engine that has no key and whose jobs cannot be searched for. The tests of the suite
//! that search for a job do not run against such an engine. It must not know the engine.

use std::time::Duration;

use taskbridge_sdk::suite::InjectedFault;
use taskbridge_sdk::{ErrorKind, JobSpec};

use crate::harness::world::{Faults, SOON, World};

/// Checks that a job whose start had no reply ends as uncertain at once, and that it runs once: no later start
/// is sent, and no search is tried. The job writes into `starts`.
pub(crate) async fn check_lost_reply(world: &World, faults: Faults, job: &JobSpec) {
    world.inject(faults, InjectedFault::StartReplyLost);
    let repeated = JobSpec { may_exist: true, ..job.clone() };
    for error in [
        world.backend.start(job).await.unwrap_err(),
        world.backend.start(&repeated).await.unwrap_err(),
        world.backend.find(job).await.unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.is_final()), (ErrorKind::Uncertain, true), "{error}");
        assert!(error.to_string().contains("look there before you start it again"), "{error}");
    }
    let wait = async {
        while world.engine.count_starts(&job.key) == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap();
    assert_eq!(world.engine.count_starts(&job.key), 1);
}

/// Checks that a start that the engine limits has started nothing, and can be sent again.
pub(crate) async fn check_limited_start(world: &World, faults: Faults, job: &JobSpec) {
    world.inject(faults, InjectedFault::StartLimited);
    let error = world.backend.start(job).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limited { .. }), "{error}");
    assert_eq!(world.engine.count_starts(&job.key), 0);
    world.backend.start(job).await.unwrap();
}
