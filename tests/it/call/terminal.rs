//! Tests at a terminal: the progress bar, questions, and Ctrl-C.

use super::{CallFixture, id_after};
use crate::support::{CTRL_C, CTRL_D, Client};

#[tokio::test]
async fn progress_bar_gives_way_to_result() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["gated", "gate=bar"]);
    call.wait_for("gated: task ").await;
    call.wait_for("[=======>").await;
    call.wait_for(" 25%").await;
    call.wait_for("half painted").await;
    fixture.open("bar");
    call.wait_for("gated succeeded after 0:0").await;
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(0), "{output}");
    let end = output.rsplit("succeeded after ").next().unwrap();
    assert!(end.contains("through bar\r\n") && !end.contains("half painted"), "{output}");
}

#[tokio::test]
async fn notice_over_bar_has_own_line() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["gated", "gate=own"]);
    call.wait_for("half painted").await;
    fixture.open("own");
    let (_, output) = call.wait_for_end().await;
    let (_, rest) = output.split_once("gated succeeded after ").unwrap();
    let line = rest.split(['\r', '\n']).next().unwrap().trim_end();
    assert!(
        line.chars().all(|c| c.is_ascii_digit() || c == ':'),
        "it ends with a piece of the bar: {line:?}"
    );
}

#[tokio::test]
async fn attached_call_shows_progress_bar() {
    let fixture = CallFixture::start();
    let detached = fixture.call(&["gated", "gate=back", "--detach", "-q"]).await;
    let mut call = fixture.at_terminal(&["--task", detached.stdout.trim_end()]);
    call.wait_for("[=======>").await;
    call.wait_for(" 25%").await;
    fixture.open("back");
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(0), "{output}");
}

#[tokio::test]
async fn question_repeats_until_fields_fit() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["ask"]);
    call.wait_for("ask asks:").await;
    call.wait_for("Which paint?").await;
    call.wait_for("Colour").await;
    call.wait_for("1) Signal red").await;
    call.wait_for("2) Sky blue").await;
    call.wait_for("(a number or a name; Enter for Signal red): ").await;
    call.enter_line("green");
    call.wait_for("\"green\" is not one of the 2 choices").await;
    call.enter_line("sky blue");
    call.wait_for("Litres (whole number from 1 to 20): ").await;
    call.enter_line("21");
    call.wait_for("\"21\" is invalid: expected whole number from 1 to 20").await;
    call.enter_line("");
    call.wait_for("an answer is required").await;
    call.enter_line("7");
    call.wait_for("Sure (yes or no): ").await;
    call.enter_line("perhaps");
    call.wait_for("\"perhaps\" is neither yes nor no").await;
    call.enter_line("y");
    call.wait_for("3) bath").await;
    call.wait_for("Enter to skip): ").await;
    call.enter_line("1, bath");
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(0), "{output}");
    let answer =
        r#"{"action":"accept","content":{"colour":"b","litres":7,"rooms":["hall","bath"],"sure":true}}"#;
    assert!(output.contains(answer), "{output}");
}

/// Input from before the question is discarded.
#[tokio::test]
async fn empty_answer_uses_default() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["ask"]);
    // Typed before anything was asked.
    call.enter_line("2");
    call.wait_for("Enter for Signal red): ").await;
    call.enter_line("");
    call.wait_for("Litres").await;
    call.enter_line("1");
    call.wait_for("Sure").await;
    call.enter_line("n");
    call.wait_for("Enter to skip): ").await;
    call.enter_line("");
    let (_, output) = call.wait_for_end().await;
    let answer = r#"{"action":"accept","content":{"colour":"r","litres":1,"sure":false}}"#;
    assert!(output.contains(answer), "{output}");
}

#[tokio::test]
async fn question_can_be_declined_or_closed() {
    let fixture = CallFixture::start();
    for (keys, action) in [(":no\n", "decline"), (":cancel\n", "cancel"), (CTRL_D, "cancel")] {
        let mut call = fixture.at_terminal(&["ask"]);
        call.wait_for("Signal red): ").await;
        call.type_keys(keys);
        let (_, output) = call.wait_for_end().await;
        assert!(output.contains(&format!("{{\"action\":\"{action}\"}}")), "{output}");
    }
}

