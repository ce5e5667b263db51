//! See `taskbridge_fuzz::forwarded`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::forwarded::target, bytes));
