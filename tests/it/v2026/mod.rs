//! 2026-07-28 from outside: the real program, real HTTP, and every message held against the official schemas.

mod offers;
