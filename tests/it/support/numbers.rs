//! [`MetricsScrape`]: one scrape of `/metrics`, parsed by the rules of the OpenMetrics text format. A
//! violation fails the test.

use std::collections::{BTreeMap, BTreeSet};

/// Labels with their values.
pub(crate) type Labels = BTreeMap<String, String>;

/// One scrape.
#[derive(Debug)]
pub(crate) struct MetricsScrape {
    /// The type of each family.
    pub(crate) families: BTreeMap<String, String>,
    /// The help text of each family.
    pub(crate) help: BTreeMap<String, String>,
    /// Each sample: its name, its labels and its value.
    pub(crate) samples: Vec<(String, Labels, f64)>,
}

impl MetricsScrape {
    /// Reads the page at this address, which must exist.
    pub(crate) async fn read(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let response = client.get(url).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(response.headers()["content-type"], kind);
        Self::parse(&response.text().await.unwrap())
    }

    fn parse(text: &str) -> Self {
        let (mut families, mut help) = (BTreeMap::new(), BTreeMap::new());
        let mut samples: Vec<(String, Labels, f64)> = Vec::new();
        let mut current = String::new();
        let body = text.strip_suffix("# EOF\n").expect("it ends as it must");
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# ") {
                let (word, rest) = rest.split_once(' ').unwrap();
                let (name, rest) = rest.split_once(' ').unwrap();
                match word {
                    "HELP" => assert!(help.insert(name.to_owned(), rest.to_owned()).is_none(), "{line}"),
                    "TYPE" => assert!(families.insert(name.to_owned(), rest.to_owned()).is_none(), "{line}"),
                    "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                    _ => panic!("{line}"),
                }
                name.clone_into(&mut current);
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, self::labels(labels.strip_suffix('}').unwrap())),
                None => (series, Labels::new()),
            };
            let endings: &[&str] = match families[&current].as_str() {
                "counter" => &["_total"],
                "gauge" => &[""],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("{other}: {line}"),
            };
            assert!(
                endings.iter().any(|ending| name == format!("{current}{ending}")),
                "{line} under {current}"
            );
            samples.push((name.to_owned(), labels, value.parse().unwrap()));
        }
        let distinct: BTreeSet<_> = samples.iter().map(|(name, labels, _)| (name, labels)).collect();
        assert_eq!(distinct.len(), samples.len(), "a series is there twice");
        let scrape = Self { families, help, samples };
        scrape.check_histograms();
        scrape
    }

    /// Panics unless buckets are cumulative and the last one contains everything.
    fn check_histograms(&self) {
        let histograms = self.families.iter().filter(|(_, kind)| *kind == "histogram");
        for (name, _) in histograms {
            for (_, labels, count) in self.samples.iter().filter(|(n, _, _)| *n == format!("{name}_count")) {
                let matches = |with: &Labels| labels.iter().all(|(key, value)| with.get(key) == Some(value));
                let mut buckets = self
                    .samples
                    .iter()
                    .filter(|(n, with, _)| *n == format!("{name}_bucket") && matches(with));
                let values: Vec<f64> = buckets.clone().map(|(_, _, value)| *value).collect();
                assert!(values.is_sorted() && values.last() == Some(count), "{name} {labels:?}: {values:?}");
                assert_eq!(buckets.next_back().unwrap().1["le"], "+Inf");
            }
        }
    }

    /// Returns the sum of all samples of this name whose labels have these values; 0 if there are none.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let matches =
            |with: &Labels| labels.iter().all(|(key, value)| with.get(*key).is_some_and(|has| has == value));
        let matching = self.samples.iter().filter(|(sample, with, _)| sample == name && matches(with));
        matching.map(|(_, _, value)| value).sum()
    }

    /// Returns all values of a label.
    pub(crate) fn values(&self, label: &str) -> BTreeSet<&str> {
        self.samples.iter().filter_map(|(_, labels, _)| labels.get(label)).map(String::as_str).collect()
    }
}

fn labels(mut text: &str) -> Labels {
    let mut labels = Labels::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap();
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
        let (mut value, mut end, mut escaped) = (String::new(), None, false);
        for (at, c) in rest.char_indices() {
            match (escaped, c) {
                (true, 'n') => value.push('\n'),
                (true, '"' | '\\') => value.push(c),
                (true, _) => panic!("{text}"),
                (false, '"') => {
                    end = Some(at);
                    break;
                }
                (false, '\\') => {}
                (false, c) => value.push(c),
            }
            escaped = !escaped && c == '\\';
        }
        assert!(labels.insert(name.to_owned(), value).is_none(), "{text}");
        let rest = &rest[end.unwrap() + 1..];
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    labels
}
