//! Tests that replace access rules while clients listen. A client whose lists change is notified on the
//! streams of both generations, and no other client receives anything.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{next_message, tools, wait_for_nth_log};
use crate::support::{BASICS, Client, Events, ModernClient, Server, TestDir};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";

/// A tool for all and one for a group, and a resource that is visible to callers of the latter.
const TOOLS: &str = r#"
[backends.here]
kind = "local"

[tools.hello]
backend = "here"
target.command = ["echo", "hello"]

[tools.release]
backend = "here"
target.command = ["true"]

[tools.release.access.call]
groups = [RELEASERS]

[resources.runbook]
uri = "runbook:release"
text = "How to release."
tools = ["release"]
"#;

/// The people, and the groups of each.
const PEOPLE: [(&str, &str); 3] = [("ann", "\"release\""), ("bob", "\"data\""), ("cid", "")];

/// Returns a config with the groups that may call `release`, people with their groups, and more tables.
fn config(releasers: &str, people: &[(&str, &str)], more: &str) -> String {
    let key = |(name, groups): &(&str, &str)| {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(format!("key-of-{name}")));
        format!("[[auth.keys]]\nprincipal = \"{name}\"\nsha256 = \"{digest}\"\ngroups = [{groups}]\n")
    };
    let basics = BASICS.replace("single_user = true", "mode = \"api_keys\"");
    let keys: String = people.iter().map(key).collect();
    format!("{basics}{keys}{}{more}", TOOLS.replace("RELEASERS", releasers))
}

/// A person who listens in a session and by a subscription.
struct Listener {
    name: &'static str,
    client: Client,
    streams: [Events; 2],
}

impl Listener {
    async fn connect(server: &Server, name: &'static str) -> Self {
        let key = format!("key-of-{name}");
        let client = Client::open_with_key(server.url(), &key).await.unwrap();
        let stream = client.listen().await.unwrap();
        let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let modern = ModernClient::without_tasks(server.url()).with_key(&key);
        let (subscription, granted) = modern.subscribe(all.clone()).await.unwrap();
        assert_eq!(granted, all);
        Self { name, client, streams: [stream, subscription] }
    }

    /// Asserts that each of the two streams delivers these methods next, in this order.
    async fn assert_next(&mut self, methods: &[&str]) {
        for stream in &mut self.streams {
            for method in methods {
                assert_eq!(next_message(stream).await["method"], *method, "{}", self.name);
            }
        }
    }
}

/// A server, and all its listeners.
struct Fixture {
    /// Dropped first, so that the server is stopped before its [`TestDir`] checks for leftover processes.
    server: Server,
    dir: TestDir,
    listeners: Vec<Listener>,
    /// Number of times that the config was replaced.
    reloads: usize,
    /// Prompts that mark, for all listeners, that everything before was delivered.
    marks: String,
}

impl Fixture {
    async fn start(releasers: &str) -> Self {
        let dir = TestDir::new(&config(releasers, &PEOPLE, ""));
        let server = dir.serve();
        let mut listeners = Vec::new();
        for (name, _) in PEOPLE {
            listeners.push(Listener::connect(&server, name).await);
        }
        Self { dir, server, listeners, reloads: 0, marks: String::new() }
    }

    async fn replace_config(&mut self, config: &str) {
        std::fs::write(self.dir.path("taskbridge.new"), config).unwrap();
        std::fs::rename(self.dir.path("taskbridge.new"), self.dir.config()).unwrap();
        self.reloads += 1;
        wait_for_nth_log(&self.dir, "config applied", self.reloads).await;
    }

    /// Applies this config. The named people must receive the methods next to their names, and the others
    /// nothing: the next notification for all is a new prompt.
    async fn apply_and_expect(
        &mut self,
        releasers: &str,
        people: &[(&str, &str)],
        more: &str,
        expected: &[(&str, &[&str])],
    ) {
        self.replace_config(&config(releasers, people, &format!("{}{more}", self.marks))).await;
        for listener in &mut self.listeners {
            let name = listener.name;
            for (_, methods) in expected.iter().filter(|(who, _)| *who == name) {
                listener.assert_next(methods).await;
            }
        }
        self.marks
            .push_str(&format!("[prompts.mark_{}]\nmessages = [{{ text = \"Heard.\" }}]\n", self.reloads));
        self.replace_config(&config(releasers, people, &format!("{}{more}", self.marks))).await;
        for listener in &mut self.listeners {
            listener.assert_next(&[PROMPTS_CHANGED]).await;
        }
    }

