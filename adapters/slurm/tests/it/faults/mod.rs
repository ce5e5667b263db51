//! Faults: of the calls between the backend and its cluster, of the controller, and of the file system of the
//! folders.

mod calls;
mod crash;
mod hangs;
