//! What the pages show, what their forms do, and how open pages follow changes.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{Browser, start};

/// A form starts a task, its page follows it to the end, and the recorder shows its way.
#[tokio::test]
async fn task_page_follows_its_task() {
    let mut app = start();
    let mut browser = Browser::of_single_user(&mut app).await;
    let form = browser.get("/console/tools/job").await;
    assert!(
        form.text.contains("Any &quot;word&quot;") || form.text.contains("Any \"word\""),
        "{}",
        form.text
    );
    let nonce = form.field("nonce").to_owned();
    let task = browser.start("job", &[("field.word", "y"), ("nonce", &nonce)]).await;
    assert_eq!(browser.start("job", &[("field.word", "y"), ("nonce", &nonce)]).await, task, "sent twice");
    let page = browser.follow(&format!("{task}?live=1"), |text| text.contains("ended: succeeded")).await;
    for expected in ["called", "sends the start", "accepted the job as", "class=\"recorder\"", "succeeded"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let data: Value = serde_json::from_str(&browser.get(&format!("{task}/json")).await.text).unwrap();
    assert_eq!((&data["tool"], &data["state"]), (&json!("job"), &json!("succeeded")));
    assert!(data.get("key").is_none() && !data.to_string().contains("\"y\""), "no arguments: {data}");
    let list = browser.get("/console/tasks?tool=job&state=succeeded&q=JOB").await.text;
    assert!(list.contains(&format!("href=\"{task}\"")), "{list}");
    for query in ["tool=other", "state=failed", "q=nothing", "backend=x"] {
        assert!(!browser.get(&format!("/console/tasks?{query}")).await.text.contains(&task), "{query}");
    }
}

/// The inbox shows a question as soon as it is asked, and its form answers it.
#[tokio::test]
async fn question_is_answered_in_place() {
    let mut app = start();
    let mut browser = Browser::of_single_user(&mut app).await;
    let client = app.client().await;
    let id = client.start("asks", json!({})).await.unwrap();
    let inbox = browser.follow("/console?live=1", |text| text.contains("field.colour")).await;
    assert!(inbox.contains(&id), "{inbox}");
    let got = browser.get("/console").await;
    let question = got.field("question").to_owned();
    let answer = format!("/console/tasks/{id}/answer");
    let fields = [("question", question.as_str()), ("action", "accept")];
    let got = browser.act(&answer, &fields).await;
    assert_eq!(got.status, StatusCode::UNPROCESSABLE_ENTITY, "the colour is required: {}", got.text);
    let got = browser.act(&answer, &[fields[0], fields[1], ("field.colour", "red")]).await;
    assert_eq!(got.header("location"), format!("/console/tasks/{id}"));
    let page = browser
        .follow(&format!("/console/tasks/{id}?live=1"), |text| text.contains("ended: succeeded"))
        .await;
    assert!(page.contains("answered by the single user"), "{page}");
    let again = browser.act(&answer, &[fields[0], fields[1], ("field.colour", "blue")]).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
}

/// Arguments that do not fit give the form again, with the reason and with what was typed.
#[tokio::test]
async fn invalid_form_keeps_what_was_typed() {
    let mut app = super::TestApp::start(&format!(
        "{}\n[tools.strict]\nbackend = \"engine\"\ntarget = {{}}\n[tools.strict.parameters]\n\
         n = {{ type = \"integer\", maximum = 5 }}\ntoken = {{ type = \"string\", sensitive = true }}\n",
        super::TOOLS
    ));
    let mut browser = Browser::of_single_user(&mut app).await;
    let got = browser.act("/console/tools/strict/start", &[("field.n", "7"), ("field.token", "hush")]).await;
    assert_eq!(got.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(got.text.contains("value=\"7\"") && got.text.contains("role=\"alert\""), "{}", got.text);
    assert!(!got.text.contains("hush") && got.text.contains("type=\"password\""), "{}", got.text);
}

/// Chosen tasks are cancelled together, and the list comes back with its filter.
#[tokio::test]
async fn chosen_tasks_are_cancelled() {
    let mut app = start();
    let mut browser = Browser::of_single_user(&mut app).await;
    let tasks = [browser.start("long", &[]).await, browser.start("long", &[]).await];
    let list = "/console/tasks?state=open";
    let page = browser.get(list).await.text;
    let ids = tasks.each_ref().map(|task| task.rsplit_once('/').unwrap().1);
    assert!(ids.iter().all(|id| page.contains(&format!("name=\"task\" value=\"{id}\""))), "{page}");
    let fields = [("task", ids[0]), ("task", ids[1]), ("task", ids[1]), ("next", list)];
    assert_eq!(browser.act("/console/tasks/cancel", &fields).await.header("location"), list);
    for task in &tasks {
        browser.follow(&format!("{task}?live=1"), |text| text.contains("ended: cancelled")).await;
    }
    assert_eq!(browser.act("/console/tasks/cancel", &[("task", "none")]).await.status, StatusCode::FORBIDDEN);
}

/// Starts a task that fails, waits for its end, and returns the id of its row.
async fn fail(browser: &mut Browser) -> String {
    let task = browser.start("fails", &[]).await;
    browser.follow(&format!("{task}?live=1"), |text| text.contains("ended: failed")).await;
    task.replacen("/console/tasks/", "row-", 1)
}

/// What a person has seen are the failures that the page showed, not later ones that it did not show yet.
#[tokio::test]
async fn only_shown_failures_are_seen() {
    let fails = "[tools.fails]\nbackend = \"engine\"\ntarget = { delay_ms = 10, outcome = \"fail\" }\n";
    let mut app = super::TestApp::start(&format!("{}\n{fails}", super::TOOLS));
    let mut browser = Browser::of_single_user(&mut app).await;
    let shown = |page: &str| page.matches("<tr id=\"row-").count();
    let first = fail(&mut browser).await;
    let until = browser.get("/console").await.field("until").to_owned();
    let second = fail(&mut browser).await;
    assert_eq!(browser.act("/console/seen", &[("until", &until)]).await.status, StatusCode::SEE_OTHER);
    let inbox = browser.get("/console").await;
    assert!(inbox.text.contains(&second) && !inbox.text.contains(&first), "{}", inbox.text);
    // A page that was open for long shows no seen failure as new.
    let newer = inbox.field("until").to_owned();
    browser.act("/console/seen", &[("until", &newer)]).await;
    browser.act("/console/seen", &[("until", &until)]).await;
    assert_eq!(shown(&browser.get("/console").await.text), 0);
    for wrong in ["", "soon"] {
        let got = browser.act("/console/seen", &[("until", wrong)]).await;
        assert_eq!(got.status, StatusCode::BAD_REQUEST);
        assert!(got.text.contains("`until`"), "{}", got.text);
    }

    // Of many, the oldest come first.
    for _ in 0..27 {
        fail(&mut browser).await;
    }
    let inbox = browser.get("/console").await;
    assert_eq!(shown(&inbox.text), 25, "{}", inbox.text);
    assert!(inbox.text.contains("2 later failures are shown when you have seen these."), "{}", inbox.text);
    let until = inbox.field("until").to_owned();
    browser.act("/console/seen", &[("until", &until)]).await;
    assert_eq!(shown(&browser.get("/console").await.text), 2);
}
