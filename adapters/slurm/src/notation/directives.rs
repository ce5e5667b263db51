//! Parser for the `#SBATCH` lines of a batch script, which are the job's defaults. It follows sbatch's rules.
//! Pure.

use std::collections::BTreeMap;

/// Options of sbatch by their long names. `None` is an option without a value.
pub(crate) type Options = BTreeMap<String, Option<String>>;

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueRule {
    Flag,
    Value,
    /// An optional value, which follows the long name and `=`. A value after the short name is ignored.
    Optional,
}

use ValueRule::{Flag, Optional, Value};

/// Most options of sbatch: short name, long name, and whether the option has a value. The others are in
/// [`SBATCH_OPTIONS`]. An unknown long option is passed on, with its value if that follows a `=`. An unknown
/// short option is an error.
const COMMON_OPTIONS: [(Option<char>, &str, ValueRule); 96] = [
    (Some('a'), "array", Value),
    (Some('A'), "account", Value),
    (None, "acctg-freq", Value),
    (None, "batch", Value),
    (None, "bb", Value),
    (None, "bbf", Value),
    (Some('b'), "begin", Value),
    (Some('D'), "chdir", Value),
    (None, "cluster-constraint", Value),
    (Some('M'), "clusters", Value),
    (None, "comment", Value),
    (Some('C'), "constraint", Value),
    (None, "container", Value),
    (None, "contiguous", Flag),
    (Some('S'), "core-spec", Value),
    (None, "cores-per-socket", Value),
    (None, "cpu-freq", Value),
    (None, "cpus-per-gpu", Value),
    (Some('c'), "cpus-per-task", Value),
    (None, "deadline", Value),
    (None, "delay-boot", Value),
    (Some('d'), "dependency", Value),
    (Some('m'), "distribution", Value),
    (Some('e'), "error", Value),
    (Some('x'), "exclude", Value),
    (None, "exclusive", Optional),
    (None, "export", Value),
    (None, "export-file", Value),
    (Some('B'), "extra-node-info", Value),
    (None, "get-user-env", Optional),
    (None, "gid", Value),
    (None, "gpu-bind", Value),
    (None, "gpu-freq", Value),
    (Some('G'), "gpus", Value),
    (None, "gpus-per-node", Value),
    (None, "gpus-per-socket", Value),
    (None, "gpus-per-task", Value),
    (None, "gres", Value),
    (None, "gres-flags", Value),
    (Some('h'), "help", Flag),
    (None, "hint", Value),
    (Some('H'), "hold", Flag),
    (None, "ignore-pbs", Flag),
    (Some('i'), "input", Value),
    (Some('J'), "job-name", Value),
    (None, "kill-on-invalid-dep", Value),
    (Some('L'), "licenses", Value),
    (None, "mail-type", Value),
    (None, "mail-user", Value),
    (None, "mcs-label", Value),
    (None, "mem", Value),
    (None, "mem-bind", Value),
    (None, "mem-per-cpu", Value),
    (None, "mem-per-gpu", Value),
    (None, "mincpus", Value),
    (None, "network", Value),
    (None, "nice", Optional),
    (Some('k'), "no-kill", Optional),
    (None, "no-requeue", Flag),
    (Some('F'), "nodefile", Value),
    (Some('w'), "nodelist", Value),
    (Some('N'), "nodes", Value),
    (Some('n'), "ntasks", Value),
    (None, "ntasks-per-core", Value),
    (None, "ntasks-per-gpu", Value),
    (None, "ntasks-per-node", Value),
    (None, "ntasks-per-socket", Value),
    (None, "open-mode", Value),
    (Some('o'), "output", Value),
    (Some('O'), "overcommit", Flag),
    (Some('s'), "oversubscribe", Flag),
    (None, "parsable", Flag),
    (Some('p'), "partition", Value),
    (None, "power", Value),
    (None, "prefer", Value),
    (None, "priority", Value),
    (None, "profile", Value),
    (None, "propagate", Optional),
    (Some('q'), "qos", Value),
    (Some('Q'), "quiet", Flag),
    (None, "reboot", Flag),
    (None, "requeue", Flag),
    (None, "reservation", Value),
    (None, "signal", Value),
    (None, "sockets-per-node", Value),
    (None, "spread-job", Flag),
    (None, "switches", Value),
    (None, "test-only", Flag),
    (None, "thread-spec", Value),
    (None, "threads-per-core", Value),
    (Some('t'), "time", Value),
    (None, "time-min", Value),
    (None, "tmp", Value),
    (None, "uid", Value),
    (None, "use-min-nodes", Flag),
    (Some('v'), "verbose", Flag),
];

