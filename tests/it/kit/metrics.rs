//! Reads the text that `/metrics` answers.

use std::collections::BTreeMap;

/// One scrape.
#[derive(Debug)]
pub(crate) struct Metrics(Vec<Sample>);

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Reads the Prometheus text format.
    ///
    /// # Panics
    /// When a line is not of that format.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(|line| Sample::parse(line).unwrap_or_else(|| panic!("no sample: {line:?}"))).collect())
    }

    /// The sum of all samples of `dispatcher_<name>` whose labels hold these; 0 when there is none.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).fold(0.0, |sum, sample| sum + sample.value)
    }

    /// Whether `dispatcher_<name>` is there at all.
    pub(crate) fn has(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        self.matching(name, labels).next().is_some()
    }

    fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.0.iter().filter(move |sample| {
            sample.name.strip_prefix("dispatcher_") == Some(name)
                && labels.iter().all(|(key, value)| sample.labels.get(*key).is_some_and(|is| is == value))
        })
    }
}

impl Sample {
    fn parse(line: &str) -> Option<Self> {
        let (series, value) = line.rsplit_once(' ')?;
        let value = match value {
            "+Inf" => f64::INFINITY,
            number => number.parse().ok()?,
        };
        let (name, labels) = match series.split_once('{') {
            None => (series, BTreeMap::new()),
            Some((name, rest)) => (name, labels_of(rest.strip_suffix('}')?)?),
        };
        Some(Self { name: name.to_owned(), labels, value })
    }
}

/// `a="x",b="y"`; a value may hold escaped quotes, and commas.
fn labels_of(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next()? {
                (_, '\\') => value.push(characters.next()?.1),
                (at, '"') => break at,
                (_, character) => value.push(character),
            }
        };
        labels.insert(key.to_owned(), value);
        text = rest[end + 1..].trim_start_matches(',');
    }
    Some(labels)
}

#[test]
fn sums_by_label() {
    let metrics = Metrics::parse(
        "# HELP dispatcher_deliveries_total Attempts\n\
         dispatcher_deliveries_total{outcome=\"failed\",reason=\"say \\\"no\\\", twice\"} 2\n\
         dispatcher_deliveries_total{outcome=\"failed\",reason=\"timeout\"} 3\n\
         dispatcher_in_flight 1\n",
    );
    assert_eq!(metrics.sum("deliveries_total", &[("outcome", "failed")]), 5.0);
    assert_eq!(metrics.sum("deliveries_total", &[("reason", "say \"no\", twice")]), 2.0);
    assert_eq!(metrics.sum("in_flight", &[]), 1.0);
    assert!(!metrics.has("in_flight", &[("stream", "source")]));
}
