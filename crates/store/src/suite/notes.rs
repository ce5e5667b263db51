//! Tests of the data that a store keeps in addition to rows.

use std::time::Duration;

use super::Bench;

pub async fn usual_duration_is_of_newest_hundred(bench: &Bench) {
    let usual = async |tool| {
        let usual = bench.store.usual_duration(tool).await.expect("the durations can be read");
        usual.map(|usual| (usual.median.as_secs(), usual.p90.as_secs(), usual.jobs))
    };
    let record = async |tool, seconds| {
        let took = Duration::from_secs(seconds);
        bench.store.record_duration(tool, took).await.expect("the durations can be written");
    };
    assert_eq!(usual("build").await, None);
    for seconds in [9, 1, 5, 7] {
        record("build", seconds).await;
    }
    assert_eq!(usual("build").await, None, "four are too few");
    record("build", 3).await;
    assert_eq!(usual("build").await, Some((5, 9, 5)));
    assert_eq!(usual("deploy").await, None, "every tool has its own");
    for _ in 0..100 {
        record("build", 60).await;
    }
    assert_eq!(usual("build").await, Some((60, 60, 100)), "the first five were dropped");
    for _ in 0..11 {
        record("build", 90).await;
    }
    for _ in 0..49 {
        record("build", 1).await;
    }
    assert_eq!(usual("build").await, Some((60, 90, 100)), "49, 40 and 11 of the newest hundred");
    record("build", 1).await;
    assert_eq!(usual("build").await, Some((1, 90, 100)), "50 of the newest hundred");
}

pub async fn the_first_seal_key_stays(bench: &Bench) {
    let key = async |new_key| bench.store.seal_key(new_key).await.expect("the key can be read");
    assert_eq!(key([1; 32]).await, [1; 32]);
    assert_eq!(key([2; 32]).await, [1; 32]);
}

/// A fact reads back as it was last written.
pub async fn facts_are_replaced(bench: &Bench) {
    let fact = async |name| bench.store.fact(name).await.expect("facts can be read");
    let set = async |name, value| bench.store.set_fact(name, value).await.expect("facts can be written");
    assert_eq!(fact("a").await, None);
    set("a", "1").await;
    set("b", "2").await;
    set("a", "3").await;
    assert_eq!((fact("a").await.as_deref(), fact("b").await.as_deref()), (Some("3"), Some("2")));
    let replace = async |name, before, value| {
        bench.store.replace_fact(name, before, value).await.expect("facts can be written")
    };
    assert!(!replace("a", Some("1"), "4").await && !replace("a", None, "4").await, "it is another by now");
    assert!(!replace("c", Some("1"), "4").await, "there is none");
    assert!(replace("a", Some("3"), "5").await && replace("c", None, "6").await);
    assert_eq!((fact("a").await.as_deref(), fact("c").await.as_deref()), (Some("5"), Some("6")));
    assert_eq!(bench.store.write_failure(), None);
}
