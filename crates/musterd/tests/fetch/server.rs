//! A real HTTPS server with an authority of its own, that answers what a test says.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Whom servers are signed by.
pub(crate) struct Signer(CertifiedIssuer<'static, KeyPair>);

/// A server's certificate and key.
pub(crate) struct Shown(Arc<ServerConfig>);

impl Signer {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Of a server with these names, in these years.
    pub(crate) fn shown(&self, names: &[&str], years: (i32, i32)) -> Shown {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Shown(Arc::new(config))
    }
}

/// What is answered.
#[derive(Clone)]
pub(crate) enum Answer {
    /// These bytes, and the end as TLS has it.
    Whole(Vec<u8>),
    /// These bytes, and a connection that is gone.
    Cut(Vec<u8>),
    /// These bytes one by one, with so long between.
    Slow(Vec<u8>, Duration),
    /// Nothing, for so long.
    Nothing(Duration),
}

/// 200 with this body.
pub(crate) fn ok(body: &str) -> Answer {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    Answer::Whole([head.as_bytes(), body.as_bytes()].concat())
}

/// A status with a body that must not be repeated anywhere.
pub(crate) fn status(code: u16, more: &str) -> Answer {
    let body = "CANARY-OF-THE-BODY";
    let head = format!(
        "HTTP/1.1 {code} CANARY-OF-THE-REASON\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n{body}",
        body.len()
    );
    Answer::Whole(head.into_bytes())
}

type Says = dyn Fn(usize) -> Answer + Send + Sync;

/// Listens until it is dropped.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    connected: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
}

impl Server {
    /// `says` is given the number of the request, from 0.
    pub(crate) fn start(
        at: SocketAddr,
        shown: Shown,
        says: impl Fn(usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::on(TcpListener::bind(at).unwrap(), shown, says)
    }

    /// The same where somebody listens already.
    pub(crate) fn on(
        listener: TcpListener,
        shown: Shown,
        says: impl Fn(usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let server = Self {
            at: listener.local_addr().unwrap(),
            heads: Arc::default(),
            connected: Arc::default(),
            ends: Arc::default(),
        };
        let (heads, connected, ends) =
            (Arc::clone(&server.heads), Arc::clone(&server.connected), Arc::clone(&server.ends));
        let says: Arc<Says> = Arc::new(says);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                connected.fetch_add(1, Ordering::SeqCst);
                let (config, says, heads) = (Arc::clone(&shown.0), Arc::clone(&says), Arc::clone(&heads));
                std::thread::spawn(move || serve(stream, config, &*says, &heads));
            }
        });
        server
    }

    /// The heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// How many connections came.
    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.at);
    }
}

fn serve(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    says: &Says,
    heads: &Mutex<Vec<String>>,
) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let mut tls = StreamOwned::new(ServerConnection::new(config).ok()?, stream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        tls.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let nth = {
        let mut heads = heads.lock().unwrap();
        heads.push(String::from_utf8_lossy(&head).into_owned());
        heads.len() - 1
    };
    match says(nth) {
        Answer::Whole(bytes) => {
            tls.write_all(&bytes).ok()?;
            tls.conn.send_close_notify();
            tls.flush().ok()?;
        }
        Answer::Cut(bytes) => {
            tls.write_all(&bytes).ok()?;
            tls.flush().ok()?;
        }
        Answer::Slow(bytes, pause) => {
            for byte in bytes {
                tls.write_all(&[byte]).ok()?;
                tls.flush().ok()?;
                std::thread::sleep(pause);
            }
        }
        Answer::Nothing(long) => std::thread::sleep(long),
    }
    Some(())
}
