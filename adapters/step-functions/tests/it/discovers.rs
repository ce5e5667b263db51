//! Tests of state machines as tools: their descriptions, the filter, and the number of calls.

use std::collections::HashSet;

use aws_sdk_sfn::types::StateMachineType;
use serde_json::{Value, json};
use taskbridge_sdk::suite::{fresh_key, job};
use taskbridge_sdk::{DiscoveredTool, Error, ErrorKind};

use crate::proxy::Fault;
use crate::standin::Kind;
use crate::world::{World, ended, output};

const BOTH: [Kind; 2] = [Kind::LocalStack, Kind::MiniStack];
/// `{"type":"object","properties":{"rows":{"type":"integer"}}}`
const IN_BASE64: &str = "eyJ0eXBlIjoib2JqZWN0IiwicHJvcGVydGllcyI6eyJyb3dzIjp7InR5cGUiOiJpbnRlZ2VyIn19fQ==";

/// Returns a prefix for the names of machines of one test.
fn prefix() -> String {
    format!("d{}", &fresh_key().as_str()[3..13])
}

fn passes(comment: &str) -> Value {
    json!({"Comment": comment, "StartAt": "First", "States": {"First": {"Type": "Pass", "End": true}}})
}

async fn discovered(world: &World) -> Result<Vec<DiscoveredTool>, Error> {
    let mut tools = world.backend.discovery().unwrap().discover().await?;
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tools)
}

