//! A server that is killed and started again while somebody waits, and signals without a terminal.

use rustix::process::{Pid, Signal, kill_process};

use super::{House, id_behind, says};
use crate::support::Server;

impl House {
    /// Kills the server as `kill -9` does.
    fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts a server at the address of the one before.
    fn start_again(&mut self) {
        let address = self.server.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let mut command = self.place.command("serve");
        command.args(["--listen", &address]);
        self.server = Server::spawn(command, &self.place.path("server.log"));
        self.server.wait_until_it_listens();
    }
}

#[tokio::test]
async fn a_call_goes_on_with_the_same_task_after_a_kill_of_the_server() {
    let mut house = House::start();
    let (child, mut lines) = house.begin(&["gated", "gate=kill"]);
    let id = id_behind("gated: task ", &says(&mut lines, "gated: task ").await);
    says(&mut lines, "half painted").await;
    house.kill();
    says(&mut lines, "gated: the connection broke (").await;
    house.start_again();
    says(&mut lines, "gated: connected again; the task goes on").await;
    house.open("kill");
    says(&mut lines, "gated succeeded after ").await;
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"through kill\n".as_slice()));
    let listed = house.call(&["task_list"]).await.stdout;
    assert!(listed.lines().count() == 1 && listed.starts_with(&id), "one task, and no other: {listed}");
}

#[tokio::test]
async fn an_answer_that_was_given_while_the_server_was_away_arrives() {
    let mut house = House::start();
    let mut call = house.at_terminal(&["ask"]);
    call.shows("Signal red): ").await;
    house.kill();
    call.enters("2");
    call.shows("Litres").await;
    call.enters("3");
    call.shows("Sure").await;
    call.enters("y");
    call.shows("Enter to leave it out): ").await;
    call.enters("");
    call.shows("ask: the connection broke (").await;
    house.start_again();
    call.shows("ask: connected again; the task goes on").await;
    let (code, shown) = call.ends().await;
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains(r#"{"action":"accept","content":{"colour":"b","litres":3,"sure":true}}"#),
        "{shown}"
    );
    assert_eq!(shown.matches("ask asks:").count(), 1, "it is asked once: {shown}");
}

#[tokio::test]
async fn a_signal_without_a_terminal_leaves_the_task_running() {
    let house = House::start();
    for (signal, code, gate) in [(Signal::INT, 130, "int"), (Signal::TERM, 143, "term")] {
        let (mut child, mut lines) = house.begin(&["gated", &format!("gate={gate}")]);
        says(&mut lines, "half painted").await;
        let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let id =
            id_behind("--task ", &says(&mut lines, "gated goes on in the background; watch it with: ").await);
        assert_eq!(child.wait().await.unwrap().code(), Some(code));
        house.open(gate);
        assert_eq!(house.call(&["--task", &id, "-q"]).await.stdout, format!("through {gate}\n"));
    }
}
