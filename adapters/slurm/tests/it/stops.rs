//! Jobs that are cancelled while they wait, run and end, that are held for an approval, and that get signals.

use serde_json::{Map, json};
use taskbridge_sdk::{Answer, JobState, Taken};

use crate::world::{World, ended, eventually, number, runs, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_is_cancelled_and_never_runs() {
    let world = World::new().await;
    // Nobody opens that partition.
    let target = json!({"resources": {"partition": "closed"}});
    let job = world.job_with("waits", "touch ran", json!({}), target);
    let handle = world.backend.start(&job).await.unwrap().handle;
    let seen = until(&*world.backend, &handle, "why it waits", |seen| {
        seen.message
            .clone()
            .filter(|words| words.contains("partition"))
            .map(|words| (words, seen.state.clone()))
    })
    .await;
    assert_eq!(seen.1, JobState::Queued, "{}", seen.0);
    world.backend.cancel(&handle).await.unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_runs_is_cancelled_with_all_that_it_started() {
    let world = World::new().await;
    let mark = world.folder().join("mark");
    let lines = format!("sleep 600 & echo $! >{}; wait", mark.display());
    let handle = world.backend.start(&world.job("runs", &lines)).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    eventually("it has begun", || std::fs::read_to_string(&mark).is_ok_and(|pid| pid.ends_with('\n'))).await;
    let pid = std::fs::read_to_string(&mark).unwrap().trim().to_owned();
    world.backend.cancel(&handle).await.unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
    eventually("what it started has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_ending_is_cancelled_and_that_says_what_came_of_it() {
    let world = World::new().await;
    // It takes its time to end, and Slurm kills it after two seconds.
    let job = world.job("ends", "trap 'sleep 600' TERM; touch begun; sleep 600 & wait; wait");
    let handle = world.backend.start(&job).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    world.backend.cancel(&handle).await.unwrap();
    eventually("it is completing", || {
        world.queue(&job)[0].contains("COMPLETING") || world.queue(&job)[0].contains("CANCELLED")
    })
    .await;
    world.backend.cancel(&handle).await.unwrap();
    let seen = ended(&*world.backend, &handle).await;
    assert!(matches!(seen.state, JobState::Cancelled(_)), "{seen:?}");
    assert_eq!(ended(&*world.backend, &handle).await, seen);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_job_waits_for_an_approval() {
    let world = World::new().await;
    for approve in [true, false] {
        let target = json!({"approval": "Use 4 GPUs for {{ hours }} hours?"});
        let job = world.job_with("asks", "echo approved", json!({"hours": 3}), target);
        let handle = world.backend.start(&job).await.unwrap().handle;
        let question =
            until(&*world.backend, &handle, "a question", |seen| seen.questions.first().cloned()).await;
        assert_eq!(question.message, "Use 4 GPUs for 3 hours?");
        assert!(world.queue(&job)[0].contains("PENDING JobHeldUser"), "{:?}", world.queue(&job));
        let answer = match approve {
            true => Answer::Accept(Map::from_iter([("approve".to_owned(), json!(true))])),
            false => Answer::Decline,
        };
        let questions = world.backend.questions().unwrap();
        assert_eq!(questions.answer(&handle, &question.id, &answer).await.unwrap(), Taken::Accepted);
        let seen = ended(&*world.backend, &handle).await;
        assert_eq!(matches!(seen.state, JobState::Succeeded(_)), approve, "{seen:?}");
        assert_eq!(world.queue(&job)[0].contains("CANCELLED"), !approve, "{:?}", world.queue(&job));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_name_under_the_same_number_is_left_alone() {
    let world = World::new().await;
    let job = world.job("waits", "exec sleep 600");
    let handle = world.backend.start(&job).await.unwrap().handle;
    runs(&*world.backend, &handle).await;
    // As after a crash of the controller that forgot a number and gave it out again.
    let other =
        taskbridge_sdk::JobHandle::new(format!("lab/{}/tb-aaaaaaaaaaaaaaaaaaaaaaaaaa", number(&handle)));
    world.backend.cancel(&other).await.unwrap();
    assert_eq!(world.backend.observe(&other).await.unwrap().state, JobState::Gone);
    assert_eq!(world.backend.observe(&handle).await.unwrap().state, JobState::Running);
    world.backend.cancel(&handle).await.unwrap();
    ended(&*world.backend, &handle).await;
}
