//! Database connections, with or without TLS, and their pool. It must not execute a statement.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection_config::{CONNECT_TIMEOUT, ConnectionConfig};
use super::fault::PostgresError;
use crate::postgres;
use taskbridge_core::tasks::store::{Result, StoreError};

/// Timeout to obtain a connection from the pool, and before that a permit for a request.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout to open a connection, including password and certificates.
const CREATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens connections to a database.
#[derive(Clone)]
pub(in crate::postgres) struct Connector {
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Connector {
    /// # Errors
    /// If the trusted certificates cannot be read.
    pub(in crate::postgres) fn new(config: &ConnectionConfig) -> Result<Self> {
        let tls = tls(config).map_err(|why| StoreError::Unavailable(format!("{config}: {why}")))?;
        Ok(Self { config: config.connection(), tls: MakeRustlsConnect::new(tls) })
    }

    /// Opens one connection, which lives as long as its driver.
    pub(in crate::postgres) async fn client(&self) -> Result<(Client, ConnectionDriver), PostgresError> {
        let (client, connection) =
            self.config.connect(self.tls.clone()).await.map_err(PostgresError::Connect)?;
        let driver = postgres::spawn(async {
            // The user of the connection gets the error.
            let _ = connection.await;
        });
        Ok((client, ConnectionDriver(driver)))
    }

    /// Creates a pool that opens its connections on demand.
    pub(in crate::postgres) fn pool(&self, size: usize) -> Pool {
        // A closed connection is detected without a query. One that broke silently fails on use, and the
        // user then takes another.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(self.config.clone(), self.tls.clone(), recycling);
        let pool = Pool::builder(manager)
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(ACQUIRE_TIMEOUT))
            .create_timeout(Some(CREATE_TIMEOUT))
            .recycle_timeout(Some(CONNECT_TIMEOUT))
            .build();
        pool.expect("a pool with time limits is given a runtime to keep them by")
    }
}

/// Aborts its task when it is dropped.
pub(in crate::postgres) struct ConnectionDriver(JoinHandle<()>);

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn tls(config: &ConnectionConfig) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be used: {error}"))?;
    if !config.tls {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    if let Some(file) = &config.ca_file {
        return Ok(builder.with_root_certificates(authorities(file)?).with_no_client_auth());
    }
    let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(|error| {
        format!("this machine's certificates cannot be read: {error}; set `ca_file` in [store]")
    })?;
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(verifier);
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn authorities(file: &Path) -> Result<RootCertStore, String> {
    let path = file.display();
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|error| format!("`ca_file` {path} cannot be read: {error}"))?;
    for certificate in certificates {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|certificate| roots.add(certificate).map_err(|error| error.to_string()));
        added.map_err(|why| format!("`ca_file` {path} holds something else than certificates: {why}"))?;
    }
    if roots.is_empty() {
        return Err(format!("`ca_file` {path} holds no certificate in PEM form"));
    }
    Ok(roots)
}
