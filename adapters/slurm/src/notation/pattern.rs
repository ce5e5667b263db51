//! Matching of names and paths: `*` and `?` within a part, `**` for any folders. Pure.

/// Returns true if a text matches a pattern in which `*` is any text and `?` one character.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // The position of the last `*`, and the end of the text that it matches so far.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, matched_end)) = star else { return false };
                star = Some((at, matched_end + 1));
                p = at + 1;
                t = matched_end + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Returns true if a relative path matches a pattern part by part; `**` is any number of folders, including
/// none.
pub(crate) fn fits_path(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    // Which prefixes of the path match the pattern's parts so far.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        for (at, _) in reached.iter().enumerate().filter(|(_, reached)| **reached) {
            if part == "**" {
                next[at..].fill(true);
            } else if path.get(at).is_some_and(|name| fits(part, name)) {
                next[at + 1] = true;
            }
        }
        reached = next;
    }
    reached[path.len()]
}

/// Returns the problem of a path pattern or a file path, if any. It must stay within the folder in which the
/// script runs.
pub(crate) fn path_problem(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    match () {
        () if path.starts_with('/') => {
            Some(format!("`{path}` must be relative to the folder in which the script runs"))
        }
        () if parts.contains(&"..") => Some(format!("`{path}` must not contain `..`")),
        () if parts.iter().any(|part| part.is_empty() || *part == ".") => {
            Some(format!("`{path}` has an empty part or `.`"))
        }
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_expected_paths() {
        for (pattern, path, expected) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "x/a.csv", false),
            ("**/*.csv", "a.csv", true),
            ("**/*.csv", "x/y/a.csv", true),
            ("plots/**/*.png", "plots/a/b.png", true),
            ("plots/**", "plots/a/b.png", true),
            ("plots/**", "plot/a", false),
            ("a?c*", "abcd", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("", "a", false),
        ] {
            assert_eq!(fits_path(pattern, path), expected, "{pattern} {path}");
        }
        for invalid_path in ["/etc/passwd", "../x", "a/../b", "", "a//b", "./a"] {
            assert!(path_problem(invalid_path).is_some(), "{invalid_path}");
        }
        assert_eq!(path_problem("a/b*/**"), None);
    }

    proptest! {
            #[test]
            fn pattern_matches_itself_and_star(text in "[a-c/]{0,20}", rest in "[a-c*?/]{0,20}") {
                prop_assert!(fits("*", &text));
                prop_assert!(fits_path(&text, &text) && fits_path("**", &text));
                let _ = fits_path(&rest, &text);
            }

            #[test]
            fn a_long_pattern_ends(text in "a{0,200}") {
    let text = format!("{text}bb c");
                prop_assert_eq!(fits(&"a*".repeat(50), &text), text.len() >= 54);
            }
        }
}
