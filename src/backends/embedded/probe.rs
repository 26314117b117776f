//! Looks at the data folder without changing it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::Path;

use crate::ports::findings::Findings;

/// The stash of clients that are down grows: who has less than this is told.
const SPACE_SAID: u64 = 1 << 30;
/// SQLite's write-ahead log alone may take so much.
const SPACE_FAULT: u64 = 128 << 20;

/// Looks whether embedded mode could keep its file in `data_dir`. `is_served`: a service that this machine may be asked about
/// runs already, and may be who holds the folder.
pub fn probe(data_dir: &Path, is_served: bool, findings: &mut Findings) {
    let absolute = match std::path::absolute(data_dir) {
        Ok(absolute) => absolute,
        Err(err) => return findings.fault("folder", err.to_string(), "set DISPATCHER_DATA_DIR"),
    };
    // What is missing will be made, in the first folder above it that is there.
    let Some(folder) = absolute.ancestors().find(|ancestor| ancestor.exists()) else {
        return findings.fault(
            "folder",
            format!("nothing of {} is there", absolute.display()),
            "set DISPATCHER_DATA_DIR",
        );
    };
    write(&absolute, folder, findings);
    space(folder, findings);
    if folder == absolute {
        files(folder, findings);
        lock(&folder.join("lock"), is_served, findings);
    }
}

fn write(data_dir: &Path, folder: &Path, findings: &mut Findings) {
    let tried = tempfile::tempfile_in(folder).and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.sync_all()
    });
    match tried {
        Ok(()) if folder == data_dir => findings.ok("folder", format!("{} can be written", folder.display())),
        Ok(()) => findings.ok("folder", format!("{} will be made", data_dir.display())),
        Err(err) => findings.fault(
            "folder",
            format!("{} cannot be written: {err}", folder.display()),
            "give it to the user of the service, or set DISPATCHER_DATA_DIR",
        ),
    }
}

fn space(folder: &Path, findings: &mut Findings) {
    let advice = "free some, or put DISPATCHER_DATA_DIR on a larger disk: what waits for webhooks that are down is kept there";
    match rustix::fs::statvfs(folder) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let found = format!("{} MiB are free", free >> 20);
            match free {
                SPACE_SAID.. => findings.ok("space", found),
                SPACE_FAULT.. => findings.warning("space", found, advice),
                _ => findings.fault("space", found, advice),
            }
        }
        Err(err) => findings.warning("space", format!("not to be seen: {err}"), advice),
    }
}

/// Files of an earlier run that belong to somebody else.
fn files(folder: &Path, findings: &mut Findings) {
    let sqlite = ["dispatcher.db", "queues.db"]
        .map(|file| [file.to_owned(), format!("{file}-wal"), format!("{file}-shm")]);
    for name in sqlite.iter().flatten().map(String::as_str).chain(["lock"]) {
        let path = folder.join(name);
        if !path.exists() {
            continue;
        }
        if let Err(err) = OpenOptions::new().write(true).open(&path) {
            findings.fault(
                "files",
                format!("{} cannot be written: {err}", path.display()),
                "give it to the user of the service: another one made it",
            );
        }
    }
}

fn lock(path: &Path, is_served: bool, findings: &mut Findings) {
    // No lock file: nobody was ever here.
    let Ok(file) = File::open(path) else { return };
    match file.try_lock() {
        Ok(()) => findings.ok("lock", "no other process works here"),
        Err(TryLockError::WouldBlock) if is_served => findings.ok("lock", "the service that runs works here"),
        Err(TryLockError::WouldBlock) => findings.fault(
            "lock",
            "another process works here",
            "end it, or give this one a folder of its own: DISPATCHER_DATA_DIR",
        ),
        Err(TryLockError::Error(err)) => {
            findings.fault("lock", format!("cannot be taken: {err}"), "use a disk that knows file locks");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::findings::{Finding, Outcome};

    fn look(data_dir: &Path, is_served: bool) -> Vec<Finding> {
        let mut findings = Findings::of("embedded");
        probe(data_dir, is_served, &mut findings);
        findings.into_list()
    }

    fn outcome(findings: &[Finding], check: &str) -> Outcome {
        findings.iter().find(|finding| finding.check == check).unwrap().outcome
    }

    #[test]
    fn a_file_where_the_folder_should_be_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(outcome(&look(&file, false), "folder"), Outcome::Fault);
        assert_eq!(outcome(&look(&file.join("below"), false), "folder"), Outcome::Fault);
    }

    #[test]
    fn a_folder_that_another_process_holds_is_a_fault_unless_it_is_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("lock")).unwrap();
        file.try_lock().unwrap();
        assert_eq!(outcome(&look(folder.path(), false), "lock"), Outcome::Fault);
        assert_eq!(outcome(&look(folder.path(), true), "lock"), Outcome::Ok);
        file.unlock().unwrap();
        assert_eq!(outcome(&look(folder.path(), false), "lock"), Outcome::Ok);
    }

    #[test]
    fn what_cannot_be_opened_for_writing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        // Root may write any file, but no folder.
        std::fs::create_dir(folder.path().join("dispatcher.db")).unwrap();
        let findings = look(folder.path(), false);
        let files = findings.iter().find(|finding| finding.check == "files").unwrap();
        assert!(files.outcome == Outcome::Fault && files.found.contains("dispatcher.db"), "{files:?}");
    }

    #[test]
    fn a_look_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("a/b");
        assert_eq!(outcome(&look(&below, false), "folder"), Outcome::Ok);
        look(folder.path(), false);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
