//! Reads just enough Rust to know which paths a file names: comments, texts and tests are taken out first.

use std::collections::BTreeSet;

/// A source file without comments, texts and test code.
pub(crate) struct Source {
    code: String,
}

/// The first step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Root {
    /// `crate::name`, or as many `super` as lead there.
    Ours(String),
    /// `name::`, where `name` may be another crate.
    Other(String),
}

impl Source {
    pub(crate) fn read(text: &str) -> Self {
        Self { code: without_tests(&without_comments_and_texts(text)) }
    }

    /// Lines that hold something.
    pub(crate) fn lines(&self) -> usize {
        self.code.lines().filter(|line| !line.trim().is_empty()).count()
    }

    /// Where the paths in it begin. `depth` is how many `super` lead to the crate: 1 in `src/settings.rs`.
    pub(crate) fn roots(&self, depth: usize) -> BTreeSet<Root> {
        let words = words(&self.code);
        let mut roots = BTreeSet::new();
        let mut at = 0;
        while at < words.len() {
            let starts = at == 0 || words[at - 1] != "::";
            if !starts || words.get(at + 1) != Some(&"::") || !is_name(words[at]) {
                // `use name;` names a crate too.
                if at > 0 && words[at - 1] == "use" && is_name(words[at]) {
                    roots.insert(Root::Other(words[at].to_owned()));
                }
                at += 1;
                continue;
            }
            let mut next = at;
            let mut supers = 0;
            while words[next] == "super" && words.get(next + 1) == Some(&"::") {
                supers += 1;
                next += 2;
            }
            let in_crate = words[at] == "crate" || (supers > 0 && supers >= depth);
            match words[at] {
                "crate" => roots.extend(names_at(&words, at + 2).map(Root::Ours)),
                "super" if in_crate => roots.extend(names_at(&words, next).map(Root::Ours)),
                "super" | "self" | "Self" => {}
                name => {
                    roots.insert(Root::Other(name.to_owned()));
                }
            }
            at = next.max(at + 1);
        }
        roots
    }
}

/// The name at a place, or the first names of a group in braces.
fn names_at<'a>(words: &'a [&'a str], at: usize) -> Box<dyn Iterator<Item = String> + 'a> {
    if words.get(at) != Some(&"{") {
        return Box::new(words.get(at).map(|name| (*name).to_owned()).into_iter());
    }
    let mut depth = 0;
    let mut names = Vec::new();
    for (index, word) in words.iter().enumerate().skip(at) {
        match *word {
            "{" => depth += 1,
            "}" => depth -= 1,
            name if depth == 1 && matches!(words[index - 1], "{" | ",") => names.push(name.to_owned()),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    Box::new(names.into_iter())
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_lowercase() || first == '_') || word == "Self"
}

/// Names, `::`, and every other character that is no space.
fn words(code: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            words.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    words
}

fn without_comments_and_texts(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if first == '"' {
            quoted(rest)
        } else if let Some(hashes) = raw_text(rest) {
            let end = format!("\"{}", "#".repeat(hashes));
            let start = hashes + 2;
            rest[start..].find(&end).map_or(rest.len(), |at| start + at + end.len())
        } else if let Some(length) = character(rest) {
            length
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..length].chars().filter(|c| *c == '\n'));
        code.push(' ');
        rest = &rest[length..];
    }
    code
}

/// The length of the text that begins with a quotation mark.
fn quoted(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// How many `#` a raw text has that begins here.
fn raw_text(rest: &str) -> Option<usize> {
    let hashes = rest.strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    hashes[count..].starts_with('"').then_some(count)
}

/// The length of a character in quotes; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let mut characters = inside.char_indices();
    let (_, first) = characters.next()?;
    if first == '\\' {
        let end = inside[2..].find('\'')?;
        return Some(1 + 2 + end + 1);
    }
    let (at, after) = characters.next()?;
    (after == '\'').then_some(1 + at + 1)
}

/// Takes out every item under `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        kept.push_str(&rest[..at]);
        rest = &rest[at + MARK.len()..];
        let mut depth = 0;
        let end = rest.char_indices().find(|(_, c)| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            depth == 0 && matches!(c, '}' | ';')
        });
        rest = end.map_or("", |(at, _)| &rest[at + 1..]);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(text: &str, depth: usize) -> Vec<String> {
        let roots = Source::read(text).roots(depth).into_iter();
        roots.filter_map(|root| if let Root::Ours(name) = root { Some(name) } else { None }).collect()
    }

    fn others(text: &str) -> Vec<String> {
        let roots = Source::read(text).roots(9).into_iter();
        roots.filter_map(|root| if let Root::Other(name) = root { Some(name) } else { None }).collect()
    }

    #[test]
    fn finds_paths_wherever_they_stand() {
        assert_eq!(ours("use crate::domain::config::ClientId;", 1), ["domain"]);
        assert_eq!(ours("use crate::{ports::stash, domain::{a, b}, web};", 1), ["domain", "ports", "web"]);
        assert_eq!(ours("fn f() { crate::backends::x() }", 1), ["backends"]);
        assert_eq!(ours("use super::super::web::x;", 2), ["web"]);
        assert_eq!(ours("use super::super::web::x;", 3), [""; 0]);
        assert_eq!(others("use diesel::prelude::*; fn f(x: awc::Client) {}"), ["awc", "diesel"]);
        assert_eq!(others("use rustls;"), ["rustls"]);
    }

    #[test]
    fn is_not_deceived_by_comments_texts_and_tests() {
        let quiet = r###"
            // crate::web::x
            /* crate::web::x */
            const A: &str = "crate::web::x \" crate::web::y";
            const B: &str = r#"crate::web::x "quoted" "#;
            const C: char = '"';
            const D: char = '\'';
            fn f<'a>(x: &'a str) {}
            #[cfg(test)]
            use crate::web;
            #[cfg(test)]
            mod tests { use crate::web::x; fn f() { if true {} } }
            use crate::domain::x;
        "###;
        assert_eq!(ours(quiet, 1), ["domain"]);
    }

    #[test]
    fn counts_the_lines_that_hold_code() {
        let text = "fn a() {}\n\n// words\nfn b() {}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        assert_eq!(Source::read(text).lines(), 2);
    }
}
