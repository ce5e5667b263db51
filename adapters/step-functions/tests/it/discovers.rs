//! Tests of state machines as tools: their descriptions, the filter, and the number of calls.

use std::collections::HashSet;

use aws_sdk_sfn::types::StateMachineType;
use serde_json::{Value, json};
use taskbridge_sdk::suite::{fresh_key, job};
use taskbridge_sdk::{DiscoveredTool, Error, ErrorKind};

use crate::harness::proxy::Fault;
use crate::harness::standin::Kind;
use crate::harness::world::{World, output, poll_until_ended};

const BOTH: [Kind; 2] = [Kind::LocalStack, Kind::MiniStack];
/// `{"type":"object","properties":{"rows":{"type":"integer"}}}`
const SCHEMA_BASE64: &str =
    "eyJ0eXBlIjoib2JqZWN0IiwicHJvcGVydGllcyI6eyJyb3dzIjp7InR5cGUiOiJpbnRlZ2VyIn19fQ==";

/// Returns a prefix for the names of machines of one test.
fn prefix() -> String {
    format!("d{}", &fresh_key().as_str()[3..13])
}

fn pass_definition(comment: &str) -> Value {
    json!({"Comment": comment, "StartAt": "First", "States": {"First": {"Type": "Pass", "End": true}}})
}

async fn discover(world: &World) -> Result<Vec<DiscoveredTool>, Error> {
    let mut tools = world.backend.abilities().discovery.unwrap().discover().await?;
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
        let filter =
            json!({"starting_with": prefix, "tags": {"tools": "", "team": "data"}, "input_schemas": schemas});
        let world = World::with(kind, json!({"discover": filter})).await;
        let tags = [("tools", "yes"), ("team", "data")];
        let fenced = "Builds it.\n```json\n{\"properties\": {\"day\": {\"type\": \"string\"}}}\n```";
        let (one, two) = SCHEMA_BASE64.split_at(40);
        let schema_tags = [
            ("taskbridge:description", "Counts rows."),
            ("taskbridge:input_schema", one),
            ("taskbridge:input_schema.2", two),
        ];
        let long = name(&"-very".repeat(13));
        let standard = StateMachineType::Standard;
        world.create_named(&name("-a"), pass_definition(fenced), standard.clone(), &tags).await;
        world
            .create_named(
                &name("-b"),
                pass_definition("Old."),
                standard.clone(),
                &[&tags[..], &schema_tags[..]].concat(),
            )
            .await;
        let mut quick = pass_definition("Quick.");
        quick["TimeoutSeconds"] = json!(60);
        world.create_named(&name("-c"), quick, StateMachineType::Express, &tags).await;
        world.create_named(&name("-d"), pass_definition(fenced), standard.clone(), &tags).await;
        world.create_named(&name("-e"), pass_definition("Broken. ```{```"), standard.clone(), &tags).await;
        world.create_named(&name("-f"), pass_definition("Not ours."), standard.clone(), &tags[..1]).await;
        world.create_named(&long, pass_definition("Long."), standard.clone(), &tags).await;
        world.create_named(&format!("x{prefix}"), pass_definition("Of others."), standard, &tags).await;

        let tools = discover(&world).await.unwrap();
        assert_eq!(tools.len(), 5, "{kind:?}: {:?}", names(&tools));
        let find_tool = |rest: &str| tools.iter().find(|tool| tool.name == name(rest)).unwrap();
        assert_eq!(find_tool("-a").description.as_deref(), Some("Builds it."));
        assert_eq!(find_tool("-a").input_schema["properties"], json!({"day": {"type": "string"}}));
        assert_eq!(find_tool("-b").description.as_deref(), Some("Counts rows."));
        assert_eq!(find_tool("-b").input_schema["properties"], json!({"rows": {"type": "integer"}}));
        let quick = find_tool("-c").description.as_deref().unwrap();
        assert!(quick.starts_with("Quick.") && quick.contains("uncertain"), "{quick}");
        assert_eq!(find_tool("-d").input_schema["properties"], json!({"of": {"const": "config"}}));
        let truncated = tools.iter().find(|tool| tool.name.contains("-very")).unwrap();
        assert_eq!((truncated.name.len(), long.len() > 64), (64, true));
        assert_eq!(discover(&world).await.unwrap(), tools, "a repeated discovery returns the same tools");
        for tool in [find_tool("-a"), truncated] {
            let job = job(tool.target.clone(), json!({"day": "today"}));
            let handle = world.backend.start(&job).await.unwrap().handle;
            let observation = poll_until_ended(&*world.backend, &handle).await;
            assert_eq!(output(&observation).structured, Some(json!({"day": "today"})), "{kind:?}");
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
        let arn = world.create_named(&name, pass_definition("One."), StateMachineType::Standard, &[]).await;
        items.push(json!({"stateMachineArn": arn, "name": name, "type": "STANDARD", "creationDate": 1.5e9}));
    }
    let page = |items: &[Value], next: Option<&str>| {
        Fault::Response(json!({"stateMachines": items, "nextToken": next}))
    };
    for (reads, comment) in [(12, "One."), (10, "One."), (10, "One.")] {
        world.proxy.inject("ListStateMachines", page(&items[..7], Some("more")));
        world.proxy.inject("ListStateMachines", page(&items[7..], None));
        let tools = discover(&world).await.unwrap();
        assert_eq!(tools.len(), 12, "{:?}", names(&tools));
        assert!(tools.iter().all(|tool| tool.description.as_deref() == Some(comment)));
        let counts = world.proxy.take_counts();
        assert_eq!(counts.get("ListStateMachines"), Some(&2), "{counts:?}");
        assert_eq!(counts.get("ListTagsForResource"), Some(&reads), "{counts:?}");
        assert_eq!(counts.get("DescribeStateMachine"), Some(&reads), "{counts:?}");
    }
    // A replaced machine is read immediately. A machine that is no longer listed is removed.
    items[0]["creationDate"] = json!(1.6e9);
    world.proxy.inject("ListStateMachines", page(&items[..11], None));
    assert_eq!(discover(&world).await.unwrap().len(), 11);
    assert_eq!(world.proxy.take_counts().get("DescribeStateMachine"), Some(&11));
}

