//! Checks the modules of the adapters: none form a circle, and their files have the names that
//! adapters/README.md lists. It must not judge what a module does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{ADAPTERS, Source, assert_none, root, sources};

/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 15;

/// The code of the modules of a crate, by their paths: `observe::poll`. The path of `lib.rs` is empty.
type Modules = BTreeMap<String, String>;

/// The modules that each module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Returns the modules in `folder`, without those that exist only in tests.
fn modules(folder: &str) -> Modules {
    let path = |source: &Source| {
        let file = source.path.strip_prefix(folder)?.strip_prefix('/')?.strip_suffix(".rs")?;
        let file = file.strip_suffix("/mod").unwrap_or(file);
        (!file.starts_with("bin/"))
            .then(|| if file == "lib" { String::new() } else { file.replace('/', "::") })
    };
    let code = |source: &Source| source.code().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    let all = sources(&[folder]);
    let sources = all.iter().filter(|source| !source.is_test);
    sources.filter_map(|source| Some((path(source)?, code(source)))).collect()
}

/// Returns the path of a module in another one.
fn join(module: &str, name: &str) -> String {
    let separator = if module.is_empty() || name.is_empty() { "" } else { "::" };
    format!("{module}{separator}{name}")
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn uses(modules: &Modules) -> Uses {
    let used = |module: &String, code: &str| {
        let children = modules.keys().filter(|other| !other.is_empty() && folder(other) == module);
        let children = children.map(|child| child.rsplit("::").next().unwrap_or_default());
        let trees =
            ["crate", "super", "self"].into_iter().chain(children).flat_map(|start| trees(code, start));
        let paths = trees.flat_map(expand).map(|path| resolve(module, &path, modules));
        paths.filter(|path| path != module).collect()
    };
    modules.iter().map(|(module, code)| (module.clone(), used(module, code))).collect()
}

/// Returns the module that a module is in.
fn folder(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(folder, _)| folder)
}

/// Returns the paths, and the trees of paths, that begin with `start::` in the code.
fn trees<'a>(code: &'a str, start: &str) -> Vec<&'a str> {
    let begins = code.match_indices(start).map(|(at, _)| at);
    let begins = begins.filter(|at| code[at + start.len()..].starts_with("::"));
    let begins = begins.filter(|at| !code[..*at].ends_with(|c: char| is_name(c) || c == ':'));
    begins.map(|at| tree(&code[at..])).collect()
}

/// Returns the path, or the tree of paths, at the start of the code.
fn tree(code: &str) -> &str {
    let mut depth = 0_usize;
    let is_end = |(_, c): &(usize, char)| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => return depth == 0 && !is_name(*c) && *c != ':',
        }
        depth == 0
    };
    let end = code.char_indices().find(is_end).map_or(code.len(), |(at, _)| at);
    code[..end].trim_end_matches('}')
}

/// Returns the paths of a tree: `crate::a::B` and `crate::c` for `crate::{a::B, c`, without the last brace.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, items)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let mut depth = 0_usize;
    let is_separator = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    let items = items.split(is_separator).map(str::trim).filter(|item| !item.is_empty());
    items.flat_map(|item| expand(&format!("{prefix}{}", item.trim_end_matches('}')))).collect()
}

/// Returns the module that a path in `module` leads to.
fn resolve(module: &str, path: &str, modules: &Modules) -> String {
    let mut at = module.to_owned();
    for name in path.split("::").map(|name| name.split(' ').next().unwrap_or_default()) {
        match name {
            "crate" => at.clear(),
            "super" => at = folder(&at).to_owned(),
            "self" => {}
            name if modules.contains_key(&join(&at, name)) => at = join(&at, name),
            _ => break,
        }
    }
    at
}

/// Returns the uses that are part of a circle. A folder is one module for the modules outside of it, so its
/// files together may not be part of a circle, either.
fn circles(uses: &Uses) -> BTreeSet<String> {
    let folders: BTreeSet<&str> = uses.keys().map(|module| folder(module)).collect();
    folders.into_iter().flat_map(|folder| circles_in(folder, uses)).collect()
}

/// Returns the circles among the entries of a folder, with the module of the folder itself.
fn circles_in(folder: &str, uses: &Uses) -> Vec<String> {
    let mut graph: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (module, used) in uses {
        for other in used {
            let (from, to) = (entry(folder, module), entry(folder, other));
            if let (Some(from), Some(to)) = (from, to)
                && from != to
            {
                graph.entry(from).or_default().insert(to, format!("{module} uses {other}"));
            }
        }
    }
    let edges =
        graph.iter().flat_map(|(from, targets)| targets.iter().map(move |(to, use_)| (from, to, use_)));
    edges.filter(|(from, to, _)| reaches(&graph, to, from)).map(|(.., use_)| use_.clone()).collect()
}

