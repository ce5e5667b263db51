//! Certificates for tests: authorities, certificates that they issue, and clients that present them.
//! `openssl` creates them, so that no code under test does.

use std::fs;
use std::process::Command;

use reqwest::{Certificate, Client, ClientBuilder, Identity};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use super::TestDir;

/// Options for an unencrypted key of the usual kind.
const KEY: &str = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1";

/// Runs `openssl` in the folder of a [`TestDir`].
pub(crate) fn openssl(dir: &TestDir, arguments: &str) {
    let mut openssl = Command::new("openssl");
    openssl.args(arguments.split(' '));
    dir.prepare(&mut openssl);
    let output = openssl.output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates an authority of this name, in `NAME.pem` and `NAME.key`.
pub(crate) fn authority(dir: &TestDir, name: &str) {
    openssl(
        dir,
        &format!(
            "req -x509 {KEY} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem -addext basicConstraints=critical,CA:TRUE"
        ),
    );
}

/// Lets an authority issue `NAME.pem` with `NAME.key`, for this subject and these names, valid for `days`
/// from now.
pub(crate) fn issue(dir: &TestDir, by: &str, name: &str, subject: &str, names: &str, days: i32) {
    let extensions = format!("subjectAltName={names}\nbasicConstraints=critical,CA:FALSE\n");
    fs::write(dir.path("extensions"), extensions).unwrap();
    openssl(dir, &format!("req -new {KEY} -subj {subject} -keyout {name}.key -out {name}.csr"));
    openssl(
        dir,
        &format!(
            "x509 -req -in {name}.csr -CA {by}.pem -CAkey {by}.key -CAcreateserial -days {days} -extfile extensions -out {name}.pem"
        ),
    );
}

/// Returns a client that trusts these authorities and presents this certificate.
pub(crate) fn client(dir: &TestDir, authorities: &[&str], client_certificate: Option<&str>) -> ClientBuilder {
    let read = |name: String| fs::read(dir.path(&name)).unwrap();
    let certificates =
        authorities.iter().map(|name| Certificate::from_pem(&read(format!("{name}.pem"))).unwrap());
    let client = Client::builder().no_proxy().tls_certs_only(certificates);
    match client_certificate {
        Some(name) => {
            let pem = [read(format!("{name}.pem")), read(format!("{name}.key"))].concat();
            client.identity(Identity::from_pem(&pem).unwrap())
        }
        None => client,
    }
}

/// Returns the same as a TLS config. All connections that use it share its session cache.
pub(crate) fn rustls_config(
    dir: &TestDir,
    root: &str,
    client_certificate: &str,
    version: &'static SupportedProtocolVersion,
) -> ClientConfig {
    let certificate = |name: &str| CertificateDer::from_pem_file(dir.path(&format!("{name}.pem"))).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate(root)).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.path(&format!("{client_certificate}.key"))).unwrap();
    ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(trusted)
        .with_client_auth_cert(vec![certificate(client_certificate)], key)
        .unwrap()
}
