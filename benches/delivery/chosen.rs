//! Which scenarios are run.

/// What the command line chooses.
pub(crate) struct Chosen {
    words: Vec<String>,
    left_out: Vec<String>,
}

impl Chosen {
    /// As Rust's test harness reads it, so that `cargo test WORD` means the same here; its other options are not for us.
    pub(crate) fn read(arguments: &[String]) -> Self {
        let mut chosen = Self { words: vec![], left_out: vec![] };
        let mut arguments = arguments.iter().cloned();
        while let Some(argument) = arguments.next() {
            if argument == "--skip" {
                chosen.left_out.extend(arguments.next());
            } else if !argument.starts_with('-') {
                chosen.words.push(argument);
            }
        }
        chosen
    }

    /// Whether what has this name is run.
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_named = |words: &[String]| words.iter().any(|word| name.contains(word.as_str()));
        (self.words.is_empty() || is_named(&self.words)) && !is_named(&self.left_out)
    }
}