/// Returns the entry of a folder that a module is, or is in. `None` for a module elsewhere.
fn entry(folder: &str, module: &str) -> Option<String> {
    let below = match folder {
        "" => module,
        _ if module == folder => "",
        _ => module.strip_prefix(folder)?.strip_prefix("::")?,
    };
    Some(join(folder, below.split("::").next().unwrap_or_default()))
}

fn reaches(graph: &BTreeMap<String, BTreeMap<String, String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(at) = next.pop() {
        let targets = graph.get(at).into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        next.extend(targets.filter(|target| seen.insert(*target)));
    }
    seen.contains(to)
}

#[test]
fn adapters_have_no_circle_of_modules() {
    let mut found = Vec::new();
    for adapter in ADAPTERS {
        let modules = modules(&format!("adapters/{adapter}/src"));
        assert!(modules.len() > 20, "{adapter}: {} modules were found", modules.len());
        let circles = circles(&uses(&modules));
        found.extend(circles.into_iter().map(|use_| format!("adapters/{adapter}: {use_}")));
    }
    assert_none("uses that form a circle of modules", &found);
}

/// The check itself finds circles of files and of folders, in each way to write a path.
#[test]
fn circle_of_modules_is_found() {
    let found = |files: &[(&str, &str)]| {
        let modules = files.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned())).collect();
        circles(&uses(&modules)).into_iter().collect::<Vec<_>>()
    };
    let line = [("", "mod a; mod b;"), ("a", "use crate::b::B;"), ("b", ""), ("b::c", "use super::B;")];
    assert!(found(&line).is_empty());
    let files =
        [("", ""), ("a", "use crate::{\n    b::{self, B},\n    x,\n};"), ("b", "fn f(a: crate::a::A) {}")];
    assert_eq!(found(&files), ["a uses b", "b uses a"]);
    let folders = [("", ""), ("a", ""), ("a::c", "use crate::b::B;"), ("b", "use crate::a::A;")];
    assert_eq!(found(&folders), ["a::c uses b", "b uses a"]);
    let parent = [("", ""), ("b", "fn f() { c::g() }"), ("b::c", "use super::B;")];
    assert_eq!(found(&parent), ["b uses b::c", "b::c uses b"]);
}

/// Returns the rows of the table of names: a name, and whether each adapter has it.
fn listed_names(readme: &str) -> Vec<(&str, Vec<bool>)> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.trim_end_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    let row = |cells: Vec<&'_ str>| cells[2..].iter().map(|mark| *mark == "x").collect();
    cells.map(|cells| (cells[0].trim_end_matches(['`', '/']), row(cells))).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The table in adapters/README.md marks the names that each adapter has, and has all at the top of an
/// adapter.
#[test]
fn adapter_files_have_listed_names() {
    let readme = fs::read_to_string(root().join("adapters/README.md")).unwrap();
    let listed = listed_names(&readme);
    assert!(listed.len() > 25, "the table has {} rows", listed.len());
    let mut errors = Vec::new();
    for (column, adapter) in ADAPTERS.iter().enumerate() {
        let folder = root().join(format!("adapters/{adapter}/src"));
        let exists = |name: &str| folder.join(name).exists() || folder.join(format!("{name}.rs")).exists();
        let wrong = listed.iter().filter(|(name, marks)| exists(name) != marks[column]);
        errors.extend(wrong.map(|(name, _)| format!("{adapter}: the mark of `{name}`")));
        let names =
            entries(&folder).into_iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
        let unlisted = names.filter(|name| !listed.iter().any(|(listed, _)| listed == name));
        errors.extend(unlisted.map(|name| format!("{adapter}: `{name}` is not listed")));
    }
    assert_none("names that differ from adapters/README.md", &errors);
}

/// A folder has at most 15 entries: in the adapters, the sdk, the stores and the config.
#[test]
fn folders_are_small() {
    let mut folders: Vec<PathBuf> =
        ADAPTERS.iter().map(|adapter| root().join(format!("adapters/{adapter}/src"))).collect();
    folders.extend(["adapters/sdk/src", "crates/store/src", "src/config"].map(|folder| root().join(folder)));
    let mut crowded = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = entries(&folder);
        if entries.len() > MAX_ENTRIES {
            crowded.push(format!("{}: {} entries", folder.display(), entries.len()));
        }
        folders.extend(entries.into_iter().filter(|path| path.is_dir()));
    }
    assert_none("folders with too many entries", &crowded);
}
