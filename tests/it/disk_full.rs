//! A full disk: the intake says so, nothing that was acknowledged is lost, and it goes on when there is room.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::events::Document;
use crate::kit::oracle::{Pair, Sent, assert_kept};
use crate::kit::receiver::Receiver;
use crate::kit::service::Service;
use crate::kit::wait::{eventually, holds};

const LONG: Duration = Duration::from_secs(60);

#[actix_web::test]
async fn a_full_disk_stops_the_intake_and_loses_nothing() {
    let disk = SmallDisk::mount();
    let mut service = Service::shared().data(&disk.path().join("data")).start().await;
    let receiver = Receiver::healthy();
    service.api().put_client("acme", json!({ "webhook": receiver.hook("acme") })).await;
    let mut documents: Vec<Document> = (0..50).map(|number| Document::new(number, &["acme"])).collect();
    let mut sent = Sent::default();

    let ballast = disk.fill();
    eventually("an intake that has no room", LONG, async || {
        let (records, pairs) = round(&mut documents);
        match service.api().offer(&records).await? {
            202 => {
                sent.acknowledged.extend(pairs);
                Err("it still takes records".to_owned())
            }
            503 => {
                // Refused whole: none of it may arrive in part.
                sent.in_doubt.push(pairs);
                Ok(())
            }
            status => panic!("the intake answers {status}"),
        }
    })
    .await;
    assert!(!service.has_ended(), "a full disk is no reason to end");
    let (status, _) = service.api().status().await;
    assert_eq!(status, 503, "/status says that something is wrong");

    std::fs::remove_file(ballast).unwrap();
    eventually("an intake that has room again", LONG, async || {
        let (records, pairs) = round(&mut documents);
        let status = service.api().offer(&records).await?;
        if status == 202 {
            sent.acknowledged.extend(pairs);
        }
        holds(status == 202, || format!("the intake answers {status}"))
    })
    .await;
    receiver.ledger().wait_for(sent.acknowledged.len(), LONG).await;
    service.api().wait_until_idle(LONG).await;
    assert_kept(&sent, &receiver.ledger().arrivals(), |_| 0);
    assert_eq!(service.api().status().await.0, 200);
}

fn round(documents: &mut [Document]) -> (Vec<Value>, Vec<Pair>) {
    let records = documents.iter_mut().map(Document::change).collect();
    (records, documents.iter().flat_map(Document::pairs).collect())
}

/// A file system of 16 MiB in memory, unmounted when it is dropped.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
            .arg(folder.path())
            .output()
            .expect("this test needs the command `mount`");
        assert!(
            mounted.status.success(),
            "this test mounts a small tmpfs, for which it needs root (or CAP_SYS_ADMIN): {}",
            String::from_utf8_lossy(&mounted.stderr)
        );
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves no room. Returns the file that takes it.
    fn fill(&self) -> PathBuf {
        let path = self.path().join("ballast");
        let mut file = File::create(&path).unwrap();
        // From large to small pieces, so that the last page is taken too.
        for size in [1 << 20, 1 << 16, 1 << 12] {
            let piece = vec![0; size];
            while file.write_all(&piece).and_then(|()| file.sync_data()).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a service that a failed test leaves behind may still have files open.
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.path().display());
        }
    }
}
