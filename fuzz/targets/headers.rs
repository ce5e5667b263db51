//! See `taskbridge_fuzz::headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::headers::target, bytes));
