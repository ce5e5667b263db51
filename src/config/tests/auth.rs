//! Errors in client certificate rules, with their exact messages. It must not read a certificate.

use super::*;

/// Returns the problems of `[auth]` with this mode and these rules, whose lines start at the fourth.
fn certificate_errors(mode: &str, rules: &str) -> String {
    error_text(&format!("[auth]\nmode = \"{mode}\"\n[[auth.certificates]]\n{rules}"))
}

/// Rules for certificates need `client_ca`, and a wrong certificate file is reported too.
#[test]
fn certificate_rules_need_client_ca() {
    let rule = "principal = \"ann\"\ncommon_name = \"Ann\"\n";
    assert_eq!(
        certificate_errors("certificates", rule),
        "x.toml:2: auth.mode: mode = \"certificates\" needs an authority for client certificates: add client_ca to [server.tls]"
    );
    let key = "[[auth.keys]]\nprincipal = \"bob\"\nsha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"\n";
    assert_eq!(
        certificate_errors("api_keys", &format!("{rule}{key}")),
        "x.toml:3: auth.certificates: [[auth.certificates]] needs an authority for client certificates: add client_ca to [server.tls]"
    );
    assert_eq!(
        error_text(&format!(
            "[auth]\nmode = \"certificates\"\n[[auth.certificates]]\n{rule}[server.tls]\ncertificate = \"c\"\nkey = \"k\"\n"
        )),
        "x.toml:2: auth.mode: mode = \"certificates\" needs an authority for client certificates: add client_ca to [server.tls]\n\
         x.toml:7: server.tls.certificate: there is no certificate in it: it must be PEM, with `-----BEGIN CERTIFICATE-----`"
    );
}

#[test]
fn mistakes_in_certificates() {
    let ca = "[server.tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n";
    let zero = "0".repeat(64);
    for (auth, expected) in [
        (
            "mode = \"certificates\"\n".to_owned(),
            "x.toml:2: auth.mode: no certificates are listed, so every call would be refused: add [[auth.certificates]]",
        ),
        (
            "[[auth.certificates]]\nprincipal = \"ann\"\ndns = \"a.example\"\n".to_owned(),
            "auth.mode: certificates are listed, but not used: set mode = \"certificates\"",
        ),
        (
            format!(
                "mode = \"certificates\"\n[[auth.keys]]\nprincipal = \"bob\"\nsha256 = \"{zero}\"\n\
                 [[auth.certificates]]\nprincipal = \"ann\"\ndns = \"a.example\"\n"
            ),
            "x.toml:2: auth.mode: keys are listed, but not used: set mode = \"api_keys\", which accepts certificates, too",
        ),
        (
            "mode = \"certificates\"\n[[auth.certificates]]\nprincipal = \" \"\ndns = \"a.example\"\n".to_owned(),
            "x.toml:4: auth.certificates[0].principal: must not be empty: write the name of the certificate's owner",
        ),
        (
            "mode = \"certificates\"\n[[auth.certificates]]\nprincipal = \"ann\"\nissuer = \"CN=ca\"\n".to_owned(),
            "x.toml:4: auth.certificates[0].principal: every certificate of `client_ca` would authenticate as \"ann\": add `common_name`, `dns`, `uri`, `email` or `sha256`",
        ),
        (
            "mode = \"certificates\"\n[[auth.certificates]]\nprincipal = \"ann\"\nuri = \"ann\"\ndns = \"\"\nemail = \"ann\"\n\
             issuer = \"ca\"\n"
                .to_owned(),
            "x.toml:5: auth.certificates[0].uri: \"ann\": not a URI: write all of it, with `scheme:`, or remove it\n\
             x.toml:6: auth.certificates[0].dns: \"\": must not be empty: write a value, or remove it\n\
             x.toml:7: auth.certificates[0].email: \"ann\": not a mail address: write all of it, or remove it\n\
             x.toml:8: auth.certificates[0].issuer: \"ca\": not an issuer name (RFC 4514): write one such as CN=ca, or remove it",
        ),
        (
            "mode = \"certificates\"\n[[auth.certificates]]\nprincipal = \"ann\"\nsha256 = \"AB:CD\"\n".to_owned(),
            "x.toml:5: auth.certificates[0].sha256: \"AB:CD\" is not a SHA-256 in hexadecimal (64 digits): write the output of `openssl x509 -noout -fingerprint -sha256`",
        ),
        (
            format!(
                "mode = \"certificates\"\n[[auth.certificates]]\nprincipal = \"ann\"\nsha256 = \"{zero}\"\n\
                 [[auth.certificates]]\nprincipal = \"bob\"\nsha256 = \"{}\"\n",
                ["00"; 32].join(":")
            ),
            "x.toml:7: auth.certificates[1].principal: the same conditions are listed before, for \"ann\", and take precedence: remove one of the two",
        ),
    ] {
        // An invalid certificate is reported as well, if the tables can be read.
        let errors = error_text(&format!("[auth]\n{auth}{ca}"));
        assert!(errors.contains(expected), "{errors}\n{expected}");
    }
}

#[test]
fn rules_name_those_who_have_certificates() {
    let principals = |name: &str| {
        error_text(&format!(
            "[auth]\nmode = \"certificates\"\n[[auth.certificates]]\nprincipal = \"ann\"\ncommon_name = \"Ann\"\ngroups = [\"release\"]\n\
             [access]\ncall = {{ groups = [\"release\"], principals = ['{name}'] }}\n"
        ))
    };
    assert!(
        !principals("[\"certificate\",\"ann\"]").contains("access"),
        "{}",
        principals("[\"certificate\",\"ann\"]")
    );
    assert!(
        principals("ann").contains("access.call.principals[0]: unknown principal `ann`"),
        "{}",
        principals("ann")
    );
}
