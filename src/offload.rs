//! [`offload`]: work that may take many milliseconds of a processor, on threads of its own with a lower priority, so that short
//! requests are answered meanwhile. It must not be used for work that waits for something.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use tokio::sync::{Semaphore, oneshot};

/// The most threads at once. Further work waits for its turn.
const MAX_THREADS: usize = 8;

/// By how much their priority is lower (`nice`): as low as there is.
const NICE: i32 = 19;

static TURNS: Semaphore = Semaphore::const_new(MAX_THREADS);

/// Does the work here if it is light, and else on a thread of its own. Work that has begun ends also if the caller goes away.
pub(crate) async fn offload<T: Send + 'static>(
    is_light: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if is_light {
        return work();
    }
    let turn = TURNS.acquire().await.expect("it is never closed");
    let (done, result) = oneshot::channel();
    let heavy = move || {
        // Without it the work is done as well.
        let _ = rustix::process::nice(NICE);
        // The caller may be gone.
        let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
        drop(turn);
    };
    thread::Builder::new().name("heavy".to_owned()).spawn(heavy).expect("the system gives a thread");
    match result.await.expect("the thread sends a result, also of a panic") {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn heavy_work_has_few_nice_threads() {
        static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let here = (thread::current().id(), priority());
        let works = (0..50).map(|n| {
            offload(n % 2 == 0, move || {
                let now = AT_ONCE.fetch_add(1, Ordering::SeqCst) + 1;
                thread::yield_now();
                AT_ONCE.fetch_sub(1, Ordering::SeqCst);
                (n, now, thread::current().id(), priority())
            })
        });
        for (n, at_once, thread, priority) in join_all(works).await {
            assert!(at_once <= MAX_THREADS + 1, "{at_once}");
            assert_eq!(thread == here.0, n % 2 == 0, "{n}");
            assert!(n % 2 == 0 || priority == 19, "{priority}");
        }
        assert_eq!(priority(), here.1, "other threads keep their priority");
    }

    #[tokio::test]
    #[should_panic(expected = "on purpose")]
    async fn panic_reaches_the_caller() {
        offload::<()>(false, || panic!("on purpose")).await
    }
}
