//! Clients: curl, openssl, and rustls where the bytes are of our choice.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

/// The programs that play clients are there.
pub(crate) fn tools() -> Result<(), String> {
    for (program, version) in [("curl", "--version"), ("openssl", "version")] {
        Command::new(program).arg(version).output().map_err(|e| format!("{program}(1): {e}"))?;
    }
    Ok(())
}

/// What curl got.
#[derive(Debug)]
pub(crate) struct Got {
    /// 0: no answer.
    pub(crate) status: u16,
    pub(crate) version: String,
    pub(crate) headers: String,
    pub(crate) body: String,
    /// curl's own: 0, or see curl(1).
    pub(crate) exit: i32,
}

impl Got {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

pub(crate) type Files = (PathBuf, PathBuf);

/// `curl`, with a client's files, at a path, with more options.
pub(crate) fn curl(at: SocketAddr, files: Option<&Files>, path: &str, more: &[&str]) -> Got {
    let folder = tempfile::tempdir().expect("a folder");
    let (body, headers) = (folder.path().join("body"), folder.path().join("headers"));
    let mut command = Command::new("curl");
    command.args(["--silent", "--insecure", "--max-time", "30", "--path-as-is", "--globoff"]);
    command.args(["--write-out", "%{http_code} %{http_version}"]);
    command.arg("--output").arg(&body).arg("--dump-header").arg(&headers);
    if let Some((certificate, key)) = files {
        command.arg("--cert").arg(certificate).arg("--key").arg(key);
    }
    command.args(more).arg(format!("https://{at}{path}"));
    let out = command.output().expect("curl starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let (status, version) = text.split_once(' ').unwrap_or_else(|| panic!("curl says {text}"));
    let read = |p: &Path| String::from_utf8_lossy(&std::fs::read(p).unwrap_or_default()).into_owned();
    Got {
        status: status.parse().expect("a number"),
        version: version.to_owned(),
        headers: read(&headers).to_lowercase(),
        body: read(&body),
        exit: out.status.code().unwrap_or(-1),
    }
}

/// All that `openssl s_client` says, with nothing to send.
pub(crate) fn s_client(at: SocketAddr, more: &[&str]) -> String {
    let mut child = Command::new("timeout")
        .args(["10", "openssl", "s_client", "-connect", &at.to_string()])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl starts");
    let input = child.stdin.take().expect("piped");
    // Tickets come after the handshake, if they come.
    std::thread::sleep(Duration::from_secs(1));
    drop(input);
    let out = child.wait_with_output().expect("openssl ends");
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Takes any server, and says what it showed.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A TLS connection, its handshake done.
pub(crate) fn connect(at: SocketAddr, files: Option<&Files>, alpn: &str) -> Stream {
    let stream = TcpStream::connect(at).expect("a connection");
    over(stream, files, alpn).expect("a handshake")
}

/// The same from another address of this machine.
pub(crate) fn connect_from(from: IpAddr, at: SocketAddr) -> Option<Stream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&fd, &SocketAddr::new(from, 0)).expect("an address of loopback");
    connect(&fd, &at).ok()?;
    over(TcpStream::from(fd), None, "http/1.1").ok()
}

/// The same whose end of the socket takes next to nothing: it is full at once.
pub(crate) fn connect_narrow(at: SocketAddr, files: &Files) -> Stream {
    use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&fd, 4096).expect("a socket");
    connect(&fd, &at).expect("a connection");
    over(TcpStream::from(fd), Some(files), "http/1.1").expect("a handshake")
}

pub(crate) fn over(stream: TcpStream, files: Option<&Files>, alpn: &str) -> std::io::Result<Stream> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)));
    let mut config = match files {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(certificate).expect("a certificate")],
                PrivateKeyDer::from_pem_file(key).expect("a key"),
            )
            .expect("a client"),
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let connection =
        ClientConnection::new(Arc::new(config), "edge-1".try_into().expect("a name")).expect("a client");
    let mut stream = StreamOwned::new(connection, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Sends bytes, and reads until there is this in the answer, or its end.
pub(crate) fn exchange(stream: &mut Stream, bytes: &[u8], until: &str) -> String {
    stream.write_all(bytes).expect("the edge takes it");
    stream.flush().expect("the edge takes it");
    read_until(stream, until)
}

pub(crate) fn read_until(stream: &mut Stream, until: &str) -> String {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if !until.is_empty() && text.contains(until) {
            return text;
        }
        match stream.read(&mut some) {
            Ok(0) => return text,
            Ok(n) => all.extend_from_slice(&some[..n]),
            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                panic!("neither `{until}` nor the end came: {text}")
            }
            // A connection that was cut.
            Err(_) => return text,
        }
    }
}

/// One request of HTTP/2 in bytes of our choice, and what came back, as text: heads are packed, bodies are not. `:method` and `:scheme`
/// are those of a read.
pub(crate) fn h2(stream: &mut Stream, fields: &[(&str, &str)]) -> String {
    let mut block = Vec::new();
    // Pseudo fields first (RFC 9113, 8.3), each a literal without an index (RFC 7541, 6.2.2).
    let (pseudo, plain): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| name.starts_with(':'));
    for (name, value) in [(":method", "GET"), (":scheme", "https")].iter().chain(pseudo).chain(plain) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|n| *n < 127).expect("short"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // An empty SETTINGS, and HEADERS of stream 1 with the end of both (RFC 9113, 6.2, 6.5).
    bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0, 0, u8::try_from(block.len()).expect("short"), 1, 5, 0, 0, 0, 1]);
    bytes.extend_from_slice(&block);
    exchange(stream, &bytes, "}")
}
