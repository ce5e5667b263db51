//! The behavior tests that every store must pass.

mod alone {
    taskbridge::store_suite!(super::super::bench().await);
}

mod shared {
    taskbridge::shared_store_suite!(super::super::benches().await);
}
