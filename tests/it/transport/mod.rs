//! The transports from outside: a real listener and real requests, or two pipes for stdio. What the methods of the
//! protocol do is tested elsewhere.

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