fn names(tools: &[DiscoveredTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// Comment, tags and config define the description and the schema of a discovered machine.
#[tokio::test(flavor = "multi_thread")]
async fn discovered_machine_describes_its_own_tool() {
    for kind in BOTH {
        let prefix = prefix();
        let name = |rest: &str| format!("{prefix}{rest}");
        let schemas = json!({name("-d"): {"properties": {"of": {"const": "config"}}}});
        let wanted =
            json!({"starting_with": prefix, "tags": {"tools": "", "team": "data"}, "input_schemas": schemas});
        let world = World::with(kind, json!({"discover": wanted})).await;
        let ours = [("tools", "yes"), ("team", "data")];
        let fenced = "Builds it.\n```json\n{\"properties\": {\"day\": {\"type\": \"string\"}}}\n```";
        let (one, two) = IN_BASE64.split_at(40);
        let tagged = [
            ("taskbridge:description", "Counts rows."),
            ("taskbridge:input_schema", one),
            ("taskbridge:input_schema.2", two),
        ];
        let long = name(&"-very".repeat(13));
        let standard = StateMachineType::Standard;
        world.named(&name("-a"), passes(fenced), standard.clone(), &ours).await;
        world.named(&name("-b"), passes("Old."), standard.clone(), &[&ours[..], &tagged[..]].concat()).await;
        let mut quick = passes("Quick.");
        quick["TimeoutSeconds"] = json!(60);
        world.named(&name("-c"), quick, StateMachineType::Express, &ours).await;
        world.named(&name("-d"), passes(fenced), standard.clone(), &ours).await;
        world.named(&name("-e"), passes("Broken. ```{```"), standard.clone(), &ours).await;
        world.named(&name("-f"), passes("Not ours."), standard.clone(), &ours[..1]).await;
        world.named(&long, passes("Long."), standard.clone(), &ours).await;
        world.named(&format!("x{prefix}"), passes("Of others."), standard, &ours).await;

        let tools = discovered(&world).await.unwrap();
        assert_eq!(tools.len(), 5, "{kind:?}: {:?}", names(&tools));
        let of = |rest: &str| tools.iter().find(|tool| tool.name == name(rest)).unwrap();
        assert_eq!(of("-a").description.as_deref(), Some("Builds it."));
        assert_eq!(of("-a").input_schema["properties"], json!({"day": {"type": "string"}}));
        assert_eq!(of("-b").description.as_deref(), Some("Counts rows."));
        assert_eq!(of("-b").input_schema["properties"], json!({"rows": {"type": "integer"}}));
        let quick = of("-c").description.as_deref().unwrap();
        assert!(quick.starts_with("Quick.") && quick.contains("uncertain"), "{quick}");
        assert_eq!(of("-d").input_schema["properties"], json!({"of": {"const": "config"}}));
        let cut = tools.iter().find(|tool| tool.name.contains("-very")).unwrap();
        assert_eq!((cut.name.len(), long.len() > 64), (64, true));
        assert_eq!(discovered(&world).await.unwrap(), tools, "they are the same the next time");
        for tool in [of("-a"), cut] {
            let job = job(tool.target.clone(), json!({"day": "today"}));
            let handle = world.backend.start(&job).await.unwrap().handle;
            let seen = ended(&*world.backend, &handle).await;
            assert_eq!(output(&seen).structured, Some(json!({"day": "today"})), "{kind:?}");
        }
    }
}

/// Discovery reads all pages of the list. Known machines are read again a few at a time.
#[tokio::test(flavor = "multi_thread")]
async fn discovery_rereads_known_machines_gradually() {
    let prefix = prefix();
    let world = World::with(Kind::MiniStack, json!({"discover": {"starting_with": prefix}})).await;
    let mut items = Vec::new();
    for n in 10..22 {
        let name = format!("{prefix}-{n}");
        let arn = world.named(&name, passes("One."), StateMachineType::Standard, &[]).await;
        items.push(json!({"stateMachineArn": arn, "name": name, "type": "STANDARD", "creationDate": 1.5e9}));
    }
    let page =
        |items: &[Value], next: Option<&str>| Fault::Told(json!({"stateMachines": items, "nextToken": next}));
    for (reads, comment) in [(12, "One."), (10, "One."), (10, "One.")] {
        world.proxy.make("ListStateMachines", page(&items[..7], Some("more")));
        world.proxy.make("ListStateMachines", page(&items[7..], None));
        let tools = discovered(&world).await.unwrap();
        assert_eq!(tools.len(), 12, "{:?}", names(&tools));
        assert!(tools.iter().all(|tool| tool.description.as_deref() == Some(comment)));
        let counts = world.proxy.counts();
        assert_eq!(counts.get("ListStateMachines"), Some(&2), "{counts:?}");
        assert_eq!(counts.get("ListTagsForResource"), Some(&reads), "{counts:?}");
        assert_eq!(counts.get("DescribeStateMachine"), Some(&reads), "{counts:?}");
    }
    // A replaced machine is read immediately. A machine that is no longer listed is removed.
    items[0]["creationDate"] = json!(1.6e9);
    world.proxy.make("ListStateMachines", page(&items[..11], None));
    assert_eq!(discovered(&world).await.unwrap().len(), 11);
    assert_eq!(world.proxy.counts().get("DescribeStateMachine"), Some(&11));
}

/// Machines beyond the quota of calls are read by a later discovery. No machine is left out.
#[tokio::test(flavor = "multi_thread")]
async fn discovery_beyond_quota_continues_later() {
    let prefix = prefix();
    let slow = json!({"ListTagsForResource": {"burst": 3, "per_second": 20.0}});
    let world = World::with(
        Kind::MiniStack,
        json!({
            "discover": {"starting_with": prefix, "tags": {"ours": ""}}, "quotas": slow,
        }),
    )
    .await;
    for n in 0..8 {
        world.named(&format!("{prefix}-{n}"), passes(""), StateMachineType::Standard, &[("ours", "x")]).await;
    }
    let mut refused = 0;
    let tools = loop {
        match discovered(&world).await {
            Ok(tools) => break tools,
            Err(error) => {
                let ErrorKind::Limited { after: Some(after) } = error.kind() else { panic!("{error}") };
                assert!(error.to_string().contains("ListTagsForResource"), "{error}");
                refused += 1;
                tokio::time::sleep(after).await;
            }
        }
    };
    assert_eq!((tools.len(), refused > 0), (8, true));
    // Machines that were read before a refusal are not read first again: otherwise a burst of three calls
    // would never reach all eight.
    let asked = world.proxy.asked().into_iter().filter(|asked| asked.operation == "ListTagsForResource");
    let first: HashSet<Vec<u8>> = asked.take(8).map(|asked| asked.body).collect();
    assert_eq!(first.len(), 8, "each once, before any is read again");
    // If tags do not filter, machines are offered without them.
    let none = json!({"ListTagsForResource": {"burst": 1, "per_second": 0.001}});
    let hasty = world.another(json!({"discover": {"starting_with": prefix}, "quotas": none})).await;
    assert_eq!(hasty.discovery().unwrap().discover().await.unwrap().len(), 8);
}

/// The error names the denied call. Denied tags are an error only if tags filter the machines.
#[tokio::test(flavor = "multi_thread")]
async fn discovery_error_names_denied_call() {
    let prefix = prefix();
    let world = World::with(Kind::MiniStack, json!({"discover": {"starting_with": prefix}})).await;
    world.named(&prefix, passes("One."), StateMachineType::Standard, &[]).await;
    let denied = |words| Fault::Answered(400, "AccessDeniedException", words);
    world.proxy.make("ListTagsForResource", denied("no tags"));
    assert_eq!(names(&discovered(&world).await.unwrap()), [&prefix], "tags only say more about it");
    for (operation, words) in [("ListStateMachines", "no lists"), ("DescribeStateMachine", "no looks")] {
        world.proxy.make(operation, denied(words));
        let error = discovered(&world).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert_eq!(error.to_string(), format!("{operation}: AccessDeniedException: {words}"));
    }
    let filtered = world.another(json!({"discover": {"starting_with": prefix, "tags": {"a": "b"}}})).await;
    world.proxy.make("ListTagsForResource", denied("no tags"));
    let error = filtered.discovery().unwrap().discover().await.unwrap_err();
    assert_eq!(error.to_string(), "ListTagsForResource: AccessDeniedException: no tags");
}
