//! How TLS is spoken to webhooks.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Extra root certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// Not PEM.
    #[error("the extra root certificates are no PEM: {0}")]
    Pem(rustls::pki_types::pem::Error),
    /// PEM, with no certificate in it.
    #[error("the extra root certificates hold no certificate")]
    Empty,
    /// A certificate that cannot be a root.
    #[error("an extra root certificate cannot be used: {0}")]
    Certificate(rustls::Error),
}

/// The roots of Mozilla (compiled in, so that every machine trusts the same ones), and the operator's own.
pub(super) fn client_config(extra_roots_pem: Option<&[u8]>) -> Result<Arc<ClientConfig>, RootsError> {
    let mut roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(pem) = extra_roots_pem {
        let built_in = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(RootsError::Pem)?).map_err(RootsError::Certificate)?;
        }
        if roots.len() == built_in {
            return Err(RootsError::Empty);
        }
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    // HTTP/1.1 only: the bounds on what is read are those of awc's HTTP/1 parser, one request a connection keeps a
    // broken answer from hurting its neighbours, and a receiver sees our concurrency limit as connections.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