/// The options of sbatch that are not in [`COMMON_OPTIONS`].
const SBATCH_OPTIONS: [(Option<char>, &str, ValueRule); 5] = [
    (None, "wckey", Value),
    (Some('W'), "wait", Flag),
    (None, "wait-all-nodes", Value),
    (None, "wrap", Value),
    (None, "usage", Flag),
];

/// Options that the adapter sets itself, or that would change how sbatch is called: as whom, for which
/// cluster, with what output, and whether it submits and returns at once.
const RESERVED_OPTIONS: [&str; 24] = [
    "job-name",
    "comment",
    "output",
    "error",
    "open-mode",
    "hold",
    "requeue",
    "no-requeue",
    "export",
    "export-file",
    "get-user-env",
    "parsable",
    "quiet",
    "verbose",
    "wait",
    "wrap",
    "test-only",
    "help",
    "usage",
    "uid",
    "gid",
    "clusters",
    "ignore-pbs",
    "chdir",
];

/// Returns true if this option is reserved. In the options of a target, it is an error. In a script, it is
/// ignored, except for `chdir`: see [`Directives::chdir`].
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED_OPTIONS.contains(&name)
}

/// The options of a script's `#SBATCH` lines, without the reserved ones ([`is_reserved`]).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Directives {
    pub(crate) options: Options,
    /// Value of `chdir`, which is reserved. It is used if the target has no `working_dir`.
    pub(crate) chdir: Option<String>,
}

/// Parses the `#SBATCH` lines of a batch script. The error contains the number of the invalid line. Only the
/// error for a script that does not begin with `#!` has no number.
pub(crate) fn read(script: &str) -> Result<Directives, String> {
    if !script.starts_with("#!") {
        return Err(
            "its first line must begin with `#!` and name an interpreter, such as `#!/bin/bash`".to_owned()
        );
    }
    let mut directives = Directives::default();
    for (at, line) in script.lines().enumerate() {
        let Some(rest) = line.strip_prefix("#SBATCH") else {
            // sbatch stops at the first line with a command.
            let text = line.trim_start();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            break;
        };
        let line_error = |reason: String| format!("line {}: {reason}", at + 1);
        let words =
            split_words(rest).ok_or_else(|| line_error("a quotation mark is not closed".to_owned()))?;
        if words.first().is_some_and(|word| word == "hetjob" || word == "packjob") {
            return Err(line_error("heterogeneous jobs cannot be submitted here".to_owned()));
        }
        options(&words, &mut directives).map_err(line_error)?;
    }
    Ok(directives)
}

/// Parses the words of one line and adds their options.
fn options(words: &[String], directives: &mut Directives) -> Result<(), String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        // `None`: the option has no value. `Some(None)`: its value is missing. `Some(Some(_))`: its value.
        let (name, value): (String, Option<Option<String>>) = if let Some(long) = word.strip_prefix("--") {
            let (name, inline_value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
            match long_option(name) {
                Some((_, name, Value)) => {
                    (name.to_owned(), Some(inline_value.or_else(|| words.next().cloned())))
                }
                Some((_, name, _)) => (name.to_owned(), inline_value.map(Some)),
                None if inline_value.is_some() => (name.to_owned(), Some(inline_value)),
                None => (name.to_owned(), None),
            }
        } else if let Some(short) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let rest = &word[1 + short.len_utf8()..];
            let option = all_options().find(|(name, _, _)| *name == Some(short));
            let Some((_, name, value_rule)) = option else {
                return Err(format!("the option `-{short}` is not known"));
            };
            match value_rule {
                Value if rest.is_empty() => ((*name).to_owned(), Some(words.next().cloned())),
                Value => ((*name).to_owned(), Some(Some(rest.to_owned()))),
                _ => ((*name).to_owned(), None),
            }
        } else {
            return Err(format!("`{word}` is no option"));
        };
        let value = match value {
            Some(None) => return Err(format!("the option `--{name}` needs a value")),
            Some(value) => value,
            None => None,
        };
        if name == "chdir" {
            directives.chdir = value;
        } else if !is_reserved(&name) {
            set_option(&mut directives.options, &name, value);
        }
    }
    Ok(())
}

