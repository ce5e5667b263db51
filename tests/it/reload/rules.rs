//! Rules about who may call what are replaced while people listen: whoever has another list now hears of it, on both
//! generations' streams, and nobody else hears anything.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{hear, logged_again, tools};
use crate::support::{BASICS, Client, Events, Modern, Place, Server};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";

/// A tool for all and one for a group, and a resource that only those know of who may call the latter.
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

/// The people, and the groups that each is in.
const PEOPLE: [(&str, &str); 3] = [("ann", "\"release\""), ("bob", "\"data\""), ("cid", "")];

/// A config in which these groups may release, with people in these groups, and what else there is in it.
fn config(releasers: &str, people: &[(&str, &str)], more: &str) -> String {
    let key = |(name, groups): &(&str, &str)| {
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(format!("key-of-{name}")));
        format!("[[auth.keys]]\nprincipal = \"{name}\"\nsha256 = \"{digest}\"\ngroups = [{groups}]\n")
    };
    let basics = BASICS.replace("single_user = true", "mode = \"api_keys\"");
    let keys: String = people.iter().map(key).collect();
    format!("{basics}{keys}{}{more}", TOOLS.replace("RELEASERS", releasers))
}

/// Somebody who listens in a session and by a subscription.
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

    /// What each of both streams says next must be these, in this order.
    async fn hears(&mut self, methods: &[&str]) {
        for stream in &mut self.streams {
            for method in methods {
                assert_eq!(hear(stream).await["method"], *method, "{}", self.name);
            }
        }
    }
}

/// A server, and everybody who listens to it.
struct Stage {
    /// It is stopped before its place is looked over.
    server: Server,
    place: Place,
    listeners: Vec<Listener>,
    /// How often the config was replaced.
    reloads: usize,
    /// The prompts that say to all that they have heard what came before.
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

    /// Puts this config in force, of which these people must hear what is said beside their names, and the others nothing: the
    /// next that everybody hears of is a prompt that is there for all.
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

    /// The tools that each is told of.
    async fn lists(&self) -> Value {
        let mut lists = json!({});
        for listener in &self.listeners {
            lists[listener.name] = json!(tools(&listener.client).await);
        }
        lists
    }
}

/// What is heard of a tool and the resource that goes with it.
const BOTH: &[&str] = &[TOOLS_CHANGED, RESOURCES_CHANGED];

#[tokio::test]
async fn a_rule_that_is_replaced_is_heard_of_by_those_whose_lists_it_changes_and_by_nobody_else() {
    let mut stage = Stage::set("\"release\"").await;
    let all = json!(["hello", "release"]);
    assert_eq!(stage.lists().await, json!({"ann": all, "bob": ["hello"], "cid": ["hello"]}));

    // A tool is given to a group.
    stage.turn_to("\"release\", \"data\"", &PEOPLE, "", &[("bob", BOTH)]).await;
    assert_eq!(stage.lists().await, json!({"ann": all, "bob": all, "cid": ["hello"]}));

    // It is taken from another.
    stage.turn_to("\"data\"", &PEOPLE, "", &[("ann", BOTH)]).await;
    assert_eq!(stage.lists().await, json!({"ann": ["hello"], "bob": all, "cid": ["hello"]}));

    // Who may cancel is in no list.
    let cancel = "[tools.release.access.cancel]\ngroups = [\"release\"]\n";
    stage.turn_to("\"data\"", &PEOPLE, cancel, &[]).await;

    // A rule for all tools that say nothing themselves: one has none left.
    let general = "[access]\ncall = { groups = [\"release\", \"data\"] }\n";
    stage.turn_to("\"data\"", &PEOPLE, general, &[("cid", &[TOOLS_CHANGED])]).await;
    assert_eq!(stage.lists().await, json!({"ann": ["hello"], "bob": all, "cid": []}));

    // What is new about a tool is nothing to whom it is not offered.
    let described = format!("{general}[tools.release.parameters.channel]\ntype = \"string\"\n");
    stage.turn_to("\"data\"", &PEOPLE, &described, &[("bob", &[TOOLS_CHANGED])]).await;
}

#[tokio::test]
async fn who_is_taken_out_of_a_group_hears_when_they_come_back_and_nobody_else_does() {
    let releasers = "\"release\", \"data\"";
    let mut stage = Stage::set(releasers).await;
    let more = "[prompts.more]\nmessages = [{ text = \"More.\" }]\n";
    let all = [("ann", &[PROMPTS_CHANGED][..]), ("bob", &[PROMPTS_CHANGED]), ("cid", &[PROMPTS_CHANGED])];
    stage.turn_to(releasers, &PEOPLE, more, &all).await;
    let place = stage.listeners[0].streams[0].last_id.clone().unwrap();

    // Ann is somebody else now to the rules, so her streams end.
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
