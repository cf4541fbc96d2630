//! A core, an edge, and clients.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_core::{Role, UtcTime};
use muster_tls::authority::Issued;
use muster_tls::{Authority, Lifetime, Serving};
use musterd::wire::{
    Ask, Call, FaultMessage, Hello, Proof, Reply, Serve, ToCore, ToEdge, VERSION, message, read_body,
    read_message, write_body,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    ServerConnection, SignatureScheme,
};

/// Longest wait for what is about to happen.
pub const SOON: Duration = Duration::from_secs(20);

pub fn now() -> UtcTime {
    UtcTime::from_unix(muster_sys::clock::unix_seconds())
}

/// Operators and their authority.
pub struct Operators {
    pub authority: Authority,
    pub pem: String,
    pub key: String,
}

impl Operators {
    pub fn new(serial: u8) -> Self {
        let (authority, issued) =
            Authority::make("operators", Lifetime::AUTHORITY, now(), [serial; 16]).unwrap();
        Self { authority, pem: issued.certificate, key: issued.key.to_string() }
    }

    pub fn client(&self, name: &str, role: Role, serial: u8) -> Issued {
        self.authority.issue(name, role, Lifetime::CLIENT, now(), [serial; 16]).unwrap()
    }

    pub fn proof(&self, name: &str, role: Role, serial: u8) -> Proof {
        let issued = self.client(name, role, serial);
        handshake(&issued.certificate, &issued.key)
    }
}

/// A folder that stands for `/`, and the core that runs on it.
pub struct Node {
    root: tempfile::TempDir,
    child: Option<Child>,
    pub edge_uid: u32,
}

impl Node {
    /// A node that these operators own by its document.
    pub fn owned(by: &Operators) -> Self {
        let node = Self::with_document(&document(by, ""));
        node.start()
    }

    /// One with this document that is not started.
    pub fn with_document(text: &str) -> Self {
        Self::below(tempfile::tempdir().unwrap(), text)
    }

    /// The same in memory where there is a file system of that kind: for what is repeated often, and not about the disk.
    pub fn in_memory(text: &str) -> Self {
        Self::below(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap(), text)
    }

    fn below(root: tempfile::TempDir, text: &str) -> Self {
        for made in ["etc", "etc/muster", "var", "var/lib", "run"] {
            fs::create_dir(root.path().join(made)).unwrap();
        }
        fs::write(root.path().join("etc/muster/config.yaml"), text).unwrap();
        let mode = |m| fs::Permissions::from_mode(m);
        fs::set_permissions(root.path().join("etc/muster/config.yaml"), mode(0o600)).unwrap();
        // Another user may have to reach the socket.
        fs::set_permissions(root.path(), mode(0o711)).unwrap();
        let edge_uid = fs::metadata(root.path()).unwrap().uid();
        let node = Self { root, child: None, edge_uid };
        node.program("/usr/bin/systemctl", "exit 0");
        node
    }

    pub fn start(mut self) -> Self {
        self.go();
        self
    }

    /// A program of the node that writes down how it was called.
    pub fn program(&self, path: &str, script: &str) {
        let at = self.path(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let called = self.path("/called");
        let text =
            ["#!/bin/bash\necho \"${0##*/} $*\" >>", called.to_str().unwrap(), "\n", script, "\n"].concat();
        fs::write(&at, text).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn called(&self) -> String {
        fs::read_to_string(self.path("/called")).unwrap_or_default()
    }

    pub fn go(&mut self) {
        self.child = Some(self.spawn());
    }

    /// Starts the core, and waits until it listens.
    pub fn spawn(&self) -> Child {
        self.spawn_telling(fs::File::create(self.root.path().join("log")).unwrap().into())
    }

    /// One to whose words nobody listens any more.
    pub fn start_unheard(mut self) -> Self {
        let (listens, told) = std::io::pipe().unwrap();
        drop(listens);
        self.child = Some(self.spawn_telling(told.into()));
        self
    }

    fn spawn_telling(&self, whom: Stdio) -> Child {
        let _ = fs::remove_file(self.socket());
        let child = Command::new(env!("CARGO_BIN_EXE_musterd"))
            .args(["core", "--edge-uid", &self.edge_uid.to_string(), "--state-root"])
            .arg(self.root.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(whom)
            .spawn()
            .unwrap();
        let until = Instant::now() + SOON;
        while UnixStream::connect(self.socket()).is_err() {
            assert!(Instant::now() < until, "the core does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        child
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.root.path().join("log")).unwrap_or_default()
    }

    /// What root on the machine types.
    pub fn console(&self, args: &[&str]) -> std::process::Output {
        Command::new(env!("CARGO_BIN_EXE_musterd"))
            .args(args)
            .arg("--socket")
            .arg(self.path("/run/muster/control.sock"))
            .output()
            .unwrap()
    }

    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.path().join(absolute.trim_start_matches('/'))
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.path(musterd::places::EDGE_SOCKET)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Asks it to end, and gives its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let mut child = self.child.take().unwrap();
        let done = Command::new("/usr/bin/kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(done.success());
        child.wait().unwrap().code()
    }

    /// A connection of its own, with a bound on every wait.
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_write_timeout(Some(SOON)).unwrap();
        stream
    }

    pub fn link(&self) -> Edge<'_> {
        let mut stream = self.connect();
        send(&mut stream, &Hello::Link { version: VERSION });
        match read_message(&mut stream).unwrap() {
            Some(ToEdge::Serve(serve)) => Edge { node: self, stream, serve, next: 0 },
            other => panic!("{other:?}"),
        }
    }

    /// The whole chain as it is on the disk.
    pub fn chain(&self) -> String {
        let mut files: Vec<_> = fs::read_dir(self.path(musterd::places::AUDIT))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some())
            .collect();
        files.sort();
        files.iter().map(|f| fs::read_to_string(f).unwrap()).collect()
    }

    /// Waits until the chain on the disk has lines like this, and gives them.
    pub fn records(&self, like: &[&str]) -> Vec<serde_json::Value> {
        let until = Instant::now() + SOON;
        loop {
            let chain = self.chain();
            let found: Vec<_> = chain
                .lines()
                .filter(|l| like.iter().all(|w| l.contains(w)))
                .map(|l| serde_json::from_str(l).unwrap())
                .collect();
            if !found.is_empty() {
                return found;
            }
            assert!(Instant::now() < until, "no record like {like:?} in\n{chain}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// KiB of memory that the core has in use.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        line.trim().split(' ').next().unwrap().parse().unwrap()
    }

    pub fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().count()
    }

    /// Connections among them.
    pub fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    pub fn alive(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_none()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("the core said: {}", self.log());
        }
    }
}

/// The document of a node that these operators own; `more` stands under `api:`.
pub fn document(by: &Operators, more: &str) -> String {
    let pem: String = by.pem.lines().map(|l| format!("      {l}\n")).collect();
    format!("muster:\n  api:\n    enabled: true\n{more}    operatorCA: |\n{pem}")
}

pub fn send(stream: &mut UnixStream, what: &impl serde::Serialize) {
    stream.write_all(&message(what).unwrap()).unwrap();
}

/// A link, as an edge has it.
pub struct Edge<'n> {
    pub node: &'n Node,
    pub stream: UnixStream,
    pub serve: Serve,
    next: u64,
}

