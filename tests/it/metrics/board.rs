//! Tests that the dashboard and the alert rules of `deploy/` use existing metrics, labels and values: each
//! expression is parsed and checked against a live scrape and the documentation's table.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{CONFIG, MeteredApp, documented_metrics};
use crate::support::MetricsScrape;

/// Labels that Prometheus adds.
const PROMETHEUS_LABELS: [&str; 2] = ["job", "instance"];
const KEYWORDS: [&str; 10] =
    ["by", "without", "on", "ignoring", "group_left", "group_right", "bool", "and", "or", "unless"];

fn read(file: &str) -> String {
    std::fs::read_to_string(format!("{}/deploy/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// A metric with the labels and values that select it.
type Selector = (String, Vec<(String, String)>);

/// Returns what an expression names: metrics, and labels to group by.
fn referenced_names(expression: &str) -> (Vec<Selector>, BTreeSet<String>) {
    let (mut metrics, mut groups) = (Vec::<Selector>::new(), BTreeSet::new());
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_alphabetic() || c == '_' {
            let end =
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c))).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after.trim_start();
            let is_call = rest.starts_with('(');
            if KEYWORDS.contains(&word) {
                if is_call {
                    let (list, after) = rest[1..].split_once(')').unwrap();
                    groups.extend(list.split(',').map(|label| label.trim().to_owned()));
                    rest = after;
                }
            } else if !is_call && !KEYWORDS.iter().any(|keyword| rest.starts_with(&format!("{keyword} ("))) {
                metrics.push((word.to_owned(), Vec::new()));
            }
        } else if c == '{' {
            let (list, after) = rest[1..].split_once('}').unwrap();
            for matcher in list.split("\",").filter(|matcher| !matcher.trim().is_empty()) {
                let (label, value) = matcher.split_once('"').unwrap();
                let label = label.trim_end_matches(['=', '~', '!']).trim();
                let selector = metrics.last_mut().expect("labels stand behind a metric");
                selector.1.push((label.to_owned(), value.trim_end_matches('"').to_owned()));
            }
            rest = after;
        } else if c == '[' {
            rest = rest.split_once(']').unwrap().1;
        } else if c.is_ascii_digit() {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.');
        } else {
            rest = &rest[c.len_utf8()..];
        }
    }
    (metrics, groups)
}

/// The metrics that exist, to check expressions against.
struct KnownMetrics {
    numbers: MetricsScrape,
    /// The documentation of each family: its labels, and its meaning.
    families: BTreeMap<String, (BTreeSet<String>, String)>,
}

impl KnownMetrics {
    fn family(&self, metric: &str) -> Option<(&String, &(BTreeSet<String>, String))> {
        let endings = ["", "_total", "_info", "_bucket", "_sum", "_count"];
        self.families
            .iter()
            .find(|(name, _)| endings.iter().any(|ending| metric == format!("{name}{ending}")))
    }

    /// Returns the errors of an expression.
    fn errors(&self, expression: &str) -> Vec<String> {
        let (metrics, groups) = referenced_names(expression);
        let mut wrong = Vec::new();
        let mut labels: BTreeSet<String> = PROMETHEUS_LABELS.map(str::to_owned).into();
        for (metric, matchers) in metrics {
            if metric == "up" {
                continue;
            }
            let Some((family, (has, meaning))) = self.family(&metric) else {
                wrong.push(format!("{metric} is no metric"));
                continue;
            };
            let has_name = |(name, _, _): &(String, _, f64)| *name == metric;
            if !family.contains("budget") && !self.numbers.samples.iter().any(has_name) {
                wrong.push(format!("{metric} has no sample"));
            }
            labels.extend(has.iter().cloned());
            if metric.ends_with("_bucket") {
                labels.insert("le".to_owned());
            }
            for (label, value) in matchers {
                if !has.contains(&label) && !PROMETHEUS_LABELS.contains(&label.as_str()) {
                    wrong.push(format!("{metric} has no label {label}"));
                }
                for value in
                    value.split('|').filter(|value| !value.starts_with('$') && *value != "taskbridge")
                {
                    if !meaning.contains(value) && !self.numbers.values(&label).contains(value) {
                        wrong.push(format!("{metric}: {label} is never {value}"));
                    }
                }
            }
        }
        let unknown = groups.difference(&labels).map(|label| format!("nothing has the label {label}"));
        wrong.extend(unknown);
        wrong
    }
}

