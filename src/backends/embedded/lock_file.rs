//! A data folder has one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::OpenError;

/// Holds `<data_dir>/lock` until it is dropped. The file stays: removing it would let two processes lock two files
/// of one name.
#[derive(Debug)]
pub(super) struct LockFile {
    _locked: File,
}

impl LockFile {
    pub(super) fn take(data_dir: &Path) -> Result<Self, OpenError> {
        let path = data_dir.join("lock");
        let failed = |error| OpenError::Folder { path: path.clone(), error };
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _locked: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::DataDirInUse(data_dir.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
