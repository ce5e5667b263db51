//! Limits per caller: rates, quotas, a memory budget, and the key by which callers are counted. Each process
//! counts on its own. It must not know what is counted, or how a refusal is answered.

pub mod caller_key;
pub mod memory_budget;
pub mod quota;
pub mod rate;