/// Returns all expressions of the dashboard and of the rules.
fn expressions() -> Vec<String> {
    let board: Value = serde_json::from_str(&read("grafana/taskbridge.json")).unwrap();
    let targets = board["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    let mut all: Vec<String> =
        targets.flatten().map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    let variables = board["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|variable| variable["type"] == "datasource"), "it asks which Prometheus");
    for variable in variables.iter().filter_map(|variable| variable["query"]["query"].as_str()) {
        let inner = variable.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
        let (metric, label) = inner.split_once(", ").unwrap();
        all.push(format!("sum by ({label}) ({metric})"));
    }
    let rules: Value = serde_saphyr::from_str(&read("prometheus/alerts.yml")).unwrap();
    for rule in
        rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap())
    {
        assert!(rule["alert"].is_string() && rule["annotations"]["summary"].is_string(), "{rule}");
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("warning" | "critical")), "{rule}");
        all.push(rule["expr"].as_str().unwrap().to_owned());
    }
    assert!(all.len() > 50, "{}", all.len());
    all
}

#[test]
fn what_an_expression_names_is_found() {
    let (metrics, groups) =
        referenced_names(r#"max(a_total{x="1",y=~"2|3"}) / sum by (le, z) (rate(b[5m])) > 0.5e3"#);
    let matcher = |label: &str, value: &str| (label.to_owned(), value.to_owned());
    assert_eq!(
        metrics,
        [("a_total".to_owned(), vec![matcher("x", "1"), matcher("y", "2|3")]), ("b".to_owned(), vec![])]
    );
    assert_eq!(groups, BTreeSet::from(["le".to_owned(), "z".to_owned()]));
}

#[tokio::test]
async fn dashboard_and_alerts_use_existing_metrics() {
    let metered = MeteredApp::start(CONFIG);
    let client = metered.app.client().await;
    client.call("hello", json!({})).await.unwrap();
    metered.wait_for_poll(&client).await;
    let far = client.start("far", json!({})).await.unwrap();
    client.cancel(&far).await.unwrap();
    let has_tasks = |numbers: &MetricsScrape| numbers.sum("taskbridge_tasks_kept", &[]) >= 1.0;
    let numbers = metered.wait_for("it counts", has_tasks).await;
    let families = documented_metrics().into_iter().map(|row| {
        let labels = row.labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        (row.name, (labels, row.meaning))
    });
    let known = KnownMetrics { numbers, families: families.collect() };
    for invalid in [
        "sum(taskbridge_made_up)",
        "sum by (owner) (taskbridge_tasks)",
        "taskbridge_tasks{outcome=\"x\"}",
        "taskbridge_tasks_ended_total{outcome=\"brokn\"}",
    ] {
        assert!(!known.errors(invalid).is_empty(), "{invalid}");
    }
    let all = expressions();
    let errors: Vec<String> = all
        .iter()
        .flat_map(|expression| {
            known.errors(expression).into_iter().map(move |error| format!("{error}: {expression}"))
        })
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    // Every metric is shown or watched somewhere.
    let used: BTreeSet<String> =
        all.iter().flat_map(|expression| referenced_names(expression).0).map(|(name, _)| name).collect();
    let unused: Vec<&String> = known
        .families
        .keys()
        .filter(|family| {
            !used
                .iter()
                .any(|name| known.family(name).is_some_and(|(known_family, _)| known_family == *family))
        })
        .collect();
    assert_eq!(unused, ["process_start_time_seconds"]);
}
