//! The contract of the key of sessions.

use crate::fixture::Backend;

pub(crate) async fn the_first_key_stays(backend: &impl Backend) {
    let stores = backend.open().await;
    let keys = stores.session_keys.clone();
    // Two replicas start at once.
    let (one, other) = tokio::join!(keys.session_key([1; 32]), keys.session_key([2; 32]));
    let key = one.unwrap();
    assert!(key == [1; 32] || key == [2; 32]);
    assert_eq!(other.unwrap(), key);
    drop(keys);
    stores.close().await;
    assert_eq!(backend.open().await.session_keys.session_key([3; 32]).await.unwrap(), key);
}
