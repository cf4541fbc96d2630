//! A client that does as little as it can: rustls over a blocking socket, HTTP/1.1 by hand.
//!
//! It trusts whatever server answers: what is measured is a node that this program has just set up.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// Which key agreement is offered, and no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Classic,
    PostQuantum,
}

/// Knows where and as whom.
pub(super) struct Caller {
    address: IpAddr,
    classic: Arc<ClientConfig>,
    post_quantum: Arc<ClientConfig>,
}

/// One connection.
pub(super) struct Open(StreamOwned<ClientConnection, TcpStream>);

/// What both sides must have agreed on alike, for their times to be compared.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) suite: String,
    group: String,
    /// Sent for a resumption, which costs the server something and which we never offer.
    tickets: u32,
}

impl Caller {
    pub(super) fn new(address: IpAddr, certificate: &Path, key: &Path) -> Result<Self> {
        let config = |group| -> Result<Arc<ClientConfig>> {
            let mut provider = aws_lc_rs::default_provider();
            provider.kx_groups = vec![group];
            let provider = Arc::new(provider);
            let chain = vec![CertificateDer::from_pem_file(certificate)?];
            let key = PrivateKeyDer::from_pem_slice(&fs::read(key)?)?;
            let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Whoever(provider)))
                .with_client_auth_cert(chain, key)?;
            config.resumption = rustls::client::Resumption::disabled();
            Ok(Arc::new(config))
        };
        Ok(Self {
            address,
            classic: config(aws_lc_rs::kx_group::X25519)?,
            post_quantum: config(aws_lc_rs::kx_group::X25519MLKEM768)?,
        })
    }

    pub(super) fn open(&self, port: u16, group: Group) -> Result<Open> {
        let config = match group {
            Group::Classic => &self.classic,
            Group::PostQuantum => &self.post_quantum,
        };
        let tls = ClientConnection::new(Arc::clone(config), ServerName::from(self.address))?;
        let limit = Duration::from_secs(20);
        let tcp = TcpStream::connect_timeout(&SocketAddr::new(self.address, port), limit)?;
        tcp.set_read_timeout(Some(limit))?;
        tcp.set_nodelay(true)?;
        Ok(Open(StreamOwned::new(tls, tcp)))
    }

    /// A connection, one answer, and its end.
    pub(super) fn get(&self, port: u16, group: Group, path: &str) -> Result<Agreed> {
        let mut open = self.open(port, group)?;
        write!(open.0, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
        let mut all = Vec::new();
        // s_server ends without a close_notify.
        match open.0.read_to_end(&mut all) {
            Err(e) if e.kind() != std::io::ErrorKind::UnexpectedEof => return Err(e.into()),
            _ => {}
        }
        if all.starts_with(b"HTTP/1.0 200") || all.starts_with(b"HTTP/1.1 200") {
            return open.agreed().context("no handshake");
        }
        bail!("GET {path}: {:?}", String::from_utf8_lossy(all.get(..all.len().min(100)).unwrap_or_default()))
    }
}

impl Open {
    fn agreed(&self) -> Option<Agreed> {
        let tls = &self.0.conn;
        Some(Agreed {
            suite: format!("{:?}", tls.negotiated_cipher_suite()?.suite()),
            group: format!("{:?}", tls.negotiated_key_exchange_group()?.name()),
            tickets: tls.tls13_tickets_received(),
        })
    }

    /// Asks once more; the status and the body.
    pub(super) fn ask(&mut self, path: &str) -> Result<(u16, Vec<u8>)> {
        write!(self.0, "GET {path} HTTP/1.1\r\nHost: node\r\n\r\n")?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            head.extend_from_slice(&byte);
        }
        let head = String::from_utf8(head)?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        let field = |name: &str| head.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        if let Some(length) = field("content-length:") {
            let mut body = vec![0; length.parse()?];
            self.0.read_exact(&mut body)?;
            return Ok((status, body));
        }
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(self.line()?.trim(), 16)?;
            let at = body.len();
            body.resize(at + length, 0);
            self.0.read_exact(body.get_mut(at..).unwrap_or_default())?;
            self.line()?;
            if length == 0 {
                return Ok((status, body));
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            line.extend_from_slice(&byte);
        }
        Ok(String::from_utf8(line)?)
    }
}

#[derive(Debug)]
struct Whoever(Arc<CryptoProvider>);

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
