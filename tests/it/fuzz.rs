//! A short run of the targets of `fuzz/`: bytes derived from a seed, and mutated copies of the stored
//! inputs. A finding of a fuzzer is stored as one of these inputs and so becomes a regression test.
//!
//! `$TASKBRIDGE_FUZZ_INPUTS` sets the number of inputs per target.

use std::fs;
use std::path::Path;

use crate::support::{Random, knob};

#[allow(unreachable_pub, dead_code, reason = "it is a crate of its own elsewhere")]
#[path = "../../fuzz/src/lib.rs"]
mod entries;

/// Maximum length of a generated input.
const MAX_INPUT_BYTES: u64 = 512;

/// Returns the stored inputs of a target.
fn stored_inputs(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Returns the next input: a mutated stored input, or random bytes.
fn input(random: &mut Random, stored: &[Vec<u8>]) -> Vec<u8> {
    let random_bytes = |random: &mut Random| {
        (0..random.below(MAX_INPUT_BYTES)).map(|_| random.next().to_be_bytes()[0]).collect::<Vec<u8>>()
    };
    if random.below(2) == 0 {
        return random_bytes(random);
    }
    let mut bytes = stored[usize::try_from(random.below(stored.len() as u64)).unwrap()].clone();
    for _ in 0..=random.below(4) {
        let index = usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap();
        match random.below(3) {
            0 if index < bytes.len() => bytes[index] ^= 1 << random.below(8),
            1 => bytes.truncate(index),
            _ => bytes.insert(index, random.next().to_be_bytes()[0]),
        }
    }
    bytes
}

fn hold(name: &str) {
    let (_, target) = entries::TARGETS.into_iter().find(|(target, _)| *target == name).unwrap();
    let (endpoint, stored) = (entries::Endpoint::new(), stored_inputs(name));
    stored.iter().for_each(|bytes| target(&endpoint, bytes));
    let mut random = Random::new(0x7A5C);
    for _ in 0..knob("TASKBRIDGE_FUZZ_INPUTS", 1_000) {
        let bytes = input(&mut random, &stored);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target(&endpoint, &bytes)));
        assert!(result.is_ok(), "{name} fails on {:?}", bytes.escape_ascii().to_string());
    }
}

macro_rules! targets {
    ($($function:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $function() {
                hold($name);
            }
        )*

        /// Each target of `fuzz/` has a test here.
        #[test]
        fn no_target_is_left_out() {
            assert_eq!(entries::TARGETS.map(|(name, _)| name), [$($name),*]);
        }
    };
}

targets! {
    any_envelope_is_answered: "envelope",
    any_head_is_answered: "headers",
    no_forged_session_opens: "session",
    no_forged_state_opens: "state",
    no_forged_cursor_opens: "cursor",
    key_identifies_one_call: "key",
    accepted_message_is_within_limits: "bounds",
    unknown_proxy_cannot_set_origin: "forwarded",
    forged_token_is_refused: "token",
    invalid_issuer_response_authenticates_no_caller: "issuer",
}
