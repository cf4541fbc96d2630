//! A core for tests: real frames, real judgement of evidence, answers that a test can tell apart.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use base64ct::{Base64, Encoding as _};
use muster_core::{Role, UtcTime};
use muster_tls::authority::Issued;
use muster_tls::{Authority, Evidence, Lifetime, Serving};
use musterd::wire::{self, Ask, Call, FaultMessage, Hello, Kind, Reply, Serve, ToCore, ToEdge};

pub(crate) fn now() -> UtcTime {
    UtcTime::from_unix(muster_sys::clock::unix_seconds())
}

pub(crate) fn serial() -> [u8; 16] {
    muster_sys::system::random_128().expect("random bytes")
}

/// What of the core a test looks at, and changes.
#[derive(Default)]
struct State {
    /// In order: `open alice 127.0.0.1`, `close`, `turned-away expired`, `call GET /v1/node`, `gone quiet`.
    events: Vec<String>,
    handles: HashMap<String, String>,
    /// To the edge.
    link: Option<UnixStream>,
    /// All connections, to be cut.
    all: Vec<UnixStream>,
    serve: Option<Serve>,
    /// Names that are revoked.
    revoked: Vec<String>,
}

pub(crate) struct Core {
    state: Arc<(Mutex<State>, Condvar)>,
    /// Lines that followers of `fed` get.
    stop: Arc<AtomicBool>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) authority: Arc<Authority>,
}

