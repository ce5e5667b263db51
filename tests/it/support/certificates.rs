//! Certificates for tests: authorities, what they issue, and clients that show it. Made by `openssl`, so that nothing that is
//! tested makes them.

use std::fs;
use std::process::Command;

use reqwest::{Certificate, Client, ClientBuilder, Identity};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

use super::Place;

/// A key of the usual kind, not encrypted.
const KEY: &str = "-nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1";

/// Runs `openssl` in a place.
pub(crate) fn openssl(place: &Place, arguments: &str) {
    let mut openssl = Command::new("openssl");
    openssl.args(arguments.split(' '));
    place.settle(&mut openssl);
    let made = openssl.output().unwrap();
    assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
}

/// An authority of this name, in `NAME.pem` and `NAME.key`.
pub(crate) fn authority(place: &Place, name: &str) {
    openssl(
        place,
        &format!(
            "req -x509 {KEY} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem -addext basicConstraints=critical,CA:TRUE"
        ),
    );
}

/// Has an authority issue `NAME.pem`, with `NAME.key`: for this subject and with these names, good for so many days from now.
pub(crate) fn issue(place: &Place, by: &str, name: &str, subject: &str, names: &str, days: i32) {
    let extensions = format!("subjectAltName={names}\nbasicConstraints=critical,CA:FALSE\n");
    fs::write(place.path("extensions"), extensions).unwrap();
    openssl(place, &format!("req -new {KEY} -subj {subject} -keyout {name}.key -out {name}.csr"));
    openssl(
        place,
        &format!(
            "x509 -req -in {name}.csr -CA {by}.pem -CAkey {by}.key -CAcreateserial -days {days} -extfile extensions -out {name}.pem"
        ),
    );
}

/// A client that trusts these authorities, and shows this certificate.
pub(crate) fn client(place: &Place, trusts: &[&str], shows: Option<&str>) -> ClientBuilder {
    let read = |name: String| fs::read(place.path(&name)).unwrap();
    let all = trusts.iter().map(|name| Certificate::from_pem(&read(format!("{name}.pem"))).unwrap());
    let client = Client::builder().no_proxy().tls_certs_only(all);
    match shows {
        Some(name) => {
            let both = [read(format!("{name}.pem")), read(format!("{name}.key"))].concat();
            client.identity(Identity::from_pem(&both).unwrap())
        }
        None => client,
    }
}

/// The same, by TLS alone: what it keeps of a session is for all that connect by it.
pub(crate) fn by_rustls(
    place: &Place,
    trusts: &str,
    shows: &str,
    version: &'static SupportedProtocolVersion,
) -> ClientConfig {
    let certificate = |name: &str| CertificateDer::from_pem_file(place.path(&format!("{name}.pem"))).unwrap();
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate(trusts)).unwrap();
    let key = PrivateKeyDer::from_pem_file(place.path(&format!("{shows}.key"))).unwrap();
    ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(trusted)
        .with_client_auth_cert(vec![certificate(shows)], key)
        .unwrap()
}
