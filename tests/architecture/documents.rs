//! The documents name what exists: files, tests, settings.

use std::path::{Path, PathBuf};

use crate::{files_below, root};

fn documents() -> Vec<PathBuf> {
    let mut documents: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    documents.extend(files_below(&root().join("docs"), "md"));
    documents
}

/// The targets of `](target)` that are files: no addresses, no places within the page.
fn links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with('#'));
    files.map(|target| target.split('#').next().unwrap_or(target)).collect()
}

fn missing_links(folder: &Path, text: &str) -> Vec<String> {
    let missing = links(text).into_iter().filter(|target| !folder.join(target).exists());
    missing.map(str::to_owned).collect()
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let mut missing = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let folder = document.parent().unwrap();
        missing.extend(
            missing_links(folder, &text).into_iter().map(|link| format!("{}: {link}", document.display())),
        );
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let guarantees = std::fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let mut code = String::new();
    for folder in ["tests", "src"] {
        for path in files_below(&root().join(folder), "rs") {
            code.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    let named: Vec<&str> =
        guarantees.split('`').skip(1).step_by(2).filter(|text| is_test_name(text)).collect();
    assert!(named.len() > 10, "the guarantees name their tests: {named:?}");
    let missing: Vec<&&str> = named.iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

/// A sentence with underscores.
fn is_test_name(text: &str) -> bool {
    text.matches('_').count() >= 3
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn the_readme_names_every_variable_of_the_settings() {
    let settings = std::fs::read_to_string(root().join("config/default.toml")).unwrap();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let variables = settings.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    let owners = ["DISPATCHER_", "KAFKA_", "REDIS_", "MONGO_", "POSTGRES_"];
    let missing: Vec<&str> = variables
        .filter(|word| owners.iter().any(|owner| word.starts_with(owner)))
        .filter(|word| !readme.contains(&format!("`{word}`")))
        .collect();
    assert!(missing.is_empty(), "not in the README: {missing:?}");
}

#[test]
fn finds_a_link_that_leads_nowhere() {
    let text = "[a](README.md) [b](https://example.com) [c](#here) [d](docs/none.md#x)";
    assert_eq!(missing_links(root(), text), ["docs/none.md"]);
}
