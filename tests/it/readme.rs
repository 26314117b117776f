//! What the README tells a newcomer to type does work.

use std::path::Path;
use std::process::Command;

use crate::kit::service::{BINARY, Service};

/// Stands before each block of the README that this test runs.
const MARK: &str = "<!-- runs -->";

#[actix_web::test]
async fn the_shell_examples_of_the_readme_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let blocks = marked_blocks(&readme);
    assert!(!blocks.is_empty(), "no block of the README is marked with {MARK}");
    let service = Service::shared().start().await;
    let url = service.api().url();
    let folder = tempfile::tempdir().unwrap();
    let binaries = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    // One shell for all: a block goes on where the one before it ended. What it left running ends with it.
    let script =
        format!("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}", blocks.join("\n"))
            .replace("http://127.0.0.1:4010", url);

    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&folder)
        .env_clear()
        .env("PATH", path)
        .env("DISPATCHER_URL", url)
        .output()
        .unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}\n{script}", output.status);
    let delivered = service.api().metrics().await.sum("deliveries_total", &[("outcome", "delivered")]);
    assert!(delivered >= 1.0, "what the README sends is delivered");
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