    /// Returns the tools that each listener can list.
    async fn lists(&self) -> Value {
        let mut lists = json!({});
        for listener in &self.listeners {
            lists[listener.name] = json!(tools(&listener.client).await);
        }
        lists
    }
}

/// The notifications for the tool and its resource.
const BOTH: &[&str] = &[TOOLS_CHANGED, RESOURCES_CHANGED];

#[tokio::test]
async fn rule_change_notifies_affected_callers_only() {
    let mut fixture = Fixture::start("\"release\"").await;
    let all = json!(["hello", "release"]);
    assert_eq!(fixture.lists().await, json!({"ann": all, "bob": ["hello"], "cid": ["hello"]}));

    // A group gets the tool.
    fixture.apply_and_expect("\"release\", \"data\"", &PEOPLE, "", &[("bob", BOTH)]).await;
    assert_eq!(fixture.lists().await, json!({"ann": all, "bob": all, "cid": ["hello"]}));

    // Another group loses it.
    fixture.apply_and_expect("\"data\"", &PEOPLE, "", &[("ann", BOTH)]).await;
    assert_eq!(fixture.lists().await, json!({"ann": ["hello"], "bob": all, "cid": ["hello"]}));

    // A rule about cancellation affects no list.
    let cancel = "[tools.release.access.cancel]\ngroups = [\"release\"]\n";
    fixture.apply_and_expect("\"data\"", &PEOPLE, cancel, &[]).await;

    // A rule for all tools without rules of their own: one person has no tool left.
    let general = "[access]\ncall = { groups = [\"release\", \"data\"] }\n";
    fixture.apply_and_expect("\"data\"", &PEOPLE, general, &[("cid", &[TOOLS_CHANGED])]).await;
    assert_eq!(fixture.lists().await, json!({"ann": ["hello"], "bob": all, "cid": []}));

    // A change of a tool does not notify callers who are not offered it.
    let described = format!("{general}[tools.release.parameters.channel]\ntype = \"string\"\n");
    fixture.apply_and_expect("\"data\"", &PEOPLE, &described, &[("bob", &[TOOLS_CHANGED])]).await;
}

/// Streams of a caller who leaves a group end. The caller is notified on return, and other callers are not.
#[tokio::test]
async fn group_removal_notifies_returning_caller() {
    let releasers = "\"release\", \"data\"";
    let mut fixture = Fixture::start(releasers).await;
    let more = "[prompts.more]\nmessages = [{ text = \"More.\" }]\n";
    let all = [("ann", &[PROMPTS_CHANGED][..]), ("bob", &[PROMPTS_CHANGED]), ("cid", &[PROMPTS_CHANGED])];
    fixture.apply_and_expect(releasers, &PEOPLE, more, &all).await;
    let last_id = fixture.listeners[0].streams[0].last_id.clone().unwrap();

    // The rules treat Ann as another caller now, so her streams end.
    let moved = [("ann", ""), PEOPLE[1], PEOPLE[2]];
    fixture.replace_config(&config(releasers, &moved, &format!("{}{more}", fixture.marks))).await;
    let mut ann = fixture.listeners.remove(0);
    for stream in &mut ann.streams {
        super::wait_for_end(stream).await;
    }
    assert_eq!(tools(&ann.client).await, ["hello"]);
    let mut resumed = ann.client.listen_after(&last_id).await.unwrap();
    for method in BOTH {
        assert_eq!(next_message(&mut resumed).await["method"], *method);
    }
    let modern = ModernClient::without_tasks(fixture.server.url()).with_key("key-of-ann");
    let (subscription, _) = modern.subscribe(json!({"promptsListChanged": true})).await.unwrap();
    fixture.listeners.push(Listener { streams: [resumed, subscription], ..ann });
    fixture.apply_and_expect(releasers, &moved, "", &all).await;
}
