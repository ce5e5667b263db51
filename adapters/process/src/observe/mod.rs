//! From the engine's states to the task. The program reports the states of the sdk, so there is no other
//! table:
//!
//! | on the wire | state |
//! |---|---|
//! | `"queued"` | `Queued` |
//! | `"running"` | `Running` |
//! | `{"succeeded": {..}}` | `Succeeded` |
//! | `{"failed": {..}}` | `Failed` |
//! | `{"cancelled": {..}}` | `Cancelled` |
//! | `"gone"` | `Gone` |
//!
//! Everything else is an error of the poll, never a state.

mod hooks;
mod poll;
mod wakeups;

#[cfg(test)]
mod tests {
    use serde_json::json;
    use taskbridge_sdk::{JobState, Output};

    #[test]
    fn state_table_matches_code() {
        let output = Output::default;
        for (wire, state) in [
            (json!("queued"), JobState::Queued),
            (json!("running"), JobState::Running),
            (json!({"succeeded": {}}), JobState::Succeeded(output())),
            (json!({"failed": {}}), JobState::Failed(output())),
            (json!({"cancelled": {}}), JobState::Cancelled(output())),
            (json!("gone"), JobState::Gone),
        ] {
            assert_eq!(serde_json::from_value::<JobState>(wire).unwrap(), state);
        }
        assert!(serde_json::from_value::<JobState>(json!("done")).is_err());
    }
}
