//! Adds a block to the text of a client's file, and keeps the rest as it is, with comments and layout. It
//! must not know any client.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue as Node, CstRootNode};
use serde_json::Value;

use super::clients::{Block, Format};

/// Maximum size of a client's file, in bytes. Claude Code keeps its history in the same file.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Writes a block into its file: the whole file, or nothing. Returns true if it replaced an older block.
pub(super) fn write(block: &Block) -> Result<bool, String> {
    let target = link_target(&block.file);
    let old = read(&target)?;
    let was_there = has(&old, block);
    let new = insert(&old, block)?;
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unwritable = |error: std::io::Error| format!("cannot be written: {error}");
    fs::create_dir_all(folder).map_err(unwritable)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(unwritable)?;
    file.write_all(new.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(unwritable)?;
    if let Ok(metadata) = fs::metadata(&target) {
        file.as_file().set_permissions(metadata.permissions()).map_err(unwritable)?;
    }
    file.persist(&target).map_err(|error| unwritable(error.error))?;
    Ok(was_there)
}

fn read(file: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let opened = match fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(unreadable(error)),
        Ok(metadata) if !metadata.is_file() => return Err("is not a file".to_owned()),
        Ok(_) => fs::File::open(file).map_err(unreadable)?,
    };
    let mut text = String::new();
    opened.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(format!("is larger than {} MiB", MAX_BYTES / (1024 * 1024))),
        false => Ok(text),
    }
}

/// Returns true if the text has a server of this name.
fn has(text: &str, block: &Block) -> bool {
    let value: Option<Value> = match block.format {
        Format::Json => parse_json(text).ok().and_then(|root| root.value()).and_then(|value| {
            let servers = value.as_object()?.object_value(&block.path[0])?;
            servers.get(&block.path[1]).map(|_| Value::Null)
        }),
        Format::Toml => toml::from_str::<toml::Table>(text)
            .ok()
            .and_then(|table| table.get(&block.path[0])?.get(&block.path[1]).map(|_| Value::Null)),
        Format::Yaml => {
            parse_yaml(text).ok().and_then(|value| value.get(&block.path[0])?.get(&block.path[1]).cloned())
        }
    };
    value.is_some()
}

/// Returns the text with the block. An empty text is an absent file.
///
/// # Errors
/// If the text is not valid, or has something else in the place of the servers.
pub(super) fn insert(text: &str, block: &Block) -> Result<String, String> {
    match block.format {
        Format::Json => insert_json(text, block),
        Format::Toml => insert_toml(text, block),
        Format::Yaml => insert_yaml(text, block),
    }
}

/// Clients accept comments, and most accept trailing commas.
fn parse_json(text: &str) -> Result<CstRootNode, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|error| format!("is not valid JSON: {error}: correct it first"))
}

fn insert_json(text: &str, block: &Block) -> Result<String, String> {
    let root = parse_json(text)?;
    let other =
        |name: &str| format!("{name} is not what the client's documentation describes: correct it first");
    let top = root.object_value_or_create().ok_or_else(|| other("the top level"))?;
    let [servers, name] = &block.path;
    let table = top.object_value_or_create(servers).ok_or_else(|| other(servers))?;
    let server = Node::Object(block.fields.clone());
    match table.get(name) {
        Some(property) => property.set_value(server),
        None => drop(table.append(name, server)),
    }
    if !block.inputs.is_empty() {
        let list = top.array_value_or_create("inputs").ok_or_else(|| other("inputs"))?;
        list.ensure_multiline();
        let has_input = |id: &str| {
            list.elements().iter().any(|input| {
                let known = input.as_object().and_then(|input| input.get("id")?.value()?.as_string_lit());
                known.and_then(|known| known.decoded_value().ok()).is_some_and(|known| known == id)
            })
        };
        for (id, input) in &block.inputs {
            if !has_input(id) {
                list.append(input.clone());
            }
        }
    }
    let mut text = root.to_string();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn insert_toml(text: &str, block: &Block) -> Result<String, String> {
    let mut document: toml_edit::DocumentMut =
        text.parse().map_err(|error| format!("is not valid TOML: {error}: correct it first"))?;
    let [servers, name] = &block.path;
    let mut parent = toml_edit::Table::new();
    // Without a header of its own: only that of the server is written.
    parent.set_implicit(true);
    let table = document.entry(servers).or_insert(toml_edit::Item::Table(parent));
    let table = table.as_table_mut().ok_or_else(|| {
        format!("{servers} is not written as tables: correct it first, to [{servers}.NAME]")
    })?;
    let mut server = toml_edit::Table::new();
    for (field, node) in &block.fields {
        server.insert(field, toml_edit::Item::Value(toml_value(node)));
    }
    table.insert(name, toml_edit::Item::Table(server));
    Ok(document.to_string().trim_start_matches('\n').to_owned())
}

fn toml_value(node: &Node) -> toml_edit::Value {
    match node {
        Node::Bool(value) => (*value).into(),
        Node::Number(value) => value.parse::<i64>().map_or_else(|_| value.as_str().into(), Into::into),
        Node::String(value) => value.as_str().into(),
        Node::Array(items) => items.iter().map(toml_value).collect::<toml_edit::Array>().into(),
        Node::Object(fields) => {
            let fields = fields.iter().map(|(name, node)| (name.as_str(), toml_value(node)));
            fields.collect::<toml_edit::InlineTable>().into()
        }
        Node::Null => "".into(),
    }
}

fn parse_yaml(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|error| format!("is not valid YAML: {error}: correct it first"))
}