/// What a call came to.
#[derive(Debug)]
pub struct Got {
    pub reply: Reply,
    pub body: Vec<u8>,
}

impl Got {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }
}

impl Edge<'_> {
    pub fn read(&mut self) -> ToEdge {
        read_message(&mut self.stream).unwrap().expect("the link is there")
    }

    pub fn try_open(&mut self, proof: &Proof) -> Result<String, FaultMessage> {
        let id = self.next;
        self.next += 1;
        let (address, proof) = ("192.0.2.7".to_owned(), proof.clone());
        send(&mut self.stream, &ToCore::Open { id, address, proof });
        match self.read() {
            ToEdge::Opened { id: of, handle } if of == id => Ok(handle),
            ToEdge::NotOpened { id: of, fault } if of == id => Err(fault),
            other => panic!("{other:?}"),
        }
    }

    pub fn open(&mut self, proof: &Proof) -> String {
        self.try_open(proof).unwrap()
    }

    pub fn call(&self, handle: &str, ask: Ask, request: &str) -> Got {
        self.call_with(handle, ask, request, b"", None)
    }

    pub fn call_with(
        &self,
        handle: &str,
        ask: Ask,
        request: &str,
        body: &[u8],
        proof: Option<String>,
    ) -> Got {
        self.try_call(handle, ask, request, body, proof).expect("an answer")
    }

    /// `None` where the core closed without an answer.
    pub fn try_call(
        &self,
        handle: &str,
        ask: Ask,
        request: &str,
        body: &[u8],
        proof: Option<String>,
    ) -> Option<Got> {
        let mut stream = self.node.connect();
        let (handle, request) = (handle.to_owned(), request.to_owned());
        let mut bytes = message(&Hello::Call(Call { handle, ask, request, proof })).unwrap();
        write_body(&mut bytes, body).unwrap();
        // A core that refuses reads no more.
        let _ = stream.write_all(&bytes);
        let reply = read_message::<Reply>(&mut stream).ok().flatten()?;
        let body = read_body(&mut stream, 64 << 20).ok()?;
        Some(Got { reply, body })
    }

    pub fn health(&self, handle: &str) -> Option<Got> {
        self.try_call(handle, Ask::Health, "GET /v1/health", b"", None)
    }
}

/// What one client showed of one handshake.
#[derive(Debug)]
struct Keeper {
    seen: Mutex<Vec<Proof>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Keeper {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        self.seen.lock().unwrap().push(Proof {
            certificate: certificate.to_vec(),
            message: message.to_vec(),
            scheme: u16::from(signed.scheme),
            signature: signed.signature().to_vec(),
        });
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Takes any server: these handshakes are with ourselves.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".into()))
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// One handshake in memory: what the client showed.
pub fn handshake(certificate: &str, key: &str) -> Proof {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let keeper = Arc::new(Keeper { seen: Mutex::default(), provider: Arc::clone(&provider) });
    let serving = Serving::make("edge-1", &[], now(), [9; 16]).unwrap();
    let serving_key = PrivateKeyDer::try_from(serving.key.to_vec()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(Arc::clone(&keeper) as Arc<dyn ClientCertVerifier>)
        .with_single_cert(vec![serving.certificate], serving_key)
        .unwrap();
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), "edge-1".try_into().unwrap()).unwrap();
    for _ in 0..8 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().unwrap();
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        if !wire.is_empty() {
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    keeper.seen.lock().unwrap().pop().expect("the client showed something")
}
