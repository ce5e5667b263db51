//! What the server prints at its start: where it listens, and how a client connects. It must not read the
//! config file or the environment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::app::pluralize;
use crate::config::{AuthMode, Config};
use crate::mcp::wire::revision::Revision;

/// Returns the address at which a client on this machine reaches a server that listens on `address`.
/// `0.0.0.0` and `::` stand for all addresses of the machine, and clients cannot connect to them.
pub(super) fn client_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The hint for clients on other machines, if the server listens on all addresses.
fn other_machines(address: SocketAddr) -> Option<String> {
    let local = client_address(address).ip();
    address
        .ip()
        .is_unspecified()
        .then(|| format!("on other machines, write this machine's name in place of {local}"))
}

/// Formats how to connect to a server that listens on `address`.
pub(in crate::cli) fn text(
    config: &Config,
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}/mcp", client_address(address));
    let hint = other_machines(address).map(|hint| format!("  ({hint})\n")).unwrap_or_default();
    let discovery_backends: Vec<&str> = config
        .backends
        .iter()
        .filter(|(_, backend)| backend.discover.is_some())
        .map(|(name, _)| &**name)
        .collect();
    let discovery_note = if discovery_backends.is_empty() {
        String::new()
    } else {
        format!(" and those of {}", discovery_backends.join(", "))
    };
    let tools = format!("{}{discovery_note}", pluralize(config.tools.len(), "tool"));
    let (header, headers) = match config.auth.mode {
        AuthMode::None => (String::new(), String::new()),
        AuthMode::Certificates => ("     --cert YOUR.pem --key YOUR.key \\\n".to_owned(), String::new()),
        AuthMode::ApiKeys => (
            "     -H 'Authorization: Bearer YOUR_KEY' \\\n".to_owned(),
            r#", "headers": { "Authorization": "Bearer YOUR_KEY" }"#.to_owned(),
        ),
        // OAuth clients find out by themselves where to get a token.
        AuthMode::Oauth => ("     -H 'Authorization: Bearer YOUR_TOKEN' \\\n".to_owned(), String::new()),
    };
    let initialize = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"curl","version":"1"}}}}}}"#,
        Revision::ALL[0].as_str()
    );
    format!(
        "taskbridge {version}: {tools} at {scheme}://{address}/mcp\n\
         config {config}, tasks in {store}\n\
         {metrics_address}\
         \n\
         An MCP client connects with:\n\
         \n  {{ \"mcpServers\": {{ \"taskbridge\": {{ \"type\": \"http\", \"url\": \"{url}\"{headers} }} }} }}\n\
         {hint}\
         \n\
         Or by hand:\n\
         \n  curl -i {url} \\\n{header}     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \\\n     -d '{initialize}'\n\
         \n",
        version = env!("CARGO_PKG_VERSION"),
        config = config.file.display(),
        metrics_address =
            metrics_address.map(|at| format!("metrics at http://{at}/metrics\n")).unwrap_or_default(),
        store = config.store.database,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unspecified_address_becomes_loopback() {
        for (listen, reached) in
            [("0.0.0.0:8808", "127.0.0.1:8808"), ("[::]:1", "[::1]:1"), ("10.0.0.7:8808", "10.0.0.7:8808")]
        {
            let listen: SocketAddr = listen.parse().unwrap();
            assert_eq!(client_address(listen).to_string(), reached);
            assert_eq!(other_machines(listen).is_some(), listen.ip().is_unspecified());
        }
    }
}
