//! See `taskbridge_fuzz::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::envelope::target, bytes));