/// Machines beyond the quota of calls are read by a later discovery. No machine is left out.
#[tokio::test(flavor = "multi_thread")]
async fn discovery_beyond_quota_continues_later() {
    let prefix = prefix();
    let quotas = json!({"ListTagsForResource": {"burst": 3, "per_second": 0.5}});
    let world = World::with(
        Kind::MiniStack,
        json!({
            "discover": {"starting_with": prefix, "tags": {"ours": ""}}, "quotas": quotas,
        }),
    )
    .await;
    for n in 0..8 {
        world
            .create_named(
                &format!("{prefix}-{n}"),
                pass_definition(""),
                StateMachineType::Standard,
                &[("ours", "x")],
            )
            .await;
    }
    let mut refusals = 0;
    let tools = loop {
        match discover(&world).await {
            Ok(tools) => break tools,
            Err(error) => {
                let ErrorKind::Limited { after: Some(after) } = error.kind() else { panic!("{error}") };
                assert!(error.to_string().contains("ListTagsForResource"), "{error}");
                refusals += 1;
                tokio::time::sleep(after).await;
            }
        }
    };
    assert_eq!((tools.len(), refusals > 0), (8, true));
    // Machines that were read before a refusal are not read first again: otherwise a burst of three calls
    // would never reach all eight.
    let requests =
        world.proxy.take_requests().into_iter().filter(|request| request.operation == "ListTagsForResource");
    let first: HashSet<Vec<u8>> = requests.take(8).map(|request| request.body).collect();
    assert_eq!(first.len(), 8, "each is read once before any is read again");
    // If tags do not filter, machines are offered without them.
    let no_quota = json!({"ListTagsForResource": {"burst": 1, "per_second": 0.001}});
    let limited_backend =
        world.connect_another(json!({"discover": {"starting_with": prefix}, "quotas": no_quota})).await;
    assert_eq!(limited_backend.abilities().discovery.unwrap().discover().await.unwrap().len(), 8);
}

/// The error names the denied call. Denied tags are an error only if tags filter the machines.
#[tokio::test(flavor = "multi_thread")]
async fn discovery_error_names_denied_call() {
    let prefix = prefix();
    let world = World::with(Kind::MiniStack, json!({"discover": {"starting_with": prefix}})).await;
    world.create_named(&prefix, pass_definition("One."), StateMachineType::Standard, &[]).await;
    let denied = |message| Fault::ErrorResponse(400, "AccessDeniedException", message);
    world.proxy.inject("ListTagsForResource", denied("no tags"));
    assert_eq!(names(&discover(&world).await.unwrap()), [&prefix], "tags are optional without a filter");
    for (operation, message) in [("ListStateMachines", "no lists"), ("DescribeStateMachine", "no looks")] {
        world.proxy.inject(operation, denied(message));
        let error = discover(&world).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert_eq!(error.to_string(), format!("{operation}: AccessDeniedException: {message}"));
    }
    let filtered =
        world.connect_another(json!({"discover": {"starting_with": prefix, "tags": {"a": "b"}}})).await;
    world.proxy.inject("ListTagsForResource", denied("no tags"));
    let error = filtered.abilities().discovery.unwrap().discover().await.unwrap_err();
    assert_eq!(error.to_string(), "ListTagsForResource: AccessDeniedException: no tags");
}
