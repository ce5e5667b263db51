//! Tests of credentials that the config contains, and of the credentials of people.

use super::*;
use crate::driver::net::tests::reply;

async fn server() -> TestServer {
    TestServer::start(|_| reply(200, "", "")).await
}

#[tokio::test]
async fn fixed_credentials_become_one_header() {
    let server = server().await;
    for (config, header, expected) in [
        (json!({ "bearer": "t0ken\n" }), "authorization", "Bearer t0ken"),
        // RFC 7617, section 2.
        (
            json!({ "basic": { "user": "Aladdin", "password": "open sesame\n" } }),
            "authorization",
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
        ),
        (json!({ "header": { "name": "PRIVATE-TOKEN", "value": "t0ken" } }), "private-token", "t0ken"),
    ] {
        let auth = auth(&server, config).unwrap();
        assert_eq!(applied(&server, &auth, header).await.unwrap(), expected);
        assert!(!auth.refused(By::Own), "the config has no other credentials");
        assert!(!format!("{auth:?}").contains("t0ken"));
    }
}

/// Changes are made with the person's credentials, and never with others.
#[tokio::test]
async fn people_have_their_own_credentials() {
    let server = server().await;
    let config = parse(json!({ "header": { "name": "PRIVATE-TOKEN", "value": "own" } }));
    let per_caller: PerCaller = serde_json::from_value(json!({ "tokens": { "ann": "anns" } })).unwrap();
    let auth = Auth::new(&config, Some(&per_caller), &server.client(), &context()).unwrap();
    let header = async |by: By<'_>| {
        let mut request = server.request(http::Method::POST, "/job");
        auth.apply(&mut request, by).await?;
        Ok::<_, Error>(request.headers["private-token"].to_str().unwrap().to_owned())
    };
    assert_eq!(header(By::Own).await.unwrap(), "own");
    assert_eq!(header(By::Person(Some(&person("ann")))).await.unwrap(), "anns");
    for unknown in [Some(person("bob")), None] {
        let error = header(By::Person(unknown.as_ref())).await.unwrap_err();
        assert_eq!(error.kind(), taskbridge_sdk::ErrorKind::Denied);
    }
}

/// Kinds with one identity cannot act for people.
#[test]
fn tokens_of_people_need_fitting_kind() {
    let per_caller: PerCaller = serde_json::from_value(json!({ "tokens": { "ann": "no-colon" } })).unwrap();
    let basic = parse(json!({ "basic": { "user": "a", "password": "b" } }));
    let sigv4 = parse(json!({ "sigv4": { "service": "a", "region": "b" } }));
    for (config, field) in [(basic, "per_caller.tokens.ann"), (sigv4, "per_caller")] {
        assert_eq!(Auth::check(&config, Some(&per_caller)).unwrap_err().0, field);
    }
}
