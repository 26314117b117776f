use rdkafka::Timestamp;
use rdkafka::message::OwnedMessage;

use super::*;

fn transfer(client: &str, id: &str) -> NewTransfer {
    let client = ClientId::new(client);
    let source = SourcePosition { topic: "mongo.wnx-identity.users".into(), partition: 3, offset: 77 };
    NewTransfer {
        document: format!("wnx-identity.users:{id}").into(),
        document_hash: DocumentHash::of("wnx-identity", "users", id),
        event_id: EventId::derive(&source, 5, &client),
        client,
        kind: TransferKind::Replay,
        source,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        ts_ms: -5,
        body: Bytes::from_static(b"{\"id\":\"\xff\"}"),
    }
}

fn message(outgoing: &Outgoing, headers: OwnedHeaders) -> OwnedMessage {
    OwnedMessage::new(
        outgoing.value.as_ref().map(|value| value.to_vec()),
        outgoing.key.as_ref().map(|key| key.to_vec()),
        outgoing.topic.to_string(),
        Timestamp::CreateTime(1),
        outgoing.partition.unwrap(),
        12,
        Some(headers),
    )
}

#[test]
fn a_transfer_comes_back_as_it_was() {
    let long = format!("nul\u{0}:{}", "é:".repeat(1_000));
    for (client, id) in [("a", "1"), ("a:b", "c:d"), ("a", "b:c:d"), ("nul \u{0} é", long.as_str()), ("", "")]
    {
        let transfer = transfer(client, id);
        let outgoing = encode(&transfer, &"t".into(), 12);
        let found = decode(&message(&outgoing, outgoing.headers.clone()), 7).unwrap();
        assert_eq!(found.content, transfer);
        let partition = partition_of(&transfer.client, 12);
        assert_eq!(found.sequence, Sequence { incarnation: 7, partition, offset: 12 });
    }
}

#[test]
fn the_key_is_client_collection_and_id() {
    let outgoing = encode(&transfer("65d1", "66aa"), &"t".into(), 12);
    assert_eq!(outgoing.key.unwrap(), "65d1:wnx-identity.users:66aa");
}

#[test]
fn another_format_is_not_read() {
    let outgoing = encode(&transfer("a", "1"), &"t".into(), 12);
    let bare = message(&outgoing, OwnedHeaders::new());
    assert_eq!(decode(&bare, 1), Err(NotOurs::Format(None)));
    let newer = OwnedHeaders::new().insert(Header { key: FORMAT_HEADER, value: Some("2") });
    assert_eq!(decode(&message(&outgoing, newer), 1), Err(NotOurs::Format(Some("2".to_owned()))));
    let only = OwnedHeaders::new().insert(Header { key: FORMAT_HEADER, value: Some("1") });
    assert_eq!(decode(&message(&outgoing, only), 1), Err(NotOurs::Broken(CLIENT)));
}
