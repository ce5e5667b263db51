//! [`Bounds`]: limits of the structure of a message. Parsed values can need far more memory than their text,
//! so the structure is counted before parsing. This takes one pass over the bytes, without allocation or
//! recursion.

/// The greatest nesting depth that the parser itself accepts.
pub const MAX_DEPTH: usize = 127;

/// Limits of the structure of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum nesting depth of objects and arrays.
    pub depth: usize,
    /// Maximum number of object members and array items in total. The count is an estimate, of at most twice
    /// the number.
    pub elements: usize,
}

/// The bound that a message exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// The message is nested too deep.
    #[error("the message is nested deeper than {0} levels")]
    Depth(usize),
    /// The message has too many members and items.
    #[error("the message has more than {0} members and items")]
    Elements(usize),
}

/// The limits of the parser.
impl Default for Bounds {
    fn default() -> Self {
        Self { depth: MAX_DEPTH, elements: usize::MAX }
    }
}

impl Bounds {
    /// Checks a text against the bounds, JSON or not. For valid JSON, the count of elements is never too low,
    /// and at most twice as high plus one.
    ///
    /// # Errors
    /// See [`Excess`].
    pub fn check(&self, text: &[u8]) -> Result<(), Excess> {
        let (mut depth, mut elements) = (0usize, 0usize);
        let (mut in_string, mut escaped) = (false, false);
        for byte in text {
            if in_string {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' => escaped = true,
                    b'"' => in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' => in_string = true,
                b'{' | b'[' => {
                    depth += 1;
                    elements += 1;
                    if depth > self.depth {
                        return Err(Excess::Depth(self.depth));
                    }
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' => elements += 1,
                _ => continue,
            }
            // Each comma precedes one more element, and each bracket at most one first element.
            if elements > self.elements {
                return Err(Excess::Elements(self.elements));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn elements(value: &Value) -> usize {
        match value {
            Value::Array(items) => items.len() + items.iter().map(elements).sum::<usize>(),
            Value::Object(members) => members.len() + members.values().map(elements).sum::<usize>(),
            _ => 0,
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[\\\\\"{}\\[\\],:a\n]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map("[\"\\\\{,]{0,3}", inner, 0..5)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        /// A message that is accepted has at most the allowed depth and elements; one with half of them
        /// always is.
        #[test]
        fn parsed_message_is_within_bounds(value in any_value(), most in 0usize..12) {
            let text = value.to_string();
            let let_pass = |bounds: Bounds| bounds.check(text.as_bytes()).is_ok();
            prop_assert_eq!(let_pass(Bounds { depth: most, ..Bounds::default() }), depth(&value) <= most);
            if let_pass(Bounds { elements: most, ..Bounds::default() }) {
                prop_assert!(elements(&value) <= most);
            }
            // A message with half as many elements as the bound is never refused.
            let twice = Bounds { elements: elements(&value) * 2 + 1, ..Bounds::default() };
            prop_assert!(let_pass(twice));
        }
    }

    /// Depth and elements are counted without a parser.
    #[test]
    fn invalid_json_is_bounded_too() {
        let bounds = Bounds { depth: 3, elements: 5 };
        for (text, expected) in [
            ("", Ok(())),
            ("]]]}[[[", Ok(())),
            ("[[[[", Err(Excess::Depth(3))),
            ("[,,,,,,", Err(Excess::Elements(5))),
            ("{]{]{]{]{]{]", Err(Excess::Elements(5))),
            ("\"[[[[[[[", Ok(())),
            ("\"\\\"[[[[\"[[[[", Err(Excess::Depth(3))),
        ] {
            assert_eq!(bounds.check(text.as_bytes()), expected, "{text}");
        }
    }
}
