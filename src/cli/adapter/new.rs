//! `taskbridge adapter new`: writes a new adapter program from a template. It must not overwrite a file.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::cli::print;

/// The text in a template that the name replaces.
const NAME: &str = "{{name}}";

#[derive(Args)]
pub(in crate::cli) struct Options {
    /// The language of the template.
    #[arg(long, value_name = "LANGUAGE")]
    lang: Language,
    /// The name of the adapter: letters, digits, `_` and `-`. A folder of this name is created.
    name: String,
    /// The folder in which it is created, instead of the current one.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    within: PathBuf,
}

/// The files of a template: their names and contents.
macro_rules! template {
    ($language:literal: $($file:literal),*) => {
        &[$(($file, include_str!(concat!("../../../sdks/", $language, "/template/", $file)))),*]
    };
}

#[derive(Clone, Copy, ValueEnum)]
enum Language {
    Python,
    #[value(name = "typescript")]
    TypeScript,
}

impl Language {
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => {
                template!(
                    "python": ".github/workflows/test.yml", "README.md", "adapter.py", "requirements.txt",
                    "taskbridge.toml", "test.toml", "test_adapter.py"
                )
            }
            Self::TypeScript => {
                template!(
                    "typescript": ".github/workflows/test.yml", "README.md", "package.json", "src/adapter.ts",
                    "taskbridge.toml", "test.toml", "test/adapter.test.mjs", "tsconfig.json"
                )
            }
        }
    }
}

/// Creates the folder and its files.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let name = options.name.as_str();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_allowed) {
        return Err(format!(
            "taskbridge: {name:?}: the name has letters, digits, `_` and `-` only, and begins with a letter"
        ));
    }
    let folder = options.within.join(name);
    let failed = |path: &Path, error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("taskbridge: {} exists already: choose another name", path.display())
        }
        _ => format!("taskbridge: {} cannot be written: {error}", path.display()),
    };
    fs::create_dir(&folder).map_err(|error| failed(&folder, error))?;
    for (file, text) in options.lang.files() {
        let path = folder.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        }
        let written =
            File::create_new(&path).and_then(|mut new| new.write_all(text.replace(NAME, name).as_bytes()));
        written.map_err(|error| failed(&path, error))?;
    }
    print(&format!("{} is created: read {}\n", folder.display(), folder.join("README.md").display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name is in all files, and nothing is overwritten.
    #[test]
    fn template_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let of = |lang, name: &str| Options { lang, name: name.to_owned(), within: dir.path().to_owned() };
        let options = |name| of(Language::Python, name);
        run(&options("my_engine")).unwrap();
        run(&options("my-engine")).unwrap();
        run(&of(Language::TypeScript, "other")).unwrap();
        assert!(dir.path().join("other/test/adapter.test.mjs").exists());
        let text = fs::read_to_string(dir.path().join("my_engine/adapter.py")).unwrap();
        assert!(text.contains("my_engine") && !text.contains(NAME), "{text}");
        assert!(run(&options("my_engine")).unwrap_err().contains("exists already"));
        for name in ["", "../x", "a b", "1a", "-a"] {
            assert!(run(&options(name)).is_err(), "{name}");
        }
    }
}
