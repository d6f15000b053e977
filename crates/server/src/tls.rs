//! TLS by certificate files. TLS 1.2 and 1.3, HTTP/1.1 inside.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Where the certificate chain and its key lie, as PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Reads the files. The message names the file and never shows what is in it.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, String> {
    let unreadable = |file: &PathBuf, what: &str, error: rustls::pki_types::pem::Error| {
        format!("{} is not {what} as PEM: {error}", file.display())
    };
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(|items| items.collect::<Result<Vec<_>, _>>())
        .map_err(|error| unreadable(&files.certificate, "a certificate", error))?;
    if chain.is_empty() {
        return Err(format!("{} holds no certificate", files.certificate.display()));
    }
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unreadable(&files.key, "a private key", error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("{} does not fit its key: {error}", files.certificate.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
