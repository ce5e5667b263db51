//! See `taskbridge_fuzz::key`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::key::target, bytes));
