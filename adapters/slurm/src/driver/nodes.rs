//! The nodes of a cluster, as far as they decide whether a job could ever run. Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::notation::directives::Options;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// All properties that a job can request. Equal nodes have equal configurations.
    configuration: Vec<String>,
    /// False while the node is down, drained or powered off, and until it has registered.
    is_available: bool,
}

/// The fields of `scontrol show node` that a job can request.
const CONFIGURATION_FIELDS: [&str; 12] = [
    "Partitions",
    "CPUTot",
    "CPUEfctv",
    "Boards",
    "Sockets",
    "CoresPerSocket",
    "ThreadsPerCore",
    "RealMemory",
    "TmpDisk",
    "Gres",
    "AvailableFeatures",
    "CfgTRES",
];

/// States and flags in which a node runs jobs now, or will run them after the current ones.
const AVAILABLE_STATES: [&str; 8] =
    ["IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "RESERVED", "CLOUD", "DYNAMIC_NORM"];

/// Options by which a job may need several nodes, or specific ones.
const MULTI_NODE_OPTIONS: [&str; 8] =
    ["nodes", "ntasks", "gpus", "nodelist", "nodefile", "exclude", "reservation", "extra-node-info"];

/// Parses the output of `scontrol --oneliner show node`.
pub(crate) fn nodes(text: &str) -> Vec<Node> {
    text.lines().filter(|line| line.contains("NodeName=")).map(node).collect()
}

fn node(line: &str) -> Node {
    let field_value = |name: &str| {
        let fields = line.split_whitespace().filter_map(|word| word.split_once('='));
        fields.into_iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    };
    let configuration =
        CONFIGURATION_FIELDS.iter().map(|name| field_value(name).unwrap_or_default().to_owned()).collect();
    let is_up = field_value("State")
        .is_some_and(|state| state.split('+').all(|part| AVAILABLE_STATES.contains(&part)));
    Node { configuration, is_available: is_up && has_registered(field_value("SlurmdStartTime")) }
}

/// A controller that has restarted shows a node in its saved state. Until the node registers, the start time
/// of its slurmd is `None`, and every test of a job fails. A line without the field counts as registered.
fn has_registered(slurmd_start_time: Option<&str>) -> bool {
    slurmd_start_time != Some("None")
}

/// Returns true if Slurm may have rejected the test of a job only because nodes are unavailable: it tests
/// with the nodes that are up. An unavailable node does not matter if a node with the same configuration is
/// up and the job needs only one node. Also true if no nodes are known.
pub(crate) fn unavailable_nodes_may_matter(nodes: &[Node], options: &Options) -> bool {
    let available: BTreeSet<&[String]> =
        nodes.iter().filter(|node| node.is_available).map(|node| node.configuration.as_slice()).collect();
    let mut unavailable = nodes.iter().filter(|node| !node.is_available).peekable();
    if unavailable.peek().is_none() {
        return nodes.is_empty();
    }
    let needs_several = options
        .iter()
        .any(|(name, value)| MULTI_NODE_OPTIONS.contains(&name.as_str()) && value.as_deref() != Some("1"));
    needs_several || unavailable.any(|node| !available.contains(node.configuration.as_slice()))
}

/// Returns a message if no node in slurmrestd's list has the requested amount of a generic resource (`gres`
/// or `gpus-per-node`). If the job requests partitions, only their nodes count.
pub(crate) fn missing_resource(body: &Value, options: &Options) -> Option<String> {
    let nodes: Vec<&Value> = body["nodes"].as_array()?.iter().collect();
    let partitions = options.get("partition").cloned().flatten();
    let is_in = |node: &&&Value| {
        let node_partitions = node["partitions"].as_array();
        partitions.as_ref().is_none_or(|names| {
            let mut names = names.split(',');
            names.any(|name| node_partitions.into_iter().flatten().any(|partition| partition == name))
        })
    };
    let nodes: Vec<&Value> = nodes.iter().filter(is_in).copied().collect();
    if nodes.is_empty() {
        return None;
    }
    let gres = options.get("gres").cloned().flatten();
    let gpus = options.get("gpus-per-node").cloned().flatten().map(|gpus| format!("gpu:{gpus}"));
    let requested: Vec<String> = gres.into_iter().chain(gpus).collect();
    requested.iter().flat_map(|list| list.split(',')).find_map(|entry| {
        let (name, count) = resource(entry)?;
        let amount = |node: &&Value| node_amount(node["gres"].as_str().unwrap_or_default(), &name);
        let largest = nodes.iter().map(amount).max()?;
        (largest < count).then(|| format!("no node has `{entry}`, the most is {largest}"))
    })
}

/// Parses `gpu:2` or `gpu:a100:2` into the resource, with its type if it has one, and its count.
fn resource(text: &str) -> Option<(String, u64)> {
    let text = text.trim().trim_start_matches("gres:").split('(').next()?;
    let parts: Vec<&str> = text.split([':', '=']).collect();
    let trailing_count = parts.last()?.parse::<u64>().ok();
    match (parts.as_slice(), trailing_count) {
        ([name, _], Some(count)) => Some(((*name).to_owned(), count)),
        ([name, kind, _], Some(count)) => Some((format!("{name}:{kind}"), count)),
        ([name] | [name, _], None) if !name.is_empty() => Some((text.to_owned(), 1)),
        _ => None,
    }
}

/// Returns the amount of a resource that a node has: `gpu:a100:4(S:0-1),shard:8`.
fn node_amount(gres: &str, resource_name: &str) -> u64 {
    let matches_name = |name: &str| name == resource_name || name.split(':').next() == Some(resource_name);
    gres.split(',').filter_map(resource).filter(|(name, _)| matches_name(name)).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options(requested: &[(&str, &str)]) -> Options {
        requested.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
    }

    #[test]
    fn absent_node_matters_without_twin() {
        let node = |state: &str, gres: &str| {
            format!(
                "NodeName=n Arch=x86_64 CPUTot=4 Gres={gres} RealMemory=400 State={state} Partitions=main OS=Linux 6.1 #1"
            )
        };
        let all = |lines: &[String]| nodes(&lines.join("\n"));
        let gpu = options(&[("gres", "gpu:8"), ("nodes", "1")]);
        for (lines, requested, matters) in [
            (vec![node("IDLE", "gpu:4"), node("MIXED+PLANNED", "gpu:4")], gpu.clone(), false),
            (vec![node("IDLE", "gpu:4"), node("IDLE+DRAIN", "gpu:4")], gpu.clone(), false),
            (vec![node("IDLE", "gpu:4"), node("DOWN*", "gpu:8")], gpu.clone(), true),
            (vec![node("IDLE*", "gpu:8")], gpu.clone(), true),
            (vec![node("IDLE", "gpu:4"), node("IDLE+DRAIN", "gpu:4")], options(&[("nodes", "2")]), true),
            (vec![node("IDLE", "gpu:4")], options(&[("nodes", "2")]), false),
            // Recorded from Slurm 22.05, two seconds after a restart of the controller.
            (vec![node("MIXED BootTime=None SlurmdStartTime=None", "gpu:4")], gpu.clone(), true),
            (vec![node("MIXED SlurmdStartTime=2026-11-26T01:10:23", "gpu:4")], gpu.clone(), false),
            (Vec::new(), gpu.clone(), true),
        ] {
            assert_eq!(
                unavailable_nodes_may_matter(&all(&lines), &requested),
                matters,
                "{lines:?} {requested:?}"
            );
        }
    }

    #[test]
    fn lacking_resource_is_named() {
        let body = json!({"nodes": [
            {"partitions": ["main"], "gres": "gpu:a100:2(S:0-1),gpu:v100:4,shard:8"},
            {"partitions": ["short"], "gres": "gpu:16"},
        ]});
        let main = ("partition", "main");
        for (requested, expected) in [
            (vec![main, ("gres", "gpu:7")], Some("no node has `gpu:7`, the most is 6")),
            (vec![main, ("gres", "gpu:6,shard:8")], None),
            (vec![main, ("gres", "gpu:a100:3")], Some("no node has `gpu:a100:3`, the most is 2")),
            (vec![main, ("gpus-per-node", "a100:3")], Some("no node has `gpu:a100:3`, the most is 2")),
            (vec![main, ("gres", "tpu")], Some("no node has `tpu`, the most is 0")),
            (vec![("partition", "main,short"), ("gres", "gpu:16")], None),
            (vec![("gres", "gpu:17")], Some("no node has `gpu:17`, the most is 16")),
            (vec![("partition", "unknown"), ("gres", "gpu:17")], None),
            (vec![("mem", "1T")], None),
        ] {
            assert_eq!(missing_resource(&body, &options(&requested)).as_deref(), expected, "{requested:?}");
        }
    }
}
