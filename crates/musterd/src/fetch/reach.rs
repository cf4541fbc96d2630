//! A connection to the host of a URL, and what its certificate is judged by.
//!
//! No proxy is used, whatever an environment says. Trust anchors are those that the core handed over, and only where it handed over
//! none the machine's own, as its distribution keeps them.

use core::net::SocketAddr;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use muster_document::values::{not_a_url, split_host};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::words::Why;

/// For a name.
const NAME: Duration = Duration::from_secs(10);
/// For a connection, over all addresses.
const CONNECT: Duration = Duration::from_secs(10);
/// Of one name.
const ADDRESSES: usize = 8;

/// Where to ask for what.
pub(super) struct Target {
    /// As the certificate must have it.
    pub(super) name: ServerName<'static>,
    /// As the header has it.
    pub(super) host: String,
    /// What is asked for there.
    pub(super) path: PathAndQuery,
    /// Where it is.
    pub(super) at: (String, u16),
}

impl Target {
    /// Of a URL.
    pub(super) fn of(url: &str) -> Result<Self, Why> {
        if not_a_url(url).is_some() {
            return Err(Why::Ours);
        }
        let uri: Uri = url.parse().map_err(|_| Why::Ours)?;
        let parts = uri.into_parts();
        let authority = parts.authority.ok_or(Why::Ours)?;
        // The document's reader and this one must mean the same host.
        let (host, port) = split_host(authority.as_str()).ok_or(Why::Ours)?;
        Ok(Self {
            name: ServerName::try_from(host.to_owned()).map_err(|_| Why::Ours)?,
            at: (host.to_owned(), port.unwrap_or(443)),
            host: authority.as_str().to_owned(),
            path: parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")),
        })
    }
}

/// How a server is judged: TLS 1.3, its chain and its name. Nothing is resumed.
pub(super) fn config(anchors: &[u8]) -> Result<Arc<ClientConfig>, Why> {
    let mut roots = RootCertStore::empty();
    if anchors.is_empty() {
        // One that cannot be read is the distribution's to mend; the others count.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(Why::NoAnchors);
        }
    } else {
        for certificate in CertificateDer::pem_slice_iter(anchors) {
            roots.add(certificate.map_err(|_| Why::BadAnchors)?).map_err(|_| Why::BadAnchors)?;
        }
        if roots.is_empty() {
            return Err(Why::BadAnchors);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|_| Why::Ours)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Connects to the first address that lets it.
pub(super) fn connect(target: &Target, until: Instant) -> Result<TcpStream, Why> {
    let addresses = resolve(&target.at, until)?;
    let until = until.min(Instant::now() + CONNECT);
    let mut why = Why::Name;
    let mut others = u32::try_from(addresses.len()).unwrap_or(1);
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now()) / others.max(1);
        others = others.saturating_sub(1);
        match TcpStream::connect_timeout(&address, left.max(Duration::from_millis(1))) {
            Ok(stream) => {
                stream.set_nonblocking(true).map_err(|_| Why::Ours)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => why = Why::Refused,
            Err(_) if why == Why::Refused => {}
            Err(_) => why = Why::Unreachable,
        }
    }
    Err(why)
}

/// Asks the machine's resolver, in a thread of its own: it knows no deadline.
fn resolve(at: &(String, u16), until: Instant) -> Result<Vec<SocketAddr>, Why> {
    let (tell, told) = mpsc::channel();
    let name = at.clone();
    let asks = std::thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let found = (name.0.as_str(), name.1).to_socket_addrs().map(|all| all.take(ADDRESSES).collect());
        let _ = tell.send(found);
    });
    let asks = asks.map_err(|_| Why::Ours)?;
    let left = until.saturating_duration_since(Instant::now()).min(NAME);
    let found: Vec<SocketAddr> = told.recv_timeout(left).map_err(|_| Why::Name)?.map_err(|_| Why::Name)?;
    // What is given up below is given up for one thread: there must be no other.
    asks.join().map_err(|_| Why::Ours)?;
    if found.is_empty() { Err(Why::Name) } else { Ok(found) }
}
