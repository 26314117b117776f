//! Which changes a client wants.

use crate::domain::change_event::Op;

/// Which changes a client wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Empty: everything.
    pub include: Vec<Pattern>,
    /// Wins over `include`.
    pub exclude: Vec<Pattern>,
    /// Empty: all operations. Judged after a revocation became a delete.
    pub ops: Vec<Op>,
}

impl Filter {
    /// Whether a change is wanted. Patterns are matched against the db without `<mongo_prefix>-`.
    pub fn admits(&self, db: &str, collection: &str, op: Op, mongo_prefix: &str) -> bool {
        let db = without_prefix(db, mongo_prefix);
        let named = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(db, collection));
        (self.ops.is_empty() || self.ops.contains(&op))
            && (self.include.is_empty() || named(&self.include))
            && !named(&self.exclude)
    }
}

/// The name of a db without the platform's `<prefix>-`.
fn without_prefix<'a>(db: &'a str, prefix: &str) -> &'a str {
    match db.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')) {
        Some(rest) if !prefix.is_empty() => rest,
        _ => db,
    }
}

/// A pattern `<db>.<collection>`, where `*` stands for any characters; `*` alone is everything. A db has no
/// dot in its name, a collection may have some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    db: String,
    collection: String,
}

impl Pattern {
    /// Reads a pattern; `None` when it is none.
    pub fn read(text: &str) -> Option<Self> {
        let (db, collection) = if text == "*" { ("*", "*") } else { text.split_once('.')? };
        let whole = !db.is_empty() && !collection.is_empty();
        whole.then(|| Self { db: db.to_owned(), collection: collection.to_owned() })
    }

    fn matches(&self, db: &str, collection: &str) -> bool {
        glob(&self.db, db) && glob(&self.collection, collection)
    }
}

/// Whether `text` is `pattern`, in which `*` stands for any characters. When what follows a star does not
/// fit, only the last star takes one byte more: time is at most the product of the lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    let mut last_star = None;
    while let Some(byte) = text.get(read) {
        if pattern.get(at) == Some(&b'*') {
            last_star = Some((at, read));
            at += 1;
        } else if pattern.get(at) == Some(byte) {
            at += 1;
            read += 1;
        } else if let Some((star, taken)) = last_star {
            last_star = Some((star, taken + 1));
            at = star + 1;
            read = taken + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts.iter().map(|text| Pattern::read(text).unwrap()).collect()
    }

    #[test]
    fn a_pattern_names_a_db_and_a_collection() {
        for (pattern, db, collection, matches) in [
            ("identity.users", "identity", "users", true),
            ("identity.users", "identity", "users2", false),
            ("identity.users", "identity2", "users", false),
            ("financial.*", "financial", "accounts", true),
            ("financial.*", "financial", "a.b.c", true),
            ("financial.*", "financials", "accounts", false),
            ("*", "anything", "at.all", true),
            ("*.users", "identity", "users", true),
            ("*.users", "identity", "app.users", false),
            ("thing.metrics.*", "thing", "metrics.2026.01", true),
            ("thing.metrics.*", "thing", "metrics", false),
            ("thing.*.2026.*", "thing", "metrics.2025.2026.01", true),
            ("fin*.acc*ts", "financial", "accounts", true),
            ("fin*.acc*ts", "financial", "accountsx", false),
            ("a.b**", "a", "b", true),
        ] {
            let read = Pattern::read(pattern).unwrap();
            assert_eq!(read.matches(db, collection), matches, "{pattern} on {db}.{collection}");
        }
    }

    #[test]
    fn what_names_no_collection_is_no_pattern() {
        for text in ["", "identity", ".users", "identity.", "."] {
            assert_eq!(Pattern::read(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_db_is_matched_without_the_platforms_prefix() {
        let filter = Filter { include: patterns(&["identity.users"]), ..Filter::default() };
        for (db, prefix, admitted) in [
            ("wnx-identity", "wnx", true),
            ("identity", "wnx", true),
            ("wnxidentity", "wnx", false),
            ("other-identity", "wnx", false),
            ("wnx-identity", "", false),
            ("identity", "", true),
            ("-identity", "", false),
        ] {
            assert_eq!(filter.admits(db, "users", Op::Update, prefix), admitted, "{db} with {prefix:?}");
        }
    }

    #[test]
    fn exclude_wins_and_ops_restrict() {
        let filter = Filter {
            include: patterns(&["identity.*", "financial.accounts"]),
            exclude: patterns(&["identity.sessions"]),
            ops: vec![Op::Create, Op::Delete],
        };
        for (db, collection, op, admitted) in [
            ("identity", "users", Op::Create, true),
            ("identity", "users", Op::Update, false),
            ("identity", "sessions", Op::Create, false),
            ("financial", "accounts", Op::Delete, true),
            ("financial", "wallets", Op::Delete, false),
        ] {
            assert_eq!(filter.admits(db, collection, op, "wnx"), admitted, "{db}.{collection} {op:?}");
        }
        assert!(Filter::default().admits("any", "thing", Op::Read, "wnx"));
    }

    proptest! {
        #[test]
        fn a_star_takes_any_characters(head in "[a-c.]{1,6}", middle in "[a-c.*]{0,12}", tail in "[a-c.]{1,6}") {
            let pattern = format!("{head}*{tail}");
            let text = format!("{head}{middle}{tail}");
            prop_assert!(glob(&pattern, &text));
            prop_assert!(!glob(&pattern, &("x".to_owned() + &text)));
            prop_assert!(!glob(&pattern, &(text + "x")));
        }
    }
}
