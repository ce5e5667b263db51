//! Tests of the rules on addresses, by their text.

use super::*;

fn targets(base: &str, also: &[&str]) -> Result<Targets, String> {
    let also: Vec<String> = also.iter().map(|text| (*text).to_owned()).collect();
    Targets::new(&Url::parse(base).unwrap(), &also, None)
}

fn place(targets: &Targets, url: &str) -> Result<Place, String> {
    targets.place(&Url::parse(url).unwrap())
}

/// Only addresses below `base` count as the engine's.
#[test]
fn only_addresses_below_base_are_own() {
    let targets = targets("https://engine.example.com/api/v2", &[]).unwrap();
    for url in ["https://engine.example.com/api/v2", "https://engine.example.com/api/v2/x?y=1"] {
        assert_eq!(place(&targets, url), Ok(Place::Base), "{url}");
    }
    for url in [
        "https://engine.example.com/api/v20/x",
        "https://engine.example.com/api/v2/../v1",
        "https://engine.example.com/api/v2/%2e%2e/v1",
        "https://engine.example.com/",
        "http://engine.example.com/api/v2/x",
        "https://engine.example.com:8443/api/v2/x",
        "https://user@engine.example.com/api/v2/x",
        "https://engine.example.com.evil.example/api/v2/x",
        "file:///api/v2/x",
    ] {
        assert!(place(&targets, url).is_err(), "{url}");
    }
}

/// A path is joined below `base`, and cannot leave it or select another resource.
#[test]
fn path_stays_below_base() {
    let targets = targets("https://engine.example.com/api/", &[]).unwrap();
    assert_eq!(
        targets.join("/dags/a%2Fb?limit=1").map(String::from),
        Ok("https://engine.example.com/api/dags/a%2Fb?limit=1".to_owned())
    );
    for path in ["dags", "/../x", "/a/../b", "/a/%2E%2e/b", "/a/./b", "/a/..?x=1", "/a\\..\\..\\b"] {
        assert!(targets.join(path).is_err(), "{path}");
    }
    assert!(targets.join("//evil.example/x").is_ok_and(|url| url.host_str() == Some("engine.example.com")));
}

/// Download hosts match by scheme, host and port. A wildcard covers subdomains only.
#[test]
fn download_hosts_match_by_origin() {
    let also = ["https://*.storage.example.com", "https://files.example.com:8443"];
    let targets = targets("https://engine.example.com", &also).unwrap();
    for url in ["https://eu.storage.example.com/x?sig=1", "https://files.example.com:8443/x"] {
        assert_eq!(place(&targets, url), Ok(Place::DownloadHost), "{url}");
    }
    for url in [
        "https://storage.example.com/x",
        "https://evilstorage.example.com/x",
        "http://eu.storage.example.com/x",
        "https://files.example.com/x",
        "https://eu.storage.example.com.evil.example/x",
    ] {
        assert!(place(&targets, url).is_err(), "{url}");
    }
}

/// Private addresses are for named hosts only, and a wildcard names none.
#[test]
fn private_addresses_need_full_name() {
    let also = ["http://10.0.0.9", "https://*.storage.example.com", "https://files.example.com"];
    let private_base = targets("http://127.0.0.1:8080", &also).unwrap();
    assert_eq!(place(&private_base, "http://127.0.0.1:8080/x"), Ok(Place::Base));
    assert_eq!(place(&private_base, "http://10.0.0.9/x"), Ok(Place::DownloadHost));
    let private = "10.1.2.3".parse().unwrap();
    assert!(private_base.check_address("files.example.com", private).is_ok());
    assert!(private_base.check_address("eu.storage.example.com", private).is_err());
    assert!(private_base.check_address("eu.storage.example.com", "8.8.8.8".parse().unwrap()).is_ok());
    assert!(private_base.check_address("files.example.com", "169.254.169.254".parse().unwrap()).is_err());
}

/// An invalid `base` or download host is reported with its field.
#[test]
fn invalid_config_names_its_field() {
    for (base, also, expected) in [
        ("ftp://engine.example.com", "https://a.example", "`base`"),
        ("https://user:s3cret@engine.example.com", "https://a.example", "`auth.basic`"),
        ("https://engine.example.com?x=1", "https://a.example", "query"),
        ("http://169.254.169.254", "https://a.example", "never requested"),
        ("http://[::ffff:169.254.169.254]/", "https://a.example", "never requested"),
        ("http://metadata.google.internal", "https://a.example", "metadata"),
        ("https://engine.example.com", "a.example", "`also`"),
        ("https://engine.example.com", "https://a.example/path", "`also`"),
        ("https://engine.example.com", "https://*.com", "`also`"),
    ] {
        let error = targets(base, &[also]).unwrap_err();
        assert!(error.contains(expected) && !error.contains("s3cret"), "{base} {also}: {error}");
    }
}
