//! Where each MCP client keeps its settings, as its documentation describes it: the file, its syntax, and the
//! table with the servers. It must not read or write files.

use std::path::PathBuf;

use super::clients::{Client, Format};
use crate::config::locate::Environment;

/// Where a client keeps its settings.
pub(super) struct Places {
    pub(super) name: &'static str,
    pub(super) user: Option<PathBuf>,
    pub(super) project: Option<&'static str>,
    pub(super) format: Format,
    pub(super) servers: &'static str,
    pub(super) documentation: &'static str,
}

pub(super) fn places(client: Client, environment: &Environment) -> Places {
    let home = |path: &str| environment.home.as_deref().map(|home| home.join(path));
    let config = |path: &str| environment.config_home.as_deref().map(|home| home.join(path));
    let places = |name, user, project, servers, documentation| Places {
        name,
        user,
        project,
        format: Format::Json,
        servers,
        documentation,
    };
    match client {
        Client::ClaudeCode => places(
            "Claude Code",
            home(".claude.json"),
            Some(".mcp.json"),
            "mcpServers",
            "https://code.claude.com/docs/en/mcp",
        ),
        Client::ClaudeDesktop => places(
            "Claude Desktop",
            config("Claude/claude_desktop_config.json"),
            None,
            "mcpServers",
            "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
        ),
        Client::Vscode => places(
            "Visual Studio Code",
            config("Code/User/mcp.json"),
            Some(".vscode/mcp.json"),
            "servers",
            "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
        ),
        Client::Cursor => places(
            "Cursor",
            home(".cursor/mcp.json"),
            Some(".cursor/mcp.json"),
            "mcpServers",
            "https://cursor.com/docs/mcp",
        ),
        Client::Codex => Places {
            format: Format::Toml,
            ..places(
                "Codex",
                environment.codex_home.clone().or_else(|| home(".codex")).map(|dir| dir.join("config.toml")),
                Some(".codex/config.toml"),
                "mcp_servers",
                "https://developers.openai.com/codex/mcp",
            )
        },
        Client::Gemini => places(
            "Gemini CLI",
            home(".gemini/settings.json"),
            Some(".gemini/settings.json"),
            "mcpServers",
            "https://geminicli.com/docs/tools/mcp-server",
        ),
        Client::Goose => Places {
            format: Format::Yaml,
            ..places(
                "goose",
                config("goose/config.yaml"),
                None,
                "extensions",
                "https://block.github.io/goose/docs/guides/config-files",
            )
        },
        Client::Zed => places(
            "Zed",
            config("zed/settings.json"),
            Some(".zed/settings.json"),
            "context_servers",
            "https://zed.dev/docs/ai/mcp",
        ),
        Client::Inspector => places(
            "MCP Inspector",
            None,
            Some("mcp.json"),
            "mcpServers",
            "https://modelcontextprotocol.io/docs/tools/inspector",
        ),
    }
}
