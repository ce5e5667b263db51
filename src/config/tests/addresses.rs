//! URLs in a config that the server may call, and URLs that it may not. It must not connect to anything.

use super::*;

/// This applies to the issuer, its keys and its introspection endpoint.
#[test]
fn issuer_url_requires_tls_or_loopback() {
    let error_of = |field: &str, address: &str| {
        let issuer = if field == "issuer" { address } else { "https://login.example" };
        let more = match field {
            "jwks_uri" => format!("jwks_uri = \"{address}\"\n"),
            "introspection.endpoint" => format!(
                "introspection = {{ endpoint = \"{address}\", client_id = \"a\", client_secret = \"b\" }}\n"
            ),
            _ => String::new(),
        };
        let text = format!(
            "[auth]\nmode = \"oauth\"\nresource = \"https://b.example/mcp\"\n[[auth.issuers]]\nissuer = \"{issuer}\"\n{more}"
        );
        read(&text).err().map(|problems| problems.to_string())
    };
    for field in ["issuer", "jwks_uri", "introspection.endpoint"] {
        for address in
            ["https://login.example/x", "http://127.0.0.1:9000/x", "http://[::1]:9000", "https://10.0.0.7/x"]
        {
            assert_eq!(error_of(field, address), None, "{field}: {address}");
        }
        for address in [
            "http://login.example",
            "http://169.254.169.254/latest/meta-data/",
            "http://localhost.evil.example",
            "http://127.0.0.1.example",
            "file:///etc/passwd",
            "gopher://127.0.0.1:6379/_x",
            "ftp://127.0.0.1/x",
            "unix:/run/docker.sock",
            "data:application/json,{}",
            "/etc/passwd",
        ] {
            let error = error_of(field, address).unwrap_or_default();
            assert!(error.contains(&format!("auth.issuers[0].{field}: ")), "{field}: {address}: {error}");
        }
    }
}

/// Events may use plain HTTP only to this machine; spans may use it to any host.
#[test]
fn webhook_url_requires_tls_or_loopback() {
    let event = |address: &str| {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        read(&format!("[[notify]]\nurl = \"{address}\"\nsecret = \"{secret}\"\n")).is_ok()
    };
    let span = |address: &str| read(&format!("[telemetry]\notlp = \"{address}\"\n")).is_ok();
    for address in ["https://hooks.example.com/x", "http://127.0.0.1:9000/x", "https://10.0.0.7/x"] {
        assert!(event(address) && span(address), "{address}");
    }
    for address in [
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_x",
        "ftp://a.example/x",
        "unix:/run/docker.sock",
        "/x",
        "",
    ] {
        assert!(!event(address), "{address}");
        assert!(!span(address) || address.is_empty(), "{address}");
    }
    assert!(!event("http://169.254.169.254/latest/meta-data/") && !event("http://hooks.example.com/x"));
}
