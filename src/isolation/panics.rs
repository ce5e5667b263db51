//! Panics that are caught: what they said and where. It must not log them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};

use taskbridge_sdk::{harmless, short_line};

/// The longest panic message that is logged, in characters.
pub(super) const MAX_MESSAGE: usize = 300;

/// A panic that was caught.
pub(super) struct Panic {
    pub(super) message: String,
    /// File and line, where [`log_quietly`] was called.
    pub(super) location: Option<String>,
}

thread_local! {
    /// True while a panic of this thread is caught and logged here.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// Where the last such panic happened.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics that an [`Isolation`] catches from being printed to standard error as well. Call it once per process.
pub fn log_quietly() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if GUARDED.get() {
            LOCATION.set(info.location().map(ToString::to_string));
        } else {
            before(info);
        }
    }));
}

/// Does something and catches its panic.
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> std::result::Result<T, Panic> {
    let before = GUARDED.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    done.map_err(|payload| Panic { message: message(&*payload), location: LOCATION.take() })
}

/// What a panic says, without control characters and of bounded length.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    short_line(&harmless(text.unwrap_or("no message")), MAX_MESSAGE)
}
