//! Limits per caller: rates, open requests, a memory budget, and the key by which callers are counted. Each
//! process counts on its own. It must not know what is counted, or how a refusal is answered.

pub mod caller_key;
pub mod in_flight_limit;
pub mod memory_budget;
pub mod rate;
