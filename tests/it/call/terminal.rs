//! Tests at a terminal: the progress bar, questions, and Ctrl-C.

use super::{House, id_behind};
use crate::support::{CTRL_C, CTRL_D, Client};

#[tokio::test]
async fn progress_bar_gives_way_to_result() {
    let house = House::start();
    let mut call = house.at_terminal(&["gated", "gate=bar"]);
    call.shows("gated: task ").await;
    call.shows("[=======>").await;
    call.shows(" 25%").await;
    call.shows("half painted").await;
    house.open("bar");
    call.shows("gated succeeded after 0:0").await;
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(0), "{shown}");
    let end = shown.rsplit("succeeded after ").next().unwrap();
    assert!(end.contains("through bar\r\n") && !end.contains("half painted"), "{shown}");
}

#[tokio::test]
async fn notice_over_bar_has_own_line() {
    let house = House::start();
    let mut call = house.at_terminal(&["gated", "gate=own"]);
    call.shows("half painted").await;
    house.open("own");
    let (_, shown) = call.ends().await;
    let (_, rest) = shown.split_once("gated succeeded after ").unwrap();
    let line = rest.split(['\r', '\n']).next().unwrap().trim_end();
    assert!(
        line.chars().all(|c| c.is_ascii_digit() || c == ':'),
        "it ends with a piece of the bar: {line:?}"
    );
}

#[tokio::test]
async fn attached_call_shows_progress_bar() {
    let house = House::start();
    let left = house.call(&["gated", "gate=back", "--detach", "-q"]).await;
    let mut call = house.at_terminal(&["--task", left.stdout.trim_end()]);
    call.shows("[=======>").await;
    call.shows(" 25%").await;
    house.open("back");
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(0), "{shown}");
}

#[tokio::test]
async fn question_repeats_until_fields_fit() {
    let house = House::start();
    let mut call = house.at_terminal(&["ask"]);
    call.shows("ask asks:").await;
    call.shows("Which paint?").await;
    call.shows("Colour").await;
    call.shows("1) Signal red").await;
    call.shows("2) Sky blue").await;
    call.shows("(a number or a name; Enter for Signal red): ").await;
    call.enters("green");
    call.shows("\"green\" is none of the 2 choices").await;
    call.enters("sky blue");
    call.shows("Litres (whole number from 1 to 20): ").await;
    call.enters("21");
    call.shows("\"21\" does not fit: expected whole number from 1 to 20").await;
    call.enters("");
    call.shows("an answer is needed here").await;
    call.enters("7");
    call.shows("Sure (yes or no): ").await;
    call.enters("perhaps");
    call.shows("\"perhaps\" is neither yes nor no").await;
    call.enters("y");
    call.shows("3) bath").await;
    call.shows("Enter to leave it out): ").await;
    call.enters("1, bath");
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(0), "{shown}");
    let answer =
        r#"{"action":"accept","content":{"colour":"b","litres":7,"rooms":["hall","bath"],"sure":true}}"#;
    assert!(shown.contains(answer), "{shown}");
}

/// Input from before the question is discarded.
#[tokio::test]
async fn empty_answer_uses_default() {
    let house = House::start();
    let mut call = house.at_terminal(&["ask"]);
    // Typed before anything was asked.
    call.enters("2");
    call.shows("Enter for Signal red): ").await;
    call.enters("");
    call.shows("Litres").await;
    call.enters("1");
    call.shows("Sure").await;
    call.enters("n");
    call.shows("Enter to leave it out): ").await;
    call.enters("");
    let (_, shown) = call.ends().await;
    let answer = r#"{"action":"accept","content":{"colour":"r","litres":1,"sure":false}}"#;
    assert!(shown.contains(answer), "{shown}");
}

#[tokio::test]
async fn question_can_be_declined_or_closed() {
    let house = House::start();
    for (keys, action) in [(":no\n", "decline"), (":cancel\n", "cancel"), (CTRL_D, "cancel")] {
        let mut call = house.at_terminal(&["ask"]);
        call.shows("Signal red): ").await;
        call.types(keys);
        let (_, shown) = call.ends().await;
        assert!(shown.contains(&format!("{{\"action\":\"{action}\"}}")), "{shown}");
    }
}

