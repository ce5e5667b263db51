//! See `taskbridge_fuzz::session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::session::target, bytes));
