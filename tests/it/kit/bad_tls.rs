//! A TLS server that nobody should trust.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Listens with a certificate that it signed itself.
pub(crate) struct SelfSigned {
    address: SocketAddr,
    handshakes: Arc<AtomicUsize>,
}

impl SelfSigned {
    /// Starts it; its thread ends with the test process.
    pub(crate) fn start() -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let handshakes = Arc::new(AtomicUsize::new(0));
        let finished = handshakes.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
                while connection.is_handshaking() {
                    if connection.complete_io(&mut stream).is_err() {
                        break;
                    }
                }
                if !connection.is_handshaking() {
                    finished.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { address, handshakes }
    }

    /// A webhook behind it.
    pub(crate) fn hook(&self) -> String {
        format!("https://localhost:{}/hook", self.address.port())
    }

    /// How many clients went through with the handshake: none should.
    pub(crate) fn handshakes(&self) -> usize {
        self.handshakes.load(Ordering::Relaxed)
    }
}
