//! Migrations: of two with one version only one would run.

use std::collections::BTreeMap;

use crate::root;

#[test]
fn every_migration_has_a_version_of_its_own() {
    let mut folders = 0;
    for tables in std::fs::read_dir(root().join("migrations")).unwrap() {
        let tables = tables.unwrap().path();
        let mut versions: BTreeMap<String, String> = BTreeMap::new();
        for migration in std::fs::read_dir(&tables).unwrap() {
            let name = migration.unwrap().file_name().into_string().unwrap();
            let (version, _) = name.split_once('_').unwrap_or_else(|| panic!("{name}: no version"));
            let twin = versions.insert(version.to_owned(), name.clone());
            assert!(twin.is_none(), "{}: {name} and {twin:?} have one version", tables.display());
            folders += 1;
        }
    }
    assert!(folders > 3, "there are migrations");
}
