//! Certificates for the connection to etcd.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use super::EtcdSettings;
use crate::coordination::CoordinationError;

pub(super) fn connector(settings: &EtcdSettings) -> Result<TlsConnector, CoordinationError> {
    let refused = |what: String| CoordinationError::Refused(what);
    let mut roots = RootCertStore::empty();
    match &settings.ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let unreadable = |cause: String| refused(format!("etcd.ca: {} cannot be read: {cause}", file.display()));
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(error.to_string()))? {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unreadable("it holds no certificate as PEM".into()));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(format!("TLS for etcd cannot be set up: {error}")))?
        .with_root_certificates(roots);
    let config = match &settings.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| refused(format!("etcd.cert: {} cannot be read: {error}", certificate.display())))?;
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| refused(format!("etcd.key: {} cannot be read: {error}", key.display())))?;
            builder
                .with_client_auth_cert(chain, private)
                .map_err(|error| refused(format!("etcd.cert and etcd.key do not fit: {error}")))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
