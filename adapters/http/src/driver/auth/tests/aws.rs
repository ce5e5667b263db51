//! Tests of AWS signatures.

use std::time::SystemTime;

use super::*;
use crate::driver::auth::sigv4::Signer;
use crate::driver::net::tests::{reply, request};

/// 2015-08-30T12:36:00Z, the time of the test suite of AWS.
fn suite_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160)
}

/// The example of the documentation of AWS: `get-vanilla` of its test suite, with the checksum of the body as
/// another signed header.
#[tokio::test]
async fn request_is_signed_as_documented() {
    let config = json!({ "sigv4": {
        "service": "service", "region": "us-east-1",
        "access_key_id": "AKIDEXAMPLE", "secret_access_key": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    } });
    let sigv4 = parse(config).sigv4.unwrap();
    let signer = Signer::new(&sigv4).unwrap().at(suite_time);
    let url = reqwest::Url::parse("https://example.amazonaws.com/").unwrap();
    let mut signed = request(http::Method::GET, url);
    signer.apply(&mut signed).await.unwrap();
    assert_eq!(signed.headers["x-amz-date"], "20150830T123600Z");
    let authorization = signed.headers["authorization"].to_str().unwrap();
    let scope = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ";
    let rest = authorization.strip_prefix(scope).unwrap();
    assert!(rest.starts_with("SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature="), "{rest}");
    assert!(signed.headers["authorization"].is_sensitive());
}

/// The body and the headers of the request are covered by the signature.
#[tokio::test]
async fn signature_covers_body_and_headers() {
    let server = TestServer::start(|_| reply(200, "", "")).await;
    let config = json!({ "sigv4": {
        "service": "codebuild", "region": "eu-central-1",
        "access_key_id": "AKIDEXAMPLE", "secret_access_key": "s3cret",
    } });
    let auth = auth(&server, config).unwrap();
    let mut signatures = std::collections::BTreeSet::new();
    for (target, body) in [("A", "{}"), ("B", "{}"), ("A", "[]")] {
        let mut request = server.request(http::Method::POST, "/");
        request.headers.insert("x-amz-target", target.parse().unwrap());
        request.body = body.into();
        auth.apply(&mut request, By::Own).await.unwrap();
        let authorization = request.headers["authorization"].to_str().unwrap();
        assert!(authorization.contains("x-amz-target"), "{authorization}");
        signatures.insert(authorization.rsplit('=').next().unwrap().to_owned());
    }
    assert_eq!(signatures.len(), 3);
}
