//! The variants of a tool: calls whose jobs are expected to take equally long, by the values of the parameters in
//! `duration_depends_on`. It must not read a store.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::tasks::pace::usual::MAX_VARIANTS;

/// Returns the number of a call's variant, below [`MAX_VARIANTS`]: a hash of the values of these parameters. Numbers
/// between the same two powers of two count as one value. `None` without parameters.
pub(super) fn number(parameters: &[String], arguments: &Map<String, Value>) -> Option<u16> {
    if parameters.is_empty() {
        return None;
    }
    let mut hash = Sha256::new();
    for name in parameters {
        hash.update(name);
        hash.update([0]);
        hash.update(arguments.get(name).map(rounded).unwrap_or_default());
        hash.update([0]);
    }
    let digest = hash.finalize();
    Some(u16::from_be_bytes([digest[0], digest[1]]) % MAX_VARIANTS)
}

/// Returns a value as text, and of a number only its sign and the power of two below it.
fn rounded(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if number != 0.0 => {
            format!("{}2^{}", if number < 0.0 { "-" } else { "" }, number.abs().log2().floor())
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(arguments: Value) -> Option<u16> {
        let parameters = ["place".to_owned(), "steps".to_owned()];
        number(&parameters, arguments.as_object().expect("an object"))
    }

    /// Only the named parameters count; each value, and each order of magnitude of a number, is a variant.
    #[test]
    fn variants_differ_by_named_parameters() {
        let base = of(json!({"place": "test", "steps": 100, "note": "a"}));
        assert!(base.is_some_and(|number| number < MAX_VARIANTS));
        for same in [
            json!({"place": "test", "steps": 100, "note": "b"}),
            json!({"steps": 64.5, "place": "test"}),
            json!({"steps": 127, "place": "test"}),
        ] {
            assert_eq!(of(same.clone()), base, "{same}");
        }
        for other in [
            json!({"place": "live", "steps": 100}),
            json!({"place": "test", "steps": 128}),
            json!({"place": "test", "steps": -100}),
            json!({"place": "test", "steps": 0}),
            json!({"place": "test"}),
            json!({"steps": 100}),
        ] {
            assert_ne!(of(other.clone()), base, "{other}");
        }
        assert_eq!(number(&[], &Map::new()), None);
    }
}
