//! Clocks of AWS and of this machine. No other file of the adapter reads this machine's wall clock.

use std::sync::Arc;
use std::time::SystemTime;

use aws_sdk_sfn::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_sfn::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_sfn::error::BoxError;
use aws_sdk_sfn::primitives::{DateTime, DateTimeFormat};
use parking_lot::Mutex;
use taskbridge_sdk::Timestamp;

/// Time in a response of AWS, and local time of its arrival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockReading {
    pub(crate) aws_time: Timestamp,
    pub(crate) local_time: Timestamp,
}

/// Interceptor that reads the time from responses of AWS.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockInterceptor(Arc<Mutex<Option<ClockReading>>>);

impl ClockInterceptor {
    /// Returns the times of the last response that had a valid `date` header.
    pub(crate) fn last_reading(&self) -> Option<ClockReading> {
        *self.0.lock()
    }
}

impl Intercept for ClockInterceptor {
    fn name(&self) -> &'static str {
        "Listener"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        let date = date.and_then(|date| DateTime::from_str(date, DateTimeFormat::HttpDate).ok());
        if let Some(aws_millis) = date.and_then(|date| date.to_millis().ok()) {
            *self.0.lock() =
                Some(ClockReading { aws_time: Timestamp::from_millis(aws_millis), local_time: now() });
        }
        Ok(())
    }
}

/// Returns the local time.
#[expect(clippy::disallowed_methods, reason = "compared with the time at AWS, which checks signatures")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
