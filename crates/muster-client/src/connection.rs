//! One connection: TCP, TLS with the pin, HTTP/1.1 (RFC 9112).
//!
//! A link that is cut says nothing: who only reads would wait for ever. So the kernel asks the other end whenever it was silent
//! for [`PROBE_AFTER`], and ends a connection on which nothing was acknowledged for [`SILENT`] (tcp(7): TCP_KEEPIDLE,
//! TCP_KEEPINTVL, TCP_USER_TIMEOUT, which also bounds what was sent and not acknowledged). A node that is quiet answers the
//! kernel's question without being asked itself, so a journal that nobody writes to is followed on.

use crate::endpoint::Endpoint;
use crate::error::{Error, alert, innermost, tls, turned};
use crate::identity::Identity;
use crate::pin::Pin;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use muster_tls::Fingerprint;
use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Silence after which the other end's kernel is asked whether it is there.
const PROBE_AFTER: Duration = Duration::from_secs(10);
/// How often it is asked then.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// Questions without an answer, where the system knows no [`SILENT`].
const PROBES: u32 = 4;
/// Silence after which a connection counts as lost.
const SILENT: Duration = Duration::from_secs(30);

/// How a node's certificate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By its fingerprint.
    Pinned(Fingerprint),
    /// Not yet: the pairing that follows proves it. For [`crate::claim`] alone.
    ByCode,
}

/// Which node, as whom.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where.
    pub endpoint: Endpoint,
    /// What it must show.
    pub trust: Trust,
    /// Who calls; nobody while the node is unclaimed.
    pub identity: Option<Arc<Identity>>,
    /// How long connecting may take, each address of a name tried.
    pub connect: Duration,
}

/// A connection on which requests go one after the other.
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    /// What the node showed in the handshake.
    pub(crate) certificate: CertificateDer<'static>,
    /// Carries it on; knows how it ended.
    driver: JoinHandle<Result<(), hyper::Error>>,
}

impl Connection {
    pub(crate) async fn open(target: &Target) -> Result<Self, Error> {
        let unreachable = |why: String| Error::Unreachable { endpoint: target.endpoint.clone(), why };
        match tokio::time::timeout(target.connect, Self::open_now(target)).await {
            Ok(opened) => opened,
            Err(_) => Err(unreachable(format!("no connection within {} s", target.connect.as_secs_f32()))),
        }
    }

    async fn open_now(target: &Target) -> Result<Self, Error> {
        let endpoint = &target.endpoint;
        let unreachable =
            |e: std::io::Error| Error::Unreachable { endpoint: endpoint.clone(), why: e.to_string() };
        let nowhere = |why: String| Error::NoAddress { endpoint: endpoint.clone(), why };
        let found = tokio::net::lookup_host((endpoint.host(), endpoint.port())).await;
        let addresses: Vec<_> = found.map_err(|e| nowhere(e.to_string()))?.collect();
        if addresses.is_empty() {
            return Err(nowhere("the name has no address".to_owned()));
        }
        let tcp = TcpStream::connect(addresses.as_slice()).await.map_err(unreachable)?;
        tcp.set_nodelay(true).map_err(unreachable)?;
        probed(&tcp).map_err(|e| unreachable(e.into()))?;
        let pin_error = |why: String| Error::NotANode { endpoint: endpoint.clone(), why };
        let (config, pin) = config(target).map_err(|e| pin_error(e.to_string()))?;
        let tls = TlsConnector::from(Arc::new(config)).connect(name(endpoint), tcp).await;
        let shown = pin.shown().cloned();
        let stream = tls.map_err(|e| refused(target, shown.as_ref(), &e))?;
        let certificate = shown.ok_or_else(|| pin_error("it showed no certificate".to_owned()))?;
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|e| pin_error(innermost(&e)))?;
        // It ends by itself when the sender is gone or the node closes.
        Ok(Self { sender, certificate, driver: tokio::spawn(connection) })
    }

    /// Why a request on it came to nothing. In TLS 1.3 a node judges the client after the client has begun to speak: where its
    /// alert comes before the request, the request only learns that nobody carries it any more.
    pub(crate) async fn lost(self, endpoint: &Endpoint, error: &hyper::Error) -> Error {
        drop(self.sender);
        match tokio::time::timeout(Duration::from_secs(1), self.driver).await {
            Ok(Ok(Err(end))) if alert(&end).is_some() => Error::lost(endpoint, &end),
            _ => Error::lost(endpoint, error),
        }
    }
}

/// Has the kernel notice that the other end is gone.
fn probed(tcp: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_socket_keepalive(tcp, true)?;
    sockopt::set_tcp_keepidle(tcp, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(tcp, PROBE_EVERY)?;
    sockopt::set_tcp_keepcnt(tcp, PROBES)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(tcp, u32::try_from(SILENT.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// The name that goes out in the clear (RFC 6066, 3): an address sends none, so nodes named by address say nothing of whom is called.
fn name(endpoint: &Endpoint) -> ServerName<'static> {
    let host = endpoint.host().split('%').next().unwrap_or_default();
    // The pin decides, never the name; one that TLS cannot carry stands back for one that says nothing.
    ServerName::try_from(host.to_owned())
        .unwrap_or_else(|_| ServerName::IpAddress(std::net::IpAddr::from([0, 0, 0, 0]).into()))
}

fn config(target: &Target) -> Result<(ClientConfig, Arc<Pin>), rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let pin = Arc::new(Pin::new(target.trust, provider.signature_verification_algorithms));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&pin) as _);
    let mut config = match &target.identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::clone(identity) as _),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, pin))
}

/// Why a handshake came to nothing.
fn refused(target: &Target, shown: Option<&CertificateDer<'_>>, error: &std::io::Error) -> Error {
    let endpoint = target.endpoint.clone();
    match (tls(error), shown.map(|s| Fingerprint::of(s)), target.trust) {
        (Some(rustls::Error::InvalidCertificate(_)), Some(shown), Trust::Pinned(pinned))
            if shown != pinned =>
        {
            Error::OtherCertificate { endpoint, shown, pinned }
        }
        (Some(rustls::Error::AlertReceived(alert)), _, _) => {
            Error::TurnedAway { endpoint, why: turned(*alert) }
        }
        (Some(other), _, _) => Error::NotANode { endpoint, why: other.to_string() },
        (None, None, _) => Error::NotANode { endpoint, why: format!("the handshake ended early: {error}") },
        (None, Some(_), _) => Error::Unreachable { endpoint, why: error.to_string() },
    }
}
