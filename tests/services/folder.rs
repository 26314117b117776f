//! The folder of all services of this process: cleared away when the process has ended, however it ends, unless a test failed.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Waits for the end of its input, which is the end of this process. The services die at the same moment and may write until then.
const KEEPER: &str = r#"
    trap '' INT TERM HUP
    cat > /dev/null
    if [ -e "$0/failed" ]; then
        echo "services: a test failed: their logs are kept in $0" >&2
    else
        for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$0" 2> /dev/null && break; sleep 0.2; done
    fi
"#;

/// A fresh folder for one service.
pub(super) fn of_service(name: &str) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = of_process().join(format!("{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    std::fs::create_dir(&folder).unwrap();
    folder
}

fn of_process() -> &'static Path {
    static FOLDER: OnceLock<(PathBuf, Child)> = OnceLock::new();
    let (folder, _) = FOLDER.get_or_init(|| {
        let folder = tempfile::Builder::new().prefix("dispatcher-services-").tempdir().unwrap().keep();
        // PostgreSQL is another user when we are root.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let mut keeper = Command::new("sh");
        keeper.arg("-c").arg(KEEPER).arg(&folder).stdin(Stdio::piped()).stdout(Stdio::null());
        // A group of its own: Ctrl-C is not for it.
        let keeper = keeper.process_group(0).spawn().unwrap();
        mark_failures(folder.join("failed"));
        // With its input, which ends when we do.
        (folder, keeper)
    });
    folder
}

fn mark_failures(mark: PathBuf) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        // The folder is a help only: a full disk shall not hide the panic.
        let _without_mark = std::fs::write(&mark, "");
    }));
}

/// A line for people at the real standard error: `eprintln!` is swallowed while a test succeeds.
pub(super) fn say(line: &str) {
    let _nobody_reads = writeln!(std::io::stderr(), "services: {line}");
}
