//! Check that an Express execution must end while the server waits for it, according to its definition. Pure.

use std::time::Duration;

/// Reason why an execution may run longer, and a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnboundedError {
    pub(crate) reason: String,
    pub(crate) fix: String,
}

/// Compares the `TimeoutSeconds` of an Express state machine with the time that the server waits.
pub(crate) fn check(timeout_seconds: Option<u64>, limit: Duration) -> Result<(), UnboundedError> {
    let duration = match timeout_seconds {
        Some(seconds) if Duration::from_secs(seconds) < limit => return Ok(()),
        Some(seconds) => format!("its `TimeoutSeconds` is {seconds}"),
        None => "its definition has no `TimeoutSeconds`, so it may take five minutes".to_owned(),
    };
    let limit_seconds = limit.as_secs_f64();
    let reason = format!(
        "the state machine is Express, and {duration}: the server waits {limit_seconds} s, and an execution that \
         takes longer ends as uncertain"
    );
    let max_timeout = (limit_seconds.ceil() - 1.0).max(1.0);
    let fix = format!(
        "set `\"TimeoutSeconds\": {max_timeout}` at the top of its definition, raise `lease` in [reconciler] to more than \
         twice the duration of an execution, use a Standard state machine, or accept this with `unbounded = true` in the tool's target"
    );
    Err(UnboundedError { reason, fix })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A definition is accepted only if its `TimeoutSeconds` is below the time that the server waits.
    #[test]
    fn definition_timeout_must_be_below_limit() {
        let limit = Duration::from_millis(7500);
        assert_eq!((check(Some(1), limit), check(Some(7), limit)), (Ok(()), Ok(())));
        let late = check(Some(8), limit).unwrap_err();
        assert!(late.reason.contains("its `TimeoutSeconds` is 8: the server waits 7.5 s"), "{late:?}");
        assert!(late.fix.starts_with("set `\"TimeoutSeconds\": 7` at the top"), "{late:?}");
        let endless = check(None, limit).unwrap_err();
        assert!(endless.reason.contains("may take five minutes"), "{endless:?}");
        assert!(check(Some(5), Duration::from_secs(5)).is_err(), "a timeout equal to the limit is rejected");
    }
}
