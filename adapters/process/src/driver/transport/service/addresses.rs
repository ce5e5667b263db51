//! Refuses addresses that no request may go to, for a host in a URL and for what a name resolves to. The rules
//! are the sdk's.

use std::fmt;
use std::net::IpAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use taskbridge_sdk::{is_forbidden_address, is_metadata_name};

/// Refuses a host by its text, which is in lower case.
///
/// # Errors
/// Why it is refused.
pub(super) fn check_host(host: &str) -> Result<(), String> {
    let name = host.trim_end_matches('.');
    if is_metadata_name(name) {
        return Err(format!("{host} is a metadata service, which is never requested"));
    }
    match name.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => check_address(host, address).map_err(|forbidden| forbidden.to_string()),
        Err(_) => Ok(()),
    }
}

fn check_address(host: &str, address: IpAddr) -> Result<(), ForbiddenAddress> {
    match is_forbidden_address(address) {
        true => Err(ForbiddenAddress(format!("{host} has the address {address}, which is never requested"))),
        false => Ok(()),
    }
}

/// Resolves names, and refuses a name with a forbidden address. The connection uses exactly the checked
/// addresses, so a second answer of the name server cannot change them.
pub(super) struct CheckedResolver;

/// Refused address. The cause of an error of the HTTP library.
#[derive(Debug)]
pub(super) struct ForbiddenAddress(String);

impl fmt::Display for ForbiddenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ForbiddenAddress {}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_ascii_lowercase();
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            for address in &found {
                // One forbidden address refuses all: no order of attempts can then reach it.
                check_address(&host, address.ip())?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_services_are_refused() {
        for host in [
            "169.254.169.254",
            "0.0.0.0",
            "100.100.100.200",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[2002:a9fe:a9fe::1]",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "metadata.google.internal.",
            "instance-data.ec2.internal",
        ] {
            assert!(check_host(host).is_err(), "{host}");
        }
        for host in ["10.1.2.3", "127.0.0.1", "[::1]", "jobs.internal", "metadata.example.com"] {
            assert_eq!(check_host(host), Ok(()), "{host}");
        }
    }
}
