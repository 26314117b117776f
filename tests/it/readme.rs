//! What the README tells a newcomer to type does work.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::kit::service::{Service, binary};
use crate::kit::wait::{eventually, holds};

/// Stands before each block of the README that this test runs.
const MARK: &str = "<!-- runs -->";
const SOON: Duration = Duration::from_secs(30);

#[actix_web::test]
async fn the_shell_examples_of_the_readme_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let blocks = marked_blocks(&readme);
    assert!(!blocks.is_empty(), "no block of the README is marked with {MARK}");
    let service = Service::shared().start().await;
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    let file = File::create(&output).unwrap();
    let binary = binary();
    let binaries = binary.parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    // One shell for all: a block goes on where the one before it ended. What it left running ends with it, which is
    // when this test closes its input.
    let script = format!(
        "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}\necho all blocks ran\nread -r _ || true\n",
        blocks.join("\n")
    );

    let mut shell = Command::new("bash")
        .args(["-c", &script])
        .current_dir(root)
        .env_clear()
        .env("PATH", path)
        .env("DISPATCHER_URL", service.api().url())
        .stdin(Stdio::piped())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    let said = || std::fs::read_to_string(&output).unwrap();
    eventually("the end of the examples", SOON, async || {
        let ended = shell.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?}: {}\n{script}", said());
        holds(said().contains("all blocks ran"), said)
    })
    .await;
    service.api().wait_for_metric("deliveries_total", &[("outcome", "delivered")], 1.0, SOON).await;

    drop(shell.stdin.take());
    let status = shell.wait().unwrap();
    assert!(status.success(), "{status}: {}", said());
}

/// The `sh` blocks that follow a mark.
fn marked_blocks(readme: &str) -> Vec<&str> {
    readme
        .split(MARK)
        .skip(1)
        .map(|rest| {
            let rest = rest.trim_start().strip_prefix("```sh\n").expect("a sh block follows the mark");
            rest.split_once("```").expect("the block ends").0
        })
        .collect()
}
