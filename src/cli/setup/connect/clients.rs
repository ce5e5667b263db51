//! The settings of each MCP client, as its documentation describes them: the fields of a server. It must not
//! read or write files.

use std::path::PathBuf;

use clap::ValueEnum;
use jsonc_parser::cst::CstInputValue as Node;

use super::Scope;
use super::places::places;
use crate::config::locate::Environment;

/// The variable that holds the API key.
const KEY: &str = "TASKBRIDGE_KEY";

/// A client with documented settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Visual Studio Code with GitHub Copilot.
    Vscode,
    /// Cursor.
    Cursor,
    /// Codex: the command line, the editor extension and the app.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// goose: the command line and the app.
    Goose,
    /// Zed.
    Zed,
    /// The MCP Inspector.
    Inspector,
}

/// How the client reaches the server.
pub(super) struct Connection {
    /// The name of the server in the client.
    pub(super) name: String,
    /// The transport.
    pub(super) transport: Transport,
}

/// The transport of a connection.
pub(super) enum Transport {
    /// The client starts a server process.
    Stdio {
        /// The program, as an absolute path.
        command: String,
        /// Its arguments.
        arguments: Vec<String>,
        /// Environment variables that the config refers to. Most clients pass no other variables on.
        variables: Vec<String>,
    },
    /// The client connects to a running server.
    Http {
        /// The endpoint.
        url: String,
        /// Whether requests need an API key.
        needs_key: bool,
    },
}

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, with comments.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// What is added to the file of a client.
pub(super) struct Block {
    /// The name of the client.
    pub(super) client: &'static str,
    /// The file.
    pub(super) file: PathBuf,
    /// Its syntax.
    pub(super) format: Format,
    /// The table that lists the servers, and the name of this one.
    pub(super) path: [String; 2],
    /// The fields of the server, in order.
    pub(super) fields: Vec<(String, Node)>,
    /// Questions that VS Code asks the user for values: items of the list `inputs`, each with its id.
    pub(super) inputs: Vec<(String, Node)>,
    /// What the user has to know or do.
    pub(super) notes: Vec<String>,
    /// The documentation that the block follows.
    pub(super) documentation: &'static str,
}

fn text(text: impl Into<String>) -> Node {
    Node::String(text.into())
}

fn texts(items: &[String]) -> Node {
    Node::Array(items.iter().map(text).collect())
}

fn table(fields: impl IntoIterator<Item = (String, Node)>) -> Node {
    Node::Object(fields.into_iter().collect())
}

fn field(name: &str, value: Node) -> (String, Node) {
    (name.to_owned(), value)
}

/// Returns the block for a client.
///
/// # Errors
/// If the client has no such settings; the text names those that it has.
pub(super) fn block(
    client: Client,
    scope: Option<Scope>,
    connection: &Connection,
    environment: &Environment,
) -> Result<Block, String> {
    let places = places(client, environment);
    let scope = scope.unwrap_or(if places.user.is_some() { Scope::User } else { Scope::Project });
    let file = match scope {
        Scope::User => places.user,
        Scope::Project => places.project.map(PathBuf::from),
    };
    let file = file.ok_or_else(|| match scope {
        Scope::User => format!("{} has no settings of a user: use --scope project", places.name),
        Scope::Project => format!("{} has no settings of a project: use --scope user", places.name),
    })?;
    let mut block = Block {
        client: places.name,
        file,
        format: places.format,
        path: [places.servers.to_owned(), connection.name.clone()],
        fields: Vec::new(),
        inputs: Vec::new(),
        notes: Vec::new(),
        documentation: places.documentation,
    };
    match &connection.transport {
        Transport::Stdio { command, arguments, variables } => {
            stdio(client, &mut block, command, arguments, variables);
        }
        Transport::Http { url, needs_key } => http(client, &mut block, url, *needs_key)?,
    }
    if client == Client::Codex && scope == Scope::Project {
        block.notes.push("Codex reads this file only in a project that you trust".to_owned());
    }
    if client == Client::Gemini {
        block.notes.push("Gemini CLI connects to servers only in a folder that you trust".to_owned());
    }
    if client == Client::Inspector {
        let name = &connection.name;
        block.notes.push(format!(
            "start it: npx @modelcontextprotocol/inspector --config {} --server {name}",
            block.file.display()
        ));
    }
    Ok(block)
}

