//! See `taskbridge_fuzz::issuer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| taskbridge_fuzz::run(taskbridge_fuzz::issuer::target, bytes));
