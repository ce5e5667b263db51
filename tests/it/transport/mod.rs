//! Tests for the transports from outside: a real listener and real requests, or two pipes for stdio. Other
//! tests cover the methods of the protocol.

mod bench;
mod doors;
mod messages;
mod modern;
mod program;
mod sessions;
mod slow;
mod stdio;
mod streams;
mod waits;
