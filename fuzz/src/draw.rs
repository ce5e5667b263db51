//! [`Draw`]: values generated from bytes. The same bytes generate the same values, and an empty input
//! generates small ones.

use arbitrary::Unstructured;
use serde_json::{Map, Value, json};

/// Words with a meaning in some place: member names, their values, and near misses.
const WORDS: [&str; 64] = [
    "jsonrpc",
    "2.0",
    "id",
    "method",
    "params",
    "result",
    "error",
    "code",
    "message",
    "data",
    "_meta",
    "name",
    "arguments",
    "task",
    "ttl",
    "taskId",
    "cursor",
    "uri",
    "requestState",
    "inputResponses",
    "action",
    "accept",
    "decline",
    "content",
    "notifications",
    "taskIds",
    "toolsListChanged",
    "resourceSubscriptions",
    "progressToken",
    "io.taskbridge/idempotency-key",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/related-task",
    "traceparent",
    "tracestate",
    "capabilities",
    "elicitation",
    "form",
    "url",
    "sampling",
    "roots",
    "extensions",
    "io.modelcontextprotocol/tasks",
    "protocolVersion",
    "2025-11-25",
    "2026-07-28",
    "2025-06-18",
    "2025-03-26",
    "requestId",
    "ref",
    "type",
    "ref/prompt",
    "ref/resource",
    "argument",
    "value",
    "context",
    "level",
    "debug",
    "env",
    "staging",
    "confirm",
    "region",
    "",
];

/// Numbers at the limits of numeric parsing.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "9007199254740993",
    "253402300800000",
    "-62135596800001",
    "1e308",
    "-0.0",
    "0.5",
    "1e-320",
    "4294967296",
];

/// Maximum depth of generated JSON; `deep` generates deeper values.
const DEPTH: usize = 4;

/// A source of values.
pub(crate) struct Draw<'a>(Unstructured<'a>);

impl<'a> Draw<'a> {
    /// Draws from these bytes.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.int_in_range(0..=end - 1).unwrap_or(0)
    }

    /// Returns true once in this number of times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// Returns one of these values.
    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns any text.
    pub(crate) fn text(&mut self) -> String {
        self.0.arbitrary::<String>().unwrap_or_default()
    }

    /// Returns a word that may have a meaning, or any text.
    pub(crate) fn word(&mut self) -> String {
        match self.once_in(4) {
            true => self.text(),
            false => self.one_of(&WORDS).to_owned(),
        }
    }

    /// Returns up to this number of bytes.
    pub(crate) fn bytes(&mut self, max: usize) -> Vec<u8> {
        let length = self.below(max + 1).min(self.0.len());
        self.0.bytes(length).unwrap_or_default().to_vec()
    }

    /// Returns the remaining bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }

    /// Returns any JSON.
    pub(crate) fn json(&mut self) -> Value {
        self.json_within(DEPTH)
    }

    fn json_within(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.once_in(2)),
            2 => serde_json::from_str(self.one_of(&NUMBERS)).unwrap(),
            3 => json!(self.0.arbitrary::<i64>().unwrap_or_default()),
            4 => json!(self.word()),
            5 => (0..self.below(4)).map(|_| self.json_within(depth - 1)).collect(),
            6 => self.deep(),
            _ => {
                let members = (0..self.below(4)).map(|_| (self.word(), self.json_within(depth - 1)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }

    /// Returns JSON that is nested about as deep as the parser's limit.
    fn deep(&mut self) -> Value {
        let name = self.word();
        (0..self.below(130)).fold(Value::Null, |inner, _| json!({ &name: inner }))
    }

    /// Mutates a value at a random place: another value, one member more or less, or another name.
    pub(crate) fn mutate(&mut self, value: &mut Value) {
        match value {
            Value::Object(members) if !members.is_empty() && !self.once_in(8) => {
                let names: Vec<String> = members.keys().cloned().collect();
                let name = &names[self.below(names.len())];
                match self.below(6) {
                    0 => drop(members.remove(name)),
                    1 => {
                        let moved = members.remove(name).unwrap_or_default();
                        members.insert(self.word(), moved);
                    }
                    2 => drop(members.insert(self.word(), self.json())),
                    3 => drop(members.insert(name.clone(), self.json())),
                    _ => self.mutate(&mut members[name]),
                }
            }
            Value::Array(items) if !items.is_empty() && !self.once_in(4) => {
                let at = self.below(items.len());
                match self.below(4) {
                    0 => drop(items.remove(at)),
                    1 => items.insert(at, self.json()),
                    _ => self.mutate(&mut items[at]),
                }
            }
            other => *other = self.json(),
        }
    }

    /// Mutates bytes: some are changed, removed, duplicated or inserted.
    pub(crate) fn mutate_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut mutated = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(mutated.len() + 1);
            let end = (at + self.below(16)).min(mutated.len());
            match self.below(5) {
                0 if at < mutated.len() => mutated[at] ^= 1 << self.below(8),
                1 if at < mutated.len() => mutated[at] = self.0.arbitrary().unwrap_or_default(),
                2 => drop(mutated.drain(at..end)),
                3 => {
                    let copy = mutated[at..end].to_vec();
                    mutated.splice(at..at, copy);
                }
                _ => {
                    let new = self.bytes(16);
                    mutated.splice(at..at, new);
                }
            }
        }
        mutated
    }

    /// Mutates a text and drops all invisible characters.
    pub(crate) fn mutate_text(&mut self, text: &str) -> String {
        let mutated = self.mutate_bytes(text.as_bytes());
        mutated.into_iter().filter(u8::is_ascii_graphic).map(char::from).collect()
    }
}
