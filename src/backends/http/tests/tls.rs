//! TLS: who is believed, and what is said when nobody is.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::receiver::{Peer, Receiver};
use super::{LIMITS, reason, request, senders};
use crate::backends::http::{EgressRule, HttpSenders, RootsError};
use crate::domain::delivery::NoAnswer;
use crate::ports::webhook_sender::SendLimits;

const LOOPBACK: &[&str] = &["127.0.0.1", "localhost"];

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server certificate for `names`, signed by `authority`, or by itself.
fn server_config(names: &[&str], authority: Option<&Authority>) -> ServerConfig {
    // The server needs the provider as much as the client.
    drop(senders(&[], LIMITS, None));
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let params = CertificateParams::new(names).unwrap();
    let certificate = match authority {
        Some(authority) => params.signed_by(&key, authority).unwrap(),
        None => params.self_signed(&key).unwrap(),
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Answers 200 to whoever comes through the handshake, and keeps the protocol that was agreed on.
async fn tls_receiver(config: ServerConfig) -> (Receiver, Rc<RefCell<Vec<Vec<u8>>>>) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let protocols = Rc::new(RefCell::new(Vec::new()));
    let agreed = protocols.clone();
    let receiver = Receiver::start(move |_, peer| {
        let (acceptor, agreed) = (acceptor.clone(), agreed.clone());
        async move {
            let Ok(stream) = acceptor.accept(peer.stream).await else { return };
            agreed.borrow_mut().push(stream.get_ref().1.alpn_protocol().unwrap_or_default().to_vec());
            let mut peer = Peer::new(stream);
            while peer.request().await.is_some() {
                peer.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    })
    .await;
    (receiver, protocols)
}

fn https(receiver: &Receiver, host: &str) -> String {
    format!("https://{host}:{}/hook?secret", receiver.address.port())
}

#[actix_rt::test]
async fn an_extra_root_is_believed() {
    let authority = authority("known");
    let (receiver, protocols) =
        tls_receiver(server_config(&["localhost", "127.0.0.1"], Some(&authority))).await;
    let sender = senders(LOOPBACK, LIMITS, Some(&authority.pem())).open();
    for host in ["localhost", "localhost", "127.0.0.1"] {
        assert_eq!(sender.send(request(&https(&receiver, host))).await.unwrap().status, 200, "{host}");
    }
    // A connection a name: the second request found that of the first.
    assert_eq!(protocols.take(), [b"http/1.1", b"http/1.1"]);
}

#[actix_rt::test]
async fn strangers_and_impostors_are_not_believed() {
    let (known, stranger) = (authority("known"), authority("stranger"));
    for (names, signed_by, fault) in [
        ("localhost", None, "UnknownIssuer"),
        ("localhost", Some(&stranger), "UnknownIssuer"),
        ("hooks.example", Some(&known), "not valid for name"),
        ("127.0.0.1", Some(&known), "not valid for name"),
    ] {
        let (receiver, protocols) = tls_receiver(server_config(&[names], signed_by)).await;
        let sender = senders(LOOPBACK, LIMITS, Some(&known.pem())).open();
        let error = sender.send(request(&https(&receiver, "localhost"))).await.unwrap_err();
        assert_eq!(error.reason, NoAnswer::Tls);
        assert!(error.detail.contains(fault), "{}", error.detail);
        assert!(!error.detail.contains("secret"), "{}", error.detail);
        assert_eq!(receiver.connections(), 1);
        assert_eq!(protocols.take().len(), 0, "nothing was sent");
    }
}

#[actix_rt::test]
async fn a_name_of_the_receivers_choice_does_not_grow_the_detail() {
    let known = authority("known");
    let long = ["x", "y"].map(|letter| vec![letter.repeat(60); 4].join("."));
    let (receiver, _) = tls_receiver(server_config(&[&long[0], &long[1]], Some(&known))).await;
    let sender = senders(LOOPBACK, LIMITS, Some(&known.pem())).open();
    let error = sender.send(request(&https(&receiver, "localhost"))).await.unwrap_err();
    assert_eq!((error.reason, error.detail.len()), (NoAnswer::Tls, 200));
}

#[actix_rt::test]
async fn what_is_not_tls_fails_the_handshake() {
    for answer in ["", "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"] {
        let receiver = Receiver::start(move |_, mut peer| async move {
            peer.write(answer).await;
            // Read what came, so that the end is orderly.
            let _ = tokio::io::AsyncReadExt::read(&mut peer.stream, &mut [0; 4096]).await;
        })
        .await;
        let sender = senders(LOOPBACK, LIMITS, None).open();
        assert_eq!(
            reason(sender.send(request(&https(&receiver, "localhost"))).await),
            NoAnswer::Tls,
            "{answer:?}"
        );
        assert_eq!(receiver.connections(), 1);
    }
}

#[actix_rt::test]
async fn a_handshake_that_does_not_end_is_cut() {
    let receiver = Receiver::start(|_, mut peer| async move { _ = peer.closed().await }).await;
    let limits = SendLimits { connect_timeout: Duration::from_millis(200), ..LIMITS };
    let error = senders(LOOPBACK, limits, None)
        .open()
        .send(request(&https(&receiver, "127.0.0.1")))
        .await
        .unwrap_err();
    assert_eq!((error.reason, &*error.detail), (NoAnswer::Tls, "no TLS handshake in time"));
}

#[actix_rt::test]
async fn a_receiver_that_wants_a_certificate_of_ours_is_tls() {
    let known = authority("known");
    let mut roots = RootCertStore::empty();
    roots.add(known.der().clone()).unwrap();
    let trusting = server_config(&["localhost"], Some(&known));
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let config = ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(trusting.cert_resolver);
    let (receiver, _) = tls_receiver(config).await;
    let sender = senders(LOOPBACK, LIMITS, Some(&known.pem())).open();
    assert_eq!(reason(sender.send(request(&https(&receiver, "localhost"))).await), NoAnswer::Tls);
}

#[test]
fn extra_roots_that_are_none_are_refused() {
    let make = |pem: &[u8]| HttpSenders::new(EgressRule::default(), LIMITS, Some(pem)).map(|_| ());
    drop(senders(&[], LIMITS, None));
    assert!(matches!(make(b""), Err(RootsError::Empty)));
    assert!(matches!(make(b"hello"), Err(RootsError::Empty)));
    assert!(matches!(
        make(b"-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----"),
        Err(RootsError::Pem(_))
    ));
    assert!(matches!(
        make(b"-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----"),
        Err(RootsError::Certificate(_))
    ));
}
