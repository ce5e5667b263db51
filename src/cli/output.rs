//! Output of commands: text, colours, and hints to the documentation. Colours and hints are only for a
//! terminal; `NO_COLOR` disables colours. It must not know any command.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};

/// The folder or address of the book. A release names its address when it is built.
const BOOK: &str = match option_env!("TASKBRIDGE_BOOK") {
    Some(address) => address,
    None => "docs",
};

/// Pages about errors, by a part of the message. The first match counts.
const PAGES: [(&str, &str); 5] = [
    ("no config file", "start/quick-start.md"),
    ("defined twice", "guide/config-files.md"),
    (".toml:", "guide/config-files.md"),
    ("the address is in use", "operate/troubleshooting.md"),
    ("database", "operate/recovery.md"),
];

/// Text that is good news.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Text that needs attention.
pub(super) const ATTENTION: Style = AnsiColor::Yellow.on_default();
/// Text about something that does not work.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();

/// Returns the text in a style. A terminal shows it, and everything else gets the text alone.
pub(super) fn styled(style: Style, text: impl fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints to standard output. Ignores errors, such as a closed pipe.
pub(super) fn print(text: &str) {
    let mut out = anstream::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a line to standard error.
pub(super) fn print_error(text: &str) {
    let mut out = anstream::stderr().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints the error that ends a command, and on a terminal the page that explains it.
pub(super) fn print_failure(message: &str) {
    print_error(message);
    if let Some(page) = page(message).filter(|_| io::stderr().is_terminal()) {
        print_error(&format!("More: {BOOK}/{page}"));
    }
}

fn page(message: &str) -> Option<&'static str> {
    PAGES.iter().find(|(part, _)| message.contains(part)).map(|(_, page)| *page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_pages_exist() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        for (part, page) in PAGES {
            assert!(docs.join(page).is_file(), "{part}: {page}");
        }
        assert_eq!(page("taskbridge: no config file: there is no x.toml:"), Some("start/quick-start.md"));
        assert_eq!(page("x.toml:3: server.lisen: unknown field"), Some("guide/config-files.md"));
        assert_eq!(page("something else"), None);
    }
}
