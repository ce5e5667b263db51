//! Catches panics, with their message and location. It must not log them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};

use taskbridge_sdk::{sanitize, short_line};

/// Maximum length of a logged panic message, in characters.
pub(super) const MAX_MESSAGE: usize = 300;

/// A caught panic.
pub(super) struct Panic {
    pub(super) message: String,
    /// File and line, if [`install_panic_hook`] was called.
    pub(super) location: Option<String>,
}

thread_local! {
    /// True while panics of this thread are caught.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    /// The location of the last caught panic.
    static LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Prevents caught panics of an [`Isolation`](super::Isolation) from also being printed to standard error.
/// Call it once per process.
pub fn install_panic_hook() {
    let previous_hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if GUARDED.get() {
            LOCATION.set(info.location().map(ToString::to_string));
        } else {
            previous_hook(info);
        }
    }));
}

/// Runs work and catches its panic.
pub(super) fn catch_panic<T>(work: impl FnOnce() -> T) -> std::result::Result<T, Panic> {
    let was_guarded = GUARDED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(was_guarded);
    result.map_err(|payload| Panic { message: message(&*payload), location: LOCATION.take() })
}

/// Returns the message of a panic, without control characters and with bounded length.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    short_line(&sanitize(text.unwrap_or("no message")), MAX_MESSAGE)
}