/// What serves: certificate and key.
pub(crate) fn serve(authority: Option<&Authority>, listen: SocketAddr) -> Serve {
    let serving = Serving::make("edge-1", &[], now(), serial()).expect("a certificate");
    Serve {
        certificate: serving.certificate.to_vec(),
        key: serving.key.to_vec(),
        listen,
        authority: authority.map(|a| Base64::encode_string(a.ca().der())),
    }
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

impl Core {
    pub(crate) fn start(claimed: bool) -> Self {
        let (authority, _) =
            Authority::make("operators", Lifetime::AUTHORITY, now(), serial()).expect("an authority");
        let core = Self {
            state: Arc::default(),
            stop: Arc::default(),
            folder: tempfile::tempdir().expect("a folder"),
            authority: Arc::new(authority),
        };
        core.set_serve(serve(claimed.then_some(&*core.authority), loopback()));
        core.listen();
        core
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("core.sock")
    }

    /// Listens until [`Self::crash`].
    pub(crate) fn listen(&self) {
        let _ = std::fs::remove_file(self.socket());
        let listener = UnixListener::bind(self.socket()).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        self.stop.store(false, Ordering::SeqCst);
        let (state, stop) = (Arc::clone(&self.state), Arc::clone(&self.stop));
        let authority = Arc::clone(&self.authority);
        std::thread::spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).expect("a socket");
                        let (state, authority) = (Arc::clone(&state), Arc::clone(&authority));
                        state.0.lock().unwrap().all.push(stream.try_clone().expect("a socket"));
                        std::thread::spawn(move || connection(&state, &authority, stream));
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        });
    }

    /// Gone, with all its connections and handles.
    pub(crate) fn crash(&self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = std::fs::remove_file(self.socket());
        let mut state = self.state.0.lock().unwrap();
        for stream in state.all.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        state.link = None;
        state.handles.clear();
    }

    pub(crate) fn set_serve(&self, serve: Serve) {
        self.state.0.lock().unwrap().serve = Some(serve);
    }

    /// Serves something else from now on.
    pub(crate) fn reload(&self, serve: Serve) {
        self.set_serve(serve.clone());
        self.tell(&ToEdge::Serve(serve));
    }

    pub(crate) fn serve_now(&self) -> Serve {
        self.state.0.lock().unwrap().serve.clone().expect("set")
    }

    fn tell(&self, message: &ToEdge) {
        let mut state = self.state.0.lock().unwrap();
        let link = state.link.as_mut().expect("a link");
        link.write_all(&wire::message(message).expect("short")).expect("the edge");
    }

    /// Drops the handles of a client.
    pub(crate) fn cut(&self, name: &str) {
        let handles: Vec<String> = {
            let state = self.state.0.lock().unwrap();
            state.handles.iter().filter(|(_, n)| *n == name).map(|(h, _)| h.clone()).collect()
        };
        assert!(!handles.is_empty(), "{name} has no handle");
        for handle in handles {
            self.state.0.lock().unwrap().handles.remove(&handle);
            self.tell(&ToEdge::Drop { handle });
        }
    }

    pub(crate) fn revoke(&self, name: &str) {
        self.state.0.lock().unwrap().revoked.push(name.to_owned());
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.state.0.lock().unwrap().events.clone()
    }

    /// Waits until an event of this beginning has happened so many times.
    pub(crate) fn wait_for(&self, beginning: &str, times: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        let mut state = self.state.0.lock().unwrap();
        while state.events.iter().filter(|e| e.starts_with(beginning)).count() < times {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no {times} of `{beginning}` in {:?}", state.events);
            state = self.state.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// A client's certificate and key, in files.
    pub(crate) fn client(&self, name: &str) -> (PathBuf, PathBuf) {
        let issued = self.authority.issue(name, Role::Admin, Lifetime::CLIENT, now(), serial());
        keep(self.folder.path(), name, &issued.expect("a client"))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.crash();
    }
}

pub(crate) fn keep(folder: &Path, name: &str, issued: &Issued) -> (PathBuf, PathBuf) {
    let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
    std::fs::write(&certificate, &issued.certificate).expect("a file");
    std::fs::write(&key, issued.key.as_bytes()).expect("a file");
    (certificate, key)
}

type Shared = Arc<(Mutex<State>, Condvar)>;

fn note(state: &Shared, event: String) {
    state.0.lock().unwrap().events.push(event);
    state.1.notify_all();
}

fn connection(state: &Shared, authority: &Authority, mut stream: UnixStream) {
    match wire::read_message::<Hello>(&mut stream) {
        Ok(Some(Hello::Link { version })) => {
            assert_eq!(version, wire::VERSION);
            link(state, authority, stream.try_clone().expect("a socket"));
        }
        Ok(Some(Hello::Call(call))) => {
            let body = wire::read_body(&mut stream, 8 << 20).expect("a body");
            answer(state, &call, &body, &mut stream);
        }
        Ok(Some(Hello::Enroll { address })) => {
            let body = wire::read_body(&mut stream, 8 << 20).expect("a body");
            note(state, format!("enroll {address} {}", body.len()));
            let body = format!("{{\"enrolled\":true,\"bytes\":{}}}", body.len());
            reply(&mut stream, 200, "application/json", body.as_bytes());
        }
        _ => {}
    }
    // There is another descriptor of it, in the list of all.
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

fn link(state: &Shared, authority: &Authority, mut stream: UnixStream) {
    {
        let mut state = state.0.lock().unwrap();
        let serve = state.serve.clone().expect("set");
        stream.write_all(&wire::message(&ToEdge::Serve(serve)).expect("short")).expect("the edge");
        state.link = Some(stream.try_clone().expect("a socket"));
    }
    note(state, "link".to_owned());
    while let Ok(Some(message)) = wire::read_message::<ToCore>(&mut stream) {
        match message {
            ToCore::Open { id, address, proof } => {
                let evidence = Evidence {
                    certificate: &proof.certificate,
                    message: &proof.message,
                    scheme: proof.scheme,
                    signature: &proof.signature,
                };
                let client =
                    authority.ca().verify_evidence(&evidence, None, now()).expect("the edge let it in");
                let mut locked = state.0.lock().unwrap();
                let message = if locked.revoked.contains(&client.name) {
                    let fault = muster_api::Fault::new(
                        muster_api::Kind::Unproven,
                        "revoked",
                        "the certificate was revoked",
                    );
                    ToEdge::NotOpened { id, fault: FaultMessage { status: 401, fault } }
                } else {
                    let handle: String = serial().iter().map(|b| format!("{b:02x}")).collect();
                    locked.handles.insert(handle.clone(), client.name.clone());
                    ToEdge::Opened { id, handle }
                };
                drop(locked);
                note(state, format!("open {} {address}", client.name));
                let _ = stream.write_all(&wire::message(&message).expect("short"));
            }
            ToCore::Close { handle } => {
                let name = state.0.lock().unwrap().handles.remove(&handle);
                note(state, format!("close {}", name.unwrap_or_default()));
            }
            ToCore::TurnedAway { address, reason, certificate } => {
                let shown = if certificate.is_some() { "shown" } else { "nothing" };
                note(state, format!("turned-away {reason} {shown} {address}"));
            }
            ToCore::Refused(refused) => note(state, format!("refused {:?}", refused.why)),
            ToCore::Untold { count } => note(state, format!("untold {count}")),
        }
    }
}

fn reply(stream: &mut UnixStream, status: u16, content: &str, body: &[u8]) {
    begin(stream, status, content);
    let _ = wire::write_body(stream, body);
}

fn begin(stream: &mut UnixStream, status: u16, content: &str) {
    let reply = Reply {
        status,
        content: content.to_owned(),
        audit: Some("7:abc".to_owned()),
        retry_after: None,
        no_store: content != "application/json",
    };
    let _ = stream.write_all(&wire::message(&reply).expect("short"));
}

fn piece(stream: &mut UnixStream, text: &[u8]) -> bool {
    stream.write_all(&wire::frame(Kind::Piece, text).expect("short")).is_ok()
}

/// Whether the edge closed it within so long.
fn gone(stream: &UnixStream, patience: Duration) -> bool {
    use std::io::Read as _;
    let mut stream = stream;
    stream.set_read_timeout(Some(patience)).expect("a socket");
    matches!(stream.read(&mut [0]), Ok(0))
}

fn answer(state: &Shared, call: &Call, body: &[u8], stream: &mut UnixStream) {
    note(state, format!("call {}", call.request));
    let Some(name) = state.0.lock().unwrap().handles.get(&call.handle).cloned() else { return };
    match &call.ask {
        Ask::Logs { unit, .. } => {
            begin(stream, 200, "application/x-ndjson");
            let unit = unit.clone().unwrap_or_default();
            follow(state, &unit, stream);
        }
        Ask::Reboot => {}
        Ask::Drain => {
            std::thread::sleep(Duration::from_secs(1));
            reply(stream, 200, "application/json", b"{\"status\":\"drained\"}");
        }
        // Its beginning, and no end.
        Ask::Kubeconfig { server: Some(server) } if server == "half" => {
            begin(stream, 200, "application/yaml");
            piece(stream, b"kind: Config\n");
        }
        // Whole, and longer than an answer may be that is no stream.
        Ask::Kubeconfig { server: Some(server) } if server == "long" => {
            reply(stream, 200, "application/yaml", &vec![b'x'; (4 << 20) + 1]);
        }
        Ask::Kubeconfig { .. } => reply(stream, 200, "application/yaml", b"kind: Config\n"),
        _ => {
            let proof = call.proof.clone().unwrap_or_default();
            let told = serde_json::json!({
                "name": name, "request": call.request, "bytes": body.len(), "proof": proof,
            });
            reply(stream, 200, "application/json", told.to_string().as_bytes());
        }
    }
}

fn follow(state: &Shared, unit: &str, stream: &mut UnixStream) {
    match unit {
        // As fast as it is taken.
        "flood" => while piece(stream, &[b'x'; 32 * 1024]) {},
        // One line, silence, and another line.
        "quiet" => {
            piece(stream, b"{\"message\":\"first\"}\n");
            if !gone(stream, Duration::from_secs(3)) {
                piece(stream, b"{\"message\":\"second\"}\n");
                let _ = stream.write_all(&wire::frame(Kind::End, &[]).expect("short"));
            }
        }
        // Lines until somebody leaves.
        "fed" => {
            while !gone(stream, Duration::from_millis(50)) {
                piece(stream, b"{\"message\":\"line\"}\n");
            }
        }
        // An answer that is cut off.
        "torn" => {
            piece(stream, b"{\"message\":\"first\"}\n");
        }
        _ => {
            piece(stream, b"{\"message\":\"only\"}\n");
            let _ = stream.write_all(&wire::frame(Kind::End, &[]).expect("short"));
        }
    }
    note(state, format!("gone {unit}"));
}