fn stdio(client: Client, block: &mut Block, command: &str, arguments: &[String], variables: &[String]) {
    let fields = &mut block.fields;
    let program = |fields: &mut Vec<(String, Node)>| {
        fields.push(field("command", text(command)));
        fields.push(field("args", texts(arguments)));
    };
    let passed = |reference: &dyn Fn(&str) -> String| {
        let each = variables.iter().map(|name| (name.clone(), text(reference(name))));
        field("env", table(each))
    };
    match client {
        Client::ClaudeCode => {
            fields.push(field("type", text("stdio")));
            program(fields);
            fields.push(passed(&|name| format!("${{{name}}}")));
        }
        Client::Vscode => {
            fields.push(field("type", text("stdio")));
            program(fields);
            fields.push(passed(&|name| format!("${{input:{name}}}")));
            block.inputs = variables.iter().map(|name| input(name, name)).collect();
        }
        Client::Cursor => {
            fields.push(field("type", text("stdio")));
            program(fields);
            fields.push(passed(&|name| format!("${{env:{name}}}")));
        }
        Client::Gemini => {
            program(fields);
            fields.push(passed(&|name| format!("${{{name}}}")));
        }
        Client::Codex => {
            program(fields);
            fields.push(field("env_vars", texts(variables)));
        }
        Client::Goose => {
            goose(fields, &block.path[1], "stdio");
            fields.push(field("cmd", text(command)));
            fields.push(field("args", texts(arguments)));
            fields.push(field("env_keys", texts(variables)));
        }
        Client::Zed => {
            program(fields);
            fields.push(field("env", table([])));
        }
        Client::Inspector => {
            fields.push(field("type", text("stdio")));
            program(fields);
        }
        Client::ClaudeDesktop => program(fields),
    }
    // A block without variables needs no field for them. Zed's documentation has an empty one.
    if variables.is_empty() {
        fields.retain(|(name, _)| {
            name != "env_vars" && name != "env_keys" && (name != "env" || client == Client::Zed)
        });
    } else if matches!(client, Client::ClaudeDesktop | Client::Zed | Client::Inspector) {
        block.notes.push(format!(
            "{} passes no variable on: in the config, write {{ file = \"...\" }} in place of {{ env = ... }} for {}",
            block.client,
            variables.join(", ")
        ));
    }
}

fn http(client: Client, block: &mut Block, url: &str, needs_key: bool) -> Result<(), String> {
    let reference = match client {
        Client::ClaudeCode | Client::Gemini | Client::Goose => format!("${{{KEY}}}"),
        Client::Cursor => format!("${{env:{KEY}}}"),
        Client::Vscode => format!("${{input:{KEY}}}"),
        Client::Codex | Client::ClaudeDesktop | Client::Zed | Client::Inspector => "YOUR_KEY".to_owned(),
    };
    let fields = &mut block.fields;
    match client {
        Client::ClaudeCode | Client::Vscode => {
            fields.push(field("type", text("http")));
            fields.push(field("url", text(url)));
        }
        Client::Cursor | Client::Codex | Client::Zed => fields.push(field("url", text(url))),
        Client::Gemini => fields.push(field("httpUrl", text(url))),
        Client::Goose => {
            goose(fields, &block.path[1], "streamable_http");
            fields.push(field("uri", text(url)));
        }
        Client::Inspector => {
            fields.push(field("type", text("streamable-http")));
            fields.push(field("url", text(url)));
        }
        Client::ClaudeDesktop => {
            return Err("the file of Claude Desktop only names programs to start: omit --http and --url. A server that \
                 Anthropic's machines can reach is added in Settings, Connectors"
                .to_owned());
        }
    }
    if !needs_key {
        return Ok(());
    }
    let headers = || field("headers", table([field("Authorization", text(format!("Bearer {reference}")))]));
    match client {
        Client::Codex => fields.push(field("bearer_token_env_var", text(KEY))),
        Client::Inspector => {
            block.notes.push("enter the API key in its panel Authentication, as a bearer token".to_owned());
        }
        Client::Goose => {
            fields.push(headers());
            fields.push(field("env_keys", texts(&[KEY.to_owned()])));
        }
        _ => fields.push(headers()),
    }
    match client {
        Client::Vscode => block.inputs.push(input(KEY, "API key of taskbridge")),
        Client::Zed => {
            block.notes.push("replace YOUR_KEY: Zed's settings cannot refer to a variable".to_owned())
        }
        Client::Inspector => {}
        _ => block.notes.push(format!("set the variable {KEY} where the client runs")),
    }
    Ok(())
}

/// The fields that all extensions of goose have.
fn goose(fields: &mut Vec<(String, Node)>, name: &str, kind: &str) {
    fields.push(field("enabled", Node::Bool(true)));
    fields.push(field("type", text(kind)));
    fields.push(field("name", text(name)));
    fields.push(field("description", text("Durable tasks in workflow engines")));
    fields.push(field("timeout", Node::Number("300".to_owned())));
}

/// A question of VS Code for a secret value.
fn input(id: &str, description: &str) -> (String, Node) {
    let node = table([
        field("type", text("promptString")),
        field("id", text(id)),
        field("description", text(description)),
        field("password", Node::Bool(true)),
    ]);
    (id.to_owned(), node)
}
