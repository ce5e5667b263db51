//! [`Reads`]: what a visitor has read of a page, as the audit log records it: each part once while the page is open,
//! however often its stream shows it. It must not write the log.

/// The parts of a page that are recorded as read by its visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::console) struct Reads {
    /// The result of the task.
    pub(in crate::console) result: bool,
    /// The log of the task.
    pub(in crate::console) log: bool,
    /// The list of another owner's tasks.
    pub(in crate::console) list: bool,
}

impl Reads {
    /// Returns them as text, a digit for each part.
    pub(in crate::console) fn to_text(self) -> String {
        [self.result, self.log, self.list]
            .map(|is_read| if is_read { '1' } else { '0' })
            .into_iter()
            .collect()
    }

    /// Parses [`Reads::to_text`].
    pub(in crate::console) fn parse(text: &str) -> Option<Self> {
        let &[result, log, list] = text.as_bytes() else { return None };
        let is_read = |digit: u8| matches!(digit, b'0' | b'1').then_some(digit == b'1');
        Some(Self { result: is_read(result)?, log: is_read(log)?, list: is_read(list)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let reads = Reads { log: true, ..Reads::default() };
        assert_eq!((reads.to_text().as_str(), Reads::parse("010")), ("010", Some(reads)));
        for wrong in ["", "01", "0100", "012"] {
            assert_eq!(Reads::parse(wrong), None, "{wrong}");
        }
    }
}
