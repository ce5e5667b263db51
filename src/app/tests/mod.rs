//! Tests of the whole server within this process.

mod toy_dialect;
