//! The documents of the platform, on a MongoDB.

use dispatcher::ports::StoreError;
use dispatcher::ports::documents::{CollectionName, DocumentKey, Documents, StoredDocument};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::fixture::client;
use crate::platform::Platform;

const CLIENT: &str = "64c0a1e0f1a2b3c4d5e60001";

/// `_id`s of all usual types, in the order in which MongoDB sorts them.
fn ids() -> Vec<Bson> {
    let oid =
        |last: &str| Bson::ObjectId(ObjectId::parse_str(format!("64c0a1e0f1a2b3c4d5e6000{last}")).unwrap());
    vec![
        Bson::Int32(3),
        Bson::Int64(4),
        Bson::Double(4.5),
        Bson::String("a".into()),
        Bson::String("b".into()),
        Bson::Document(doc! { "tenant": "t", "seq": 7_i64 }),
        oid("1"),
        oid("2"),
        Bson::DateTime(DateTime::from_millis(1_764_435_600_000)),
    ]
}

fn document(id: Bson, clients: Vec<Bson>) -> Document {
    doc! { "_id": id, "clients": clients, "version": 1_i64 }
}

async fn pages(documents: &dyn Documents, collection: &CollectionName, limit: usize) -> Vec<StoredDocument> {
    let (mut all, mut after): (Vec<StoredDocument>, Option<DocumentKey>) = (Vec::new(), None);
    loop {
        let page = documents.page(collection, &client(CLIENT), after.as_ref(), limit, 1 << 20).await.unwrap();
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return all };
        after = Some(last.key.clone());
        all.extend(page);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_a_client_are_read_page_by_page() {
    let platform = Platform::new().await;
    let db = format!("{}-shop", platform.prefix);
    let mongo = platform.client().await;
    let orders = mongo.database(&db).collection::<Document>("orders");
    // His id stands there as a text or as an ObjectId.
    let his = [Bson::String(CLIENT.into()), Bson::ObjectId(ObjectId::parse_str(CLIENT).unwrap())];
    for (at, id) in ids().into_iter().enumerate() {
        orders.insert_one(document(id, vec!["x".into(), his[at % 2].clone()])).await.unwrap();
    }
    orders.insert_one(document("other's".into(), vec!["x".into()])).await.unwrap();
    orders.insert_one(doc! { "_id": "nobody's" }).await.unwrap();
    let other = mongo.database(&format!("other{}", platform.prefix));
    other.collection::<Document>("orders").insert_one(doc! { "_id": 1 }).await.unwrap();

    let documents = platform.replica().configs.documents();
    let name = |collection: &str| CollectionName { db: db.clone(), collection: collection.into() };
    assert_eq!(documents.collections().await, Ok(vec![name("orders")]));
    let orders_name = name("orders");
    for limit in [1, 2, 100] {
        let read: Vec<String> =
            pages(&*documents, &orders_name, limit).await.into_iter().map(|document| document.id).collect();
        let expected = [
            "3",
            "4",
            "4.5",
            r#""a""#,
            r#""b""#,
            r#"{"tenant": "t","seq": 7}"#,
            r#"{"$oid": "64c0a1e0f1a2b3c4d5e60001"}"#,
            r#"{"$oid": "64c0a1e0f1a2b3c4d5e60002"}"#,
            r#"{"$date": "2025-11-29T17:00:00Z"}"#,
        ];
        assert_eq!(read, expected, "{limit} a page");
    }
    let small = documents.page(&orders_name, &client(CLIENT), None, 100, 1).await.unwrap();
    assert_eq!(small.len(), 1, "one at least, and no more than fit");
    let nobody = documents.page(&orders_name, &client("64c0"), None, 100, 1 << 20).await.unwrap();
    assert!(nobody.is_empty());
    let nothing = documents.page(&name("none"), &client(CLIENT), None, 100, 1 << 20).await.unwrap();
    assert!(nothing.is_empty());
    let elsewhere = CollectionName { db: "admin".into(), collection: "system.users".into() };
    let refused = documents.page(&elsewhere, &client(CLIENT), None, 1, 1).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_are_read_again_as_they_are_now() {
    let platform = Platform::new().await;
    let db = format!("{}-shop", platform.prefix);
    let orders = platform.client().await.database(&db).collection::<Document>("orders");
    for id in ids() {
        orders.insert_one(document(id, vec![CLIENT.into()])).await.unwrap();
    }
    let documents = platform.replica().configs.documents();
    let collection = CollectionName { db, collection: "orders".into() };
    let mut read = pages(&*documents, &collection, 100).await;
    let keys: Vec<DocumentKey> = read.iter().map(|document| document.key.clone()).collect();
    let sorted = |mut documents: Vec<StoredDocument>| {
        documents.sort_by(|one, other| one.key.cmp(&other.key));
        documents
    };
    let again = documents.again(&collection, keys.clone()).await.unwrap();
    assert_eq!(sorted(again), sorted(read.clone()), "what did not change is the same to the byte");

    orders.delete_one(doc! { "_id": "a" }).await.unwrap();
    orders.update_one(doc! { "_id": 3 }, doc! { "$set": { "version": 2_i64 } }).await.unwrap();
    let again = documents.again(&collection, keys).await.unwrap();
    assert_eq!(again.len(), read.len() - 1);
    read.retain(|document| document.id == "3");
    let changed = again.iter().find(|document| document.id == "3").unwrap();
    assert_eq!(
        changed.text.as_deref(),
        Some(r#"{"_id": 3,"clients": ["64c0a1e0f1a2b3c4d5e60001"],"version": {"$numberLong": "2"}}"#)
    );
    assert_ne!(*changed, read[0]);
}
