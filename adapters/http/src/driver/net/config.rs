//! [`NetConfig`]: what a client needs of a backend's config, and the HTTP library's client made of it. It must
//! not send anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Certificate, Identity, Proxy, Url, redirect};
use taskbridge_sdk::{Secret, is_local_address, root_cause};
use zeroize::Zeroizing;

use super::resolver::{CheckedResolver, Lookup};
use super::targets::Targets;

/// Maximum time of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept: less than servers keep it (5 s in common ones), so that a request
/// is not sent over a connection that the server closes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of unused connections.
const MAX_IDLE: usize = 8;

/// Settings of a client.
#[derive(Clone, Debug)]
pub(crate) struct NetConfig {
    /// Address below which all requests of the engine go. It may be private.
    pub(crate) base: Url,
    /// Hosts for downloads, such as `https://*.storage.example.com`. They get no credentials. One that is
    /// named in full may be private.
    pub(crate) download_hosts: Vec<String>,
    /// PEM file of root certificates, absolute. They replace those of this machine.
    pub(crate) ca_file: Option<PathBuf>,
    /// PEM file with the client's certificate and its private key, absolute.
    pub(crate) client_certificate: Option<PathBuf>,
    /// Proxy, in place of that of the environment.
    pub(crate) proxy: Option<Secret>,
}

impl NetConfig {
    /// Returns settings with an address and nothing else.
    pub(crate) fn new(base: Url) -> Self {
        Self { base, download_hosts: Vec::new(), ca_file: None, client_certificate: None, proxy: None }
    }

    /// Returns the rules and the HTTP library's client.
    ///
    /// # Errors
    /// A message that begins with the field.
    pub(super) fn build(&self, lookup: Lookup) -> Result<(Arc<Targets>, reqwest::Client), String> {
        let proxy = self.proxy.as_ref().map(proxy_url).transpose()?;
        let proxy_host = proxy.as_ref().and_then(|url| url.host_str().map(str::to_ascii_lowercase));
        let targets = Arc::new(Targets::new(&self.base, &self.download_hosts, proxy_host)?);
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("taskbridge/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_gzip()
            .no_brotli()
            .no_deflate()
            .no_zstd()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE)
            .dns_resolver(Arc::new(CheckedResolver { targets: Arc::clone(&targets), lookup }));
        let is_local = self.base.host_str().is_some_and(is_local_address);
        match proxy {
            // The message does not quote the address, which may contain a password.
            Some(url) => builder = builder.proxy(Proxy::all(url).map_err(|_| INVALID_PROXY)?),
            None if is_local => builder = builder.no_proxy(),
            None => {}
        }
        if let Some(path) = &self.ca_file {
            let pem = read("ca_file", path)?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|e| {
                format!("`ca_file`: {} has no certificates: {}", path.display(), root_cause(&e))
            })?;
            builder = builder.tls_certs_only(certificates);
        } else if is_local && self.base.scheme() == "http" && self.download_hosts.is_empty() {
            // The CA certificates of this machine are not needed, and may not exist.
            builder = builder.tls_certs_only([]);
        }
        if let Some(path) = &self.client_certificate {
            let pem = read("client_certificate", path)?;
            let identity = Identity::from_pem(&pem).map_err(|_| {
                let expected = "is not a certificate and a private key in PEM";
                format!("`client_certificate`: {} {expected}", path.display())
            })?;
            builder = builder.identity(identity);
        }
        let client =
            builder.build().map_err(|e| format!("the HTTP client cannot be created: {}", root_cause(&e)))?;
        Ok((targets, client))
    }
}

/// Reads a file. It can contain a private key.
fn read(field: &str, path: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let read = std::fs::read(path).map(Zeroizing::new);
    read.map_err(|e| format!("`{field}`: {} cannot be read: {e}", path.display()))
}

const INVALID_PROXY: &str = "`proxy` is not a URL: write one such as http://proxy.example.com:3128";

fn proxy_url(proxy: &Secret) -> Result<Url, String> {
    let url = Url::parse(proxy.reveal().trim()).map_err(|_| INVALID_PROXY)?;
    if url.has_host() { Ok(url) } else { Err(INVALID_PROXY.to_owned()) }
}
