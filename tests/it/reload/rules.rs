//! Tests that replace access rules while clients listen. A client whose lists change is notified on the
//! streams of both generations, and no other client receives anything.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{hear, logged_again, tools};
use crate::support::{BASICS, Client, Events, Modern, Place, Server};

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
    async fn of(server: &Server, name: &'static str) -> Self {
        let key = format!("key-of-{name}");
        let client = Client::open_with(server.url(), &key).await.unwrap();
        let stream = client.listen().await.unwrap();
        let all = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let modern = Modern::without_tasks(server.url()).with_key(&key);
        let (subscription, granted) = modern.subscribe(all.clone()).await.unwrap();
        assert_eq!(granted, all);
        Self { name, client, streams: [stream, subscription] }
    }

    /// Asserts that each of the two streams delivers these methods next, in this order.
    async fn hears(&mut self, methods: &[&str]) {
        for stream in &mut self.streams {
            for method in methods {
                assert_eq!(hear(stream).await["method"], *method, "{}", self.name);
            }
        }
    }
}

/// A server, and all its listeners.
struct Stage {
    /// Dropped first, so that the server is stopped before its `Place` checks for leftover processes.
    server: Server,
    place: Place,
    listeners: Vec<Listener>,
    /// Number of times that the config was replaced.
    reloads: usize,
    /// Prompts that mark, for all listeners, that everything before was delivered.
    marks: String,
}

impl Stage {
    async fn set(releasers: &str) -> Self {
        let place = Place::new(&config(releasers, &PEOPLE, ""));
        let server = place.serve();
        let mut listeners = Vec::new();
        for (name, _) in PEOPLE {
            listeners.push(Listener::of(&server, name).await);
        }
        Self { place, server, listeners, reloads: 0, marks: String::new() }
    }

    async fn put(&mut self, config: &str) {
        std::fs::write(self.place.path("taskbridge.new"), config).unwrap();
        std::fs::rename(self.place.path("taskbridge.new"), self.place.config()).unwrap();
        self.reloads += 1;
        logged_again(&self.place, "config applied", self.reloads).await;
    }

    /// Applies this config. The named people must receive the methods next to their names, and the others
    /// nothing: the next notification for all is a new prompt.
    async fn turn_to(
        &mut self,
        releasers: &str,
        people: &[(&str, &str)],
        more: &str,
        heard: &[(&str, &[&str])],
    ) {
        self.put(&config(releasers, people, &format!("{}{more}", self.marks))).await;
        for listener in &mut self.listeners {
            let name = listener.name;
            for (_, methods) in heard.iter().filter(|(who, _)| *who == name) {
                listener.hears(methods).await;
            }
        }
        self.marks
            .push_str(&format!("[prompts.mark_{}]\nmessages = [{{ text = \"Heard.\" }}]\n", self.reloads));
        self.put(&config(releasers, people, &format!("{}{more}", self.marks))).await;
        for listener in &mut self.listeners {
            listener.hears(&[PROMPTS_CHANGED]).await;
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
    let mut stage = Stage::set("\"release\"").await;
    let all = json!(["hello", "release"]);
    assert_eq!(stage.lists().await, json!({"ann": all, "bob": ["hello"], "cid": ["hello"]}));

    // A group gets the tool.
    stage.turn_to("\"release\", \"data\"", &PEOPLE, "", &[("bob", BOTH)]).await;
    assert_eq!(stage.lists().await, json!({"ann": all, "bob": all, "cid": ["hello"]}));

    // Another group loses it.
    stage.turn_to("\"data\"", &PEOPLE, "", &[("ann", BOTH)]).await;
    assert_eq!(stage.lists().await, json!({"ann": ["hello"], "bob": all, "cid": ["hello"]}));

    // A rule about cancellation affects no list.
    let cancel = "[tools.release.access.cancel]\ngroups = [\"release\"]\n";
    stage.turn_to("\"data\"", &PEOPLE, cancel, &[]).await;

    // A rule for all tools without rules of their own: one person has no tool left.
    let general = "[access]\ncall = { groups = [\"release\", \"data\"] }\n";
    stage.turn_to("\"data\"", &PEOPLE, general, &[("cid", &[TOOLS_CHANGED])]).await;
    assert_eq!(stage.lists().await, json!({"ann": ["hello"], "bob": all, "cid": []}));

    // A change of a tool does not notify callers who are not offered it.
    let described = format!("{general}[tools.release.parameters.channel]\ntype = \"string\"\n");
    stage.turn_to("\"data\"", &PEOPLE, &described, &[("bob", &[TOOLS_CHANGED])]).await;
}

/// Streams of a caller who leaves a group end. The caller is notified on return, and other callers are not.
#[tokio::test]
async fn group_removal_notifies_returning_caller() {
    let releasers = "\"release\", \"data\"";
    let mut stage = Stage::set(releasers).await;
    let more = "[prompts.more]\nmessages = [{ text = \"More.\" }]\n";
    let all = [("ann", &[PROMPTS_CHANGED][..]), ("bob", &[PROMPTS_CHANGED]), ("cid", &[PROMPTS_CHANGED])];
    stage.turn_to(releasers, &PEOPLE, more, &all).await;
    let place = stage.listeners[0].streams[0].last_id.clone().unwrap();

    // The rules treat Ann as another caller now, so her streams end.
    let moved = [("ann", ""), PEOPLE[1], PEOPLE[2]];
    stage.put(&config(releasers, &moved, &format!("{}{more}", stage.marks))).await;
    let mut ann = stage.listeners.remove(0);
    for stream in &mut ann.streams {
        super::ends(stream).await;
    }
    assert_eq!(tools(&ann.client).await, ["hello"]);
    let mut back = ann.client.listen_after(&place).await.unwrap();
    for method in BOTH {
        assert_eq!(hear(&mut back).await["method"], *method);
    }
    let modern = Modern::without_tasks(stage.server.url()).with_key("key-of-ann");
    let (again, _) = modern.subscribe(json!({"promptsListChanged": true})).await.unwrap();
    stage.listeners.push(Listener { streams: [back, again], ..ann });
    stage.turn_to(releasers, &moved, "", &all).await;
}
