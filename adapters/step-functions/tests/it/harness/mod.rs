//! What the tests share: the emulators of AWS, a proxy in front of them, and an adapter connected to both. It must
//! have no tests.

pub(crate) mod proxy;
pub(crate) mod standin;
pub(crate) mod world;