/// No library for YAML keeps comments, so the block is inserted as lines, and the result is parsed again.
fn insert_yaml(text: &str, block: &Block) -> Result<String, String> {
    let before = parse_yaml(text)?;
    let [servers, name] = &block.path;
    let mut lines: Vec<&str> = text.lines().collect();
    let is_header = |line: &&str| {
        line.strip_prefix(servers.as_str())
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
    };
    let header = lines.iter().position(is_header);
    if header.is_none() && before.get(servers).is_some_and(|value| !value.is_null()) {
        return Err(format!("{servers} is not written in lines of its own: correct it first"));
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let at = header.map_or(lines.len(), |header| header + 1);
    let first = lines[at..].iter().find(|line| is_content(line)).map_or(0, |line| indent(line));
    let depth = if first == 0 { 2 } else { first };
    let mut replaced = None;
    if header.is_some() {
        let is_name =
            |line: &&str| indent(line) == depth && line.trim_start().starts_with(&format!("{name}:"));
        let end_of_table = |line: &&str| is_content(line) && indent(line) < depth;
        let end = lines[at..].iter().position(end_of_table).map_or(lines.len(), |end| at + end);
        if let Some(start) = lines[at..end].iter().position(is_name).map(|start| at + start) {
            let rest = &lines[start + 1..end];
            // A comment at this depth belongs to what follows.
            let length = rest.iter().position(|line| !line.trim().is_empty() && indent(line) <= depth);
            replaced = Some((start, start + 1 + length.unwrap_or(rest.len())));
        }
    }
    let pad = " ".repeat(depth);
    let mut block_lines: Vec<String> = Vec::new();
    if header.is_none() {
        block_lines.push(format!("{servers}:"));
    }
    block_lines.push(format!("{pad}{name}:"));
    // Each value is written as JSON, which is YAML too.
    block_lines.extend(block.fields.iter().map(|(field, node)| format!("{pad}{pad}{field}: {}", json(node))));
    let block_lines = block_lines.iter().map(String::as_str);
    match replaced {
        Some((start, end)) => drop(lines.splice(start..end, block_lines)),
        None => drop(lines.splice(at..at, block_lines)),
    }
    let text = format!("{}\n", lines.join("\n"));
    let after = parse_yaml(&text)?;
    let is_intact = before.as_object().is_none_or(|before| {
        before.iter().filter(|(key, _)| *key != servers).all(|(key, value)| after.get(key) == Some(value))
    });
    match is_intact && after.get(servers).and_then(|table| table.get(name)).is_some() {
        true => Ok(text),
        false => Err(format!("the layout of {servers} is not understood")),
    }
}

fn json(node: &Node) -> Value {
    match node {
        Node::Null => Value::Null,
        Node::Bool(value) => Value::from(*value),
        Node::Number(value) => serde_json::from_str(value).unwrap_or(Value::Null),
        Node::String(value) => Value::from(value.as_str()),
        Node::Array(items) => items.iter().map(json).collect(),
        Node::Object(fields) => fields.iter().map(|(name, node)| (name.clone(), json(node))).collect(),
    }
}
/// The file that is written: a symbolic link is followed, as dotfiles often are links.
fn link_target(file: &Path) -> PathBuf {
    std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned())
}