/// The address is shown, and the program opens no browser.
#[tokio::test]
async fn page_is_opened_by_user_only() {
    let house = House::start();
    for (entry, action) in [("yes", "accept"), ("no", "decline"), ("cancel", "cancel")] {
        let mut call = house.at_terminal(&["pay"]);
        call.shows("Pay the bill.").await;
        call.shows("It wants you to open this address").await;
        call.shows("    https://bank.example/pay?order=7").await;
        call.shows("[yes, no, cancel] ").await;
        call.enters(entry);
        let (code, shown) = call.ends().await;
        assert!(shown.contains(&format!("{{\"action\":\"{action}\"")), "{shown}");
        assert_eq!(code, Some(0), "{shown}");
    }
}

#[tokio::test]
async fn consent_is_asked_before_anything_starts() {
    let house = House::start();
    let mut call = house.at_terminal(&["careful"]);
    call.shows("careful asks:").await;
    call.shows("Paint the house?").await;
    call.shows("Do you agree? [yes, no, cancel] ").await;
    call.enters("hm");
    call.shows("Please answer yes, no or cancel.").await;
    call.enters("yes");
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("painted\r\n"), "{shown}");

    let mut call = house.at_terminal(&["careful"]);
    call.shows("[yes, no, cancel] ").await;
    call.enters("no");
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("declined"), "{shown}");
}

#[tokio::test]
async fn question_of_ended_task_is_withdrawn() {
    let house = House::start();
    let mut call = house.at_terminal(&["ask"]);
    call.shows("Signal red): ").await;
    let client = Client::open(house.server.url()).await.unwrap();
    let task = client.list().await.unwrap().remove(0);
    client.cancel(task["taskId"].as_str().unwrap()).await.unwrap();
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("ask cancelled after "), "{shown}");
    house.place.jobs_end().await;
}

/// The choices are to wait, to leave the task running, and to cancel it.
#[tokio::test]
async fn ctrl_c_offers_three_choices() {
    let house = House::start();
    let mut call = house.at_terminal(&["gated", "gate=wait"]);
    call.shows("half painted").await;
    call.types(CTRL_C);
    call.shows("gated is still running. What now?").await;
    call.shows("  > ").await;
    call.enters("what");
    call.shows("Please type one of the letters.").await;
    call.enters("w");
    call.shows("half painted").await;
    house.open("wait");
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(0), "{shown}");

    let mut call = house.at_terminal(&["gated", "gate=leave"]);
    call.shows("half painted").await;
    call.types(CTRL_C);
    call.shows("[c] cancel it").await;
    call.shows("> ").await;
    call.enters("b");
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(130), "{shown}");
    let id = id_behind("taskbridge call --task ", &shown);
    house.open("leave");
    assert_eq!(house.call(&["--task", &id]).await.stdout, "through leave\n");

    let mut call = house.at_terminal(&["gated", "gate=cancel"]);
    call.shows("half painted").await;
    call.types(CTRL_C);
    call.shows("[c] cancel it").await;
    call.shows("> ").await;
    call.enters("c");
    call.shows("gated: cancelling").await;
    call.shows("gated cancelled after ").await;
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(1), "{shown}");
    house.place.jobs_end().await;
}

/// The task continues, and a client that attaches to it is asked the question again.
#[tokio::test]
async fn second_ctrl_c_detaches() {
    let house = House::start();
    let mut call = house.at_terminal(&["ask"]);
    call.shows("Signal red): ").await;
    call.types(CTRL_C);
    call.shows("What now?").await;
    // Returns to the question.
    call.enters("");
    call.shows("Signal red): ").await;
    call.types(CTRL_C);
    call.shows("What now?").await;
    call.types(CTRL_C);
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(130), "{shown}");
    let id = id_behind("taskbridge call --task ", &shown);

    // A user who attaches again is asked.
    let mut call = house.at_terminal(&["--task", &id]);
    call.shows("Signal red): ").await;
    call.types(":no\n");
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(0), "{shown}");
}