/// Sets an option. An option for memory replaces the other options for memory, since Slurm takes only one.
pub(crate) fn set_option(options: &mut Options, name: &str, value: Option<String>) {
    const MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];
    if MEMORY.contains(&name) {
        options.retain(|other, _| !MEMORY.contains(&other.as_str()));
    }
    options.insert(name.to_owned(), value);
}

fn all_options() -> impl Iterator<Item = &'static (Option<char>, &'static str, ValueRule)> {
    COMMON_OPTIONS.iter().chain(&SBATCH_OPTIONS)
}

/// Finds a long option by its name or by an unambiguous prefix.
fn long_option(name: &str) -> Option<(Option<char>, &'static str, ValueRule)> {
    if let Some(option) = all_options().find(|(_, long, _)| *long == name) {
        return Some(*option);
    }
    let mut matches = all_options().filter(|(_, long, _)| long.starts_with(name));
    let first = matches.next()?;
    matches.next().is_none().then_some(*first)
}

/// Splits a line into words as sbatch does: at whitespace outside of quotation marks, up to a `#`. Returns
/// `None` if a quotation mark is not closed.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.take());
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options_of(lines: &str) -> Vec<(String, Option<String>)> {
        read(&format!("#!/bin/bash\n{lines}\n")).unwrap().options.into_iter().collect()
    }

    fn pair(name: &str, value: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn lines_are_read_as_sbatch_does() {
        for (lines, expected) in [
            ("#SBATCH --time=5", vec![pair("time", "5")]),
            (
                "#SBATCH --time 5 -c2 -p gpu",
                vec![pair("cpus-per-task", "2"), pair("partition", "gpu"), pair("time", "5")],
            ),
            ("#SBATCH --mail-user=\"a b\" # why", vec![pair("mail-user", "a b")]),
            ("#SBATCH --part=x", vec![pair("partition", "x")]),
            (
                "#SBATCH --exclusive\n\n# a comment\n#SBATCH -t1",
                vec![("exclusive".to_owned(), None), pair("time", "1")],
            ),
            ("#SBATCH --exclusive=user", vec![pair("exclusive", "user")]),
            ("#SBATCH --mem=1G\n#SBATCH --mem-per-cpu=2G", vec![pair("mem-per-cpu", "2G")]),
            ("#SBATCH --something-new=3", vec![pair("something-new", "3")]),
            ("echo hello\n#SBATCH --time=5", vec![]),
            ("##SBATCH --time=5\n# SBATCH --time=6", vec![]),
            ("#SBATCH -o /x -J name --wait -W --hold --wrap=x --requeue --uid=0", vec![]),
        ] {
            assert_eq!(options_of(lines), expected, "{lines}");
        }
        assert_eq!(read("#!/bin/sh\n#SBATCH -D /data").unwrap().chdir.as_deref(), Some("/data"));
    }

    #[test]
    fn invalid_directive_names_line() {
        for (script, part) in [
            ("echo", "first line must begin with `#!`"),
            ("#!/bin/sh\n#SBATCH --time=\"5", "line 2: a quotation mark"),
            ("#!/bin/sh\n\n#SBATCH time=5", "line 3: `time=5` is no option"),
            ("#!/bin/sh\n#SBATCH --time", "line 2: the option `--time` needs a value"),
            ("#!/bin/sh\n#SBATCH -Y", "line 2: the option `-Y` is not known"),
            ("#!/bin/sh\n#SBATCH hetjob", "line 2: heterogeneous"),
        ] {
            assert!(read(script).is_err_and(|e| e.contains(part)), "{script}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_read_panics(lines in "(#SBATCH [ -~]{0,40}\n){0,4}\\PC*") {
            let _ = read(&format!("#!/bin/sh\n{lines}"));
        }
    }
}
