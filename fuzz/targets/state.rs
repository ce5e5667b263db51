//! See `taskbridge_fuzz::state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::state::target, bytes));
