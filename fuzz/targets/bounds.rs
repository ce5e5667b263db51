//! See `taskbridge_fuzz::bounds`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::bounds::target, bytes));