/// The address is shown, and the program opens no browser.
#[tokio::test]
async fn page_is_opened_by_user_only() {
    let fixture = CallFixture::start();
    for (entry, action) in [("yes", "accept"), ("no", "decline"), ("cancel", "cancel")] {
        let mut call = fixture.at_terminal(&["pay"]);
        call.wait_for("Pay the bill.").await;
        call.wait_for("The server asks you to open this URL").await;
        call.wait_for("    https://bank.example/pay?order=7").await;
        call.wait_for("[yes, no, cancel] ").await;
        call.enter_line(entry);
        let (code, output) = call.wait_for_end().await;
        assert!(output.contains(&format!("{{\"action\":\"{action}\"")), "{output}");
        assert_eq!(code, Some(0), "{output}");
    }
}

#[tokio::test]
async fn consent_is_asked_before_anything_starts() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["careful"]);
    call.wait_for("careful asks:").await;
    call.wait_for("Paint the house?").await;
    call.wait_for("Do you agree? [yes, no, cancel] ").await;
    call.enter_line("hm");
    call.wait_for("Please answer yes, no or cancel.").await;
    call.enter_line("yes");
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("painted\r\n"), "{output}");

    let mut call = fixture.at_terminal(&["careful"]);
    call.wait_for("[yes, no, cancel] ").await;
    call.enter_line("no");
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("declined"), "{output}");
}

#[tokio::test]
async fn question_of_ended_task_is_withdrawn() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["ask"]);
    call.wait_for("Signal red): ").await;
    let client = Client::open(fixture.server.url()).await.unwrap();
    let task = client.list().await.unwrap().remove(0);
    client.cancel(task["taskId"].as_str().unwrap()).await.unwrap();
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("ask cancelled after "), "{output}");
    fixture.dir.wait_for_jobs_to_end().await;
}

/// The choices are to wait, to leave the task running, and to cancel it.
#[tokio::test]
async fn ctrl_c_offers_three_choices() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["gated", "gate=wait"]);
    call.wait_for("half painted").await;
    call.type_keys(CTRL_C);
    call.wait_for("gated is still running. What now?").await;
    call.wait_for("  > ").await;
    call.enter_line("what");
    call.wait_for("Please type one of the letters.").await;
    call.enter_line("w");
    call.wait_for("half painted").await;
    fixture.open("wait");
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(0), "{output}");

    let mut call = fixture.at_terminal(&["gated", "gate=leave"]);
    call.wait_for("half painted").await;
    call.type_keys(CTRL_C);
    call.wait_for("[c] cancel it").await;
    call.wait_for("> ").await;
    call.enter_line("b");
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(130), "{output}");
    let id = id_after("taskbridge call --task ", &output);
    fixture.open("leave");
    assert_eq!(fixture.call(&["--task", &id]).await.stdout, "through leave\n");

    let mut call = fixture.at_terminal(&["gated", "gate=cancel"]);
    call.wait_for("half painted").await;
    call.type_keys(CTRL_C);
    call.wait_for("[c] cancel it").await;
    call.wait_for("> ").await;
    call.enter_line("c");
    call.wait_for("gated: cancelling").await;
    call.wait_for("gated cancelled after ").await;
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(1), "{output}");
    fixture.dir.wait_for_jobs_to_end().await;
}

/// The task continues, and a client that attaches to it is asked the question again.
#[tokio::test]
async fn second_ctrl_c_detaches() {
    let fixture = CallFixture::start();
    let mut call = fixture.at_terminal(&["ask"]);
    call.wait_for("Signal red): ").await;
    call.type_keys(CTRL_C);
    call.wait_for("What now?").await;
    // Returns to the question.
    call.enter_line("");
    call.wait_for("Signal red): ").await;
    call.type_keys(CTRL_C);
    call.wait_for("What now?").await;
    call.type_keys(CTRL_C);
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(130), "{output}");
    let id = id_after("taskbridge call --task ", &output);

    // A user who attaches again is asked.
    let mut call = fixture.at_terminal(&["--task", &id]);
    call.wait_for("Signal red): ").await;
    call.type_keys(":no\n");
    let (code, output) = call.wait_for_end().await;
    assert_eq!(code, Some(0), "{output}");
}
