//! Tests for logs and artifacts as resources.

use serde_json::{Value, json};
use taskbridge_sdk::{JobState, Observation};

use super::bench::{Client, Server};

async fn read(client: &Client, uri: &str) -> Value {
    let read = client.get("resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["contents"][0]["uri"], uri);
    read["contents"][0].clone()
}

/// Covers artifacts and the log. A long log is cut at its beginning.
#[tokio::test]
async fn task_files_are_listed_and_read() {
    let server = Server::start().await;
    let client = server.client().await;
    let artifacts = json!([{"name": "a.txt", "mime_type": "text/plain"}, {"name": "b c/d.bin"}]);
    let end = json!({"end": {"succeeded": {"artifacts": artifacts}}});
    let id = client.start("work", end).await;
    let job = server.engine.job(1).await;
    job.add_artifact("a.txt", "grüße".as_bytes());
    job.add_artifact("b c/d.bin", &[0, 159, 146, 150]);
    job.set_log("one\ntwo\n");
    client.wait_for_status(&id, "completed").await;
    let listed = client.get("resources/list", json!({})).await["resources"].clone();
    let uris: Vec<&str> = listed.as_array().unwrap().iter().map(|r| r["uri"].as_str().unwrap()).collect();
    let base = format!("taskbridge://tasks/{id}");
    let expected =
        [format!("{base}/artifacts/a.txt"), format!("{base}/artifacts/b%20c/d.bin"), format!("{base}/log")];
    assert_eq!(uris, expected);
    assert_eq!(read(&client, uris[0]).await["text"], "grüße");
    assert_eq!(read(&client, uris[1]).await["blob"], "AJ+Slg==");
    assert_eq!(read(&client, uris[2]).await["text"], "one\ntwo\n");
    job.set_log(&"x\n".repeat(500));
    let cut = read(&client, uris[2]).await["text"].as_str().unwrap().to_owned();
    assert!(cut.starts_with("[earlier output is left out]\n") && cut.len() < 300, "{cut}");
}

#[tokio::test]
async fn the_list_is_paged_by_tasks() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut expected = Vec::new();
    for _ in 0..4 {
        let id = client.start("work", json!({"end": {"succeeded": {}}})).await;
        client.wait_for_status(&id, "completed").await;
        expected.insert(0, format!("taskbridge://tasks/{id}/log"));
    }
    let first = client.get("resources/list", json!({})).await;
    let second = client.get("resources/list", json!({"cursor": first["nextCursor"]})).await;
    assert_eq!(second.get("nextCursor"), None);
    let listed: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["resources"].as_array().unwrap())
        .map(|resource| resource["uri"].as_str().unwrap())
        .collect();
    assert_eq!(listed, expected);
}

#[tokio::test]
async fn templates_say_how_addresses_are_made() {
    let server = Server::start().await;
    let client = server.client().await;
    let templates = client.get("resources/templates/list", json!({})).await["resourceTemplates"].clone();
    assert_eq!(templates[0]["uriTemplate"], "taskbridge://tasks/{task_id}/log");
    assert_eq!(templates[1]["uriTemplate"], "taskbridge://tasks/{task_id}/artifacts/{+name}");
    let bad = client.expect_error("resources/templates/list", json!({"cursor": "x"})).await;
    assert_eq!(bad.0, -32602);
}

#[tokio::test]
async fn missing_or_large_resource_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.start("work", json!({})).await;
    let job = server.engine.job(1).await;
    job.add_artifact("big", &[b'x'; 101]);
    job.show(Observation::new(JobState::Running).with_message("it runs"));
    client.wait_for_message(&id, "it runs").await;
    for uri in [
        "file:///etc/passwd".to_owned(),
        "taskbridge://tasks/never-was/log".to_owned(),
        format!("taskbridge://tasks/{id}/artifacts/none"),
        format!("taskbridge://tasks/{id}/elsewhere"),
    ] {
        assert_eq!(client.expect_error("resources/read", json!({ "uri": uri })).await.0, -32002, "{uri}");
    }
    let uri = format!("taskbridge://tasks/{id}/artifacts/big");
    let (code, message) = client.expect_error("resources/read", json!({ "uri": uri })).await;
    assert_eq!((code, message.as_str()), (-32602, "big has 101 bytes, more than 100"));
    let (code, message) = client.expect_error("resources/read", json!({"uri": 5})).await;
    assert!(code == -32602 && message.starts_with("`uri` is 5"), "{message}");
}
