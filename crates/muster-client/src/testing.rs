//! A small node for tests, here and in other crates: real TLS by rustls, HTTP by hand, and whatever answers a test gives it.
#![allow(clippy::expect_used, clippy::missing_panics_doc, missing_docs, reason = "a test fails by panicking")]

mod pairing;

pub use pairing::{Became, Pairing, enrolled};

use muster_core::{Role, UtcTime};
use muster_tls::{Authority, Fingerprint, Lifetime, OperatorCa, Serving};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What came in.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Which connection, from 1.
    pub connection: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// What goes out: bytes as they are; then the connection is closed, or not.
pub struct Reply {
    pub bytes: Vec<u8>,
    pub close: bool,
}

/// A whole answer.
pub fn reply(status: u16, headers: &str, body: &[u8]) -> Reply {
    let mut bytes =
        format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    Reply { bytes, close: false }
}

pub type Answers = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The operators.
pub struct Operators {
    pub authority: Authority,
    pub pem: String,
}

pub fn now() -> UtcTime {
    UtcTime::from_unix(UnixTime::now().as_secs())
}

impl Operators {
    pub fn new(n: u8) -> Self {
        let (authority, made) =
            Authority::make("operators", Lifetime::AUTHORITY, now(), [n; 16]).expect("an authority");
        Self { authority, pem: made.certificate }
    }

    /// Certificate and key, PEM.
    pub fn client(&self, role: Role) -> (String, String) {
        let made = self.authority.issue("alice", role, Lifetime::CLIENT, now(), [9; 16]).expect("a client");
        (made.certificate, made.key.to_string())
    }
}

pub struct Server {
    pub address: SocketAddr,
    pub fingerprint: Fingerprint,
    pub certificate: Vec<u8>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Serves; clients must be of one of the authorities where there is one.
    pub async fn start(authorities: &[&OperatorCa], answers: Box<Answers>) -> Self {
        let serving = Serving::make("edge-1", &[], now(), [7; 16]).expect("a certificate");
        let fingerprint = serving.fingerprint();
        let certificate = serving.certificate.to_vec();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3");
        let builder = match authorities {
            [] => builder.with_no_client_auth(),
            some => {
                let mut roots = rustls::RootCertStore::empty();
                for one in some {
                    roots.add(one.der().clone()).expect("an authority");
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a verifier"))
            }
        };
        let key = PrivateKeyDer::try_from(serving.key.to_vec()).expect("PKCS#8");
        let mut config = builder.with_single_cert(vec![serving.certificate], key).expect("a server");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, answers) = (Arc::clone(&seen), Arc::<Answers>::from(answers));
        tokio::spawn(async move {
            for connection in 1.. {
                let Ok((tcp, _)) = listener.accept().await else { return };
                let (acceptor, kept, answers) = (acceptor.clone(), Arc::clone(&kept), Arc::clone(&answers));
                tokio::spawn(async move { serve(tcp, &acceptor, connection, &kept, &*answers).await });
            }
        });
        Self { address, fingerprint, certificate, seen }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic").clone()
    }
}

async fn serve(
    tcp: TcpStream,
    acceptor: &TlsAcceptor,
    connection: usize,
    kept: &Mutex<Vec<Seen>>,
    answers: &Answers,
) -> Option<()> {
    let mut tls = match acceptor.accept(tcp).into_fallible().await {
        Ok(tls) => tls,
        Err((_, mut tcp)) => {
            // The alert is out; a reset must not overtake it.
            let _ = tcp.shutdown().await;
            let _ = tcp.read(&mut [0; 4096]).await;
            return None;
        }
    };
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if tls.read_buf(&mut buffer).await.ok()? == 0 {
                return None;
            }
        };
        let head: Vec<u8> = buffer.drain(..end).collect();
        let head = String::from_utf8(head).ok()?;
        let mut lines = head.split("\r\n");
        let line = lines.next()?.to_owned();
        let headers: Vec<_> = lines
            .filter_map(|l| l.split_once(": "))
            .map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned()))
            .collect();
        let length = headers
            .iter()
            .find(|(n, _)| n == "content-length")
            .and_then(|(_, v)| v.parse().ok())
            .unwrap_or(0);
        while buffer.len() < length {
            if tls.read_buf(&mut buffer).await.ok()? == 0 {
                return None;
            }
        }
        let body = buffer.drain(..length).collect();
        let one = Seen { line, headers, body, connection };
        let reply = answers(&one);
        kept.lock().expect("no panic").push(one);
        tls.write_all(&reply.bytes).await.ok()?;
        tls.flush().await.ok()?;
        if reply.close {
            let _ = tls.shutdown().await;
            return None;
        }
    }
}
