//! Parser for the tasks of an array in Slurm's notation: `1-5,7,10-20:5%3`. Pure.

/// Maximum number of tasks in one expression: more than any cluster accepts.
const MAX_TASKS: usize = 4_000_001;

/// Returns the task numbers of an expression, in its order. Ignores the text after `%`, the maximum number of
/// tasks that run at the same time. Returns `None` for an invalid expression.
pub(crate) fn parse(text: &str) -> Option<Vec<u32>> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    let text = text.split('%').next().unwrap_or(text);
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?),
            None => (range.parse::<u32>().ok()?, range.parse::<u32>().ok()?),
        };
        if first > last || numbers.len() + ((last - first) / step) as usize >= MAX_TASKS {
            return None;
        }
        numbers.extend((first..=last).step_by(step as usize));
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expressions_are_read() {
        for (text, numbers) in [
            ("3", Some(vec![3])),
            ("1-5%1", Some(vec![1, 2, 3, 4, 5])),
            ("[0,2-3,10-20:5]", Some(vec![0, 2, 3, 10, 15, 20])),
            ("", None),
            ("a", None),
            ("5-1", None),
            ("1-", None),
            ("1-9:0", None),
            ("0-4294967295", None),
            // A long expression that a narrow column truncated.
            ("1-5,...", None),
        ] {
            assert_eq!(parse(text), numbers, "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_read_back(numbers in prop::collection::btree_set(0u32..100_000, 1..200)) {
            let numbers: Vec<u32> = numbers.into_iter().collect();
            let text = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse(&text), Some(numbers));
        }

        #[test]
        fn nothing_that_is_read_panics(text in "[0-9,:%\\[\\]-]{0,40}") {
            let _ = parse(&text);
        }
    }
}
