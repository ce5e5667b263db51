//! Helpers for text: one line, an excerpt, the media type, and the causes of an error. They must not know
//! jobs. They do not make text safe to show: [`crate::untrusted`] does.

mod cause;
mod excerpt;
mod media;
mod single_line;

pub use cause::{find_cause, root_cause};
pub use excerpt::{excerpt, is_mostly_text};
pub use media::{is_text, media_type};
pub use single_line::{one_line, short_line};
