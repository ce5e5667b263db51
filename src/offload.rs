//! [`offload`]: runs CPU-bound work of many milliseconds on threads of idle priority, which run only while no
//! other thread of the server needs the CPU. It must not be used for work that waits for I/O or locks.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// Returns the maximum number of threads: one for each CPU that the process may use. More threads finish no
/// sooner. The kernel also grants each `SCHED_IDLE` thread a small share of a busy CPU, up to a time slice at
/// once, so that with more of them requests wait more often.
fn max_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// `SCHED_IDLE`. With a high `nice` value instead, a thread that wakes up could wait for several time slices
/// of these threads.
const POLICY: ThreadSchedulePolicy = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);

/// Runs light work on the current thread, and other work on a thread of idle priority. If the caller goes
/// away, queued work is dropped, and running work continues to its end.
pub(crate) async fn offload<T: Send + 'static>(
    is_light: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if is_light {
        return work();
    }
    let done = AbortOnDropHandle::new(threads().spawn_blocking(work)).await;
    match done {
        Ok(result) => result,
        Err(error) => resume_unwind(error.into_panic()),
    }
}

/// Returns the runtime of the threads. Idle threads stay for a while, so that their memory is reused.
fn threads() -> &'static Runtime {
    static THREADS: OnceLock<Runtime> = OnceLock::new();
    THREADS.get_or_init(|| {
        let mut builder = Builder::new_current_thread();
        builder.max_blocking_threads(max_threads()).thread_name("heavy").on_thread_start(|| {
            // If the system refuses it, the work runs at normal priority.
            let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, POLICY);
        });
        builder.build().expect("a runtime without I/O can be created")
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use thread_priority::thread_schedule_policy;

    use super::*;

    #[tokio::test]
    async fn heavy_work_has_few_idle_threads() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let policy = || thread_schedule_policy().unwrap();
        let test_thread = (thread::current().id(), policy());
        let tasks = (0..50).map(|n| {
            offload(n % 2 == 0, move || {
                let running = RUNNING.fetch_add(1, Ordering::SeqCst) + 1;
                thread::yield_now();
                RUNNING.fetch_sub(1, Ordering::SeqCst);
                (n, running, thread::current().id(), policy())
            })
        });
        for (n, running, thread, policy) in join_all(tasks).await {
            assert!(running <= max_threads() + 1, "{running}");
            assert_eq!(thread == test_thread.0, n % 2 == 0, "{n}");
            assert_eq!(policy, if n % 2 == 0 { test_thread.1 } else { POLICY }, "{n}");
        }
        assert_eq!(policy(), test_thread.1, "other threads keep their policy");
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn panic_reaches_the_caller() {
        offload::<()>(false, || panic!("on purpose")).await
    }
}
