//! See `taskbridge_fuzz::cursor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::cursor::target, bytes));
