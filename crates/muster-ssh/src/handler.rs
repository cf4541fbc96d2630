//! What the SSH library asks of us during a session. The answer is "no" to everything that a server
//! may start: the library's own default is to accept every channel that a server opens.

use std::sync::{Arc, Mutex};

use muster_core::UtcTime;
use russh::client::{self, ChannelOpenHandle, DisconnectReason, Msg, Session};
use russh::keys::PublicKeyOrCertificate;
use russh::{Channel, ChannelId, ChannelOpenFailure, Names};

use crate::certificate::{certificate_kind, printable};
use crate::fingerprint::{Fingerprint, blob_kind_name};
use crate::stream::{Control, lock};
use crate::trust::{Basis, HostTrust, Untrusted};

/// The algorithms that were agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithms {
    /// Key exchange.
    pub kex: String,
    /// Cipher.
    pub cipher: String,
    /// MAC, where the cipher needs one.
    pub mac: Option<String>,
    /// Whether both sides keep the strict order of the handshake.
    pub strict: bool,
}

/// What came of the host's key.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) fingerprint: Fingerprint,
    /// The kind, with its certificate suffix where it is one.
    pub(crate) kind: String,
    pub(crate) blob: Vec<u8>,
    pub(crate) verdict: Result<Basis, Untrusted>,
}

/// What a session leaves behind for those who wait on it.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) shown: Option<Shown>,
    pub(crate) algorithms: Option<Algorithms>,
    pub(crate) banner: String,
    /// How it ended. `None` while it lives.
    pub(crate) ended: Option<String>,
    /// The server's words on the last channel that it refused.
    pub(crate) refused: Option<String>,
    /// Channels that the server tried to open to us.
    pub(crate) unasked: u32,
}

/// Shared between a session and its owner.
pub(crate) struct Shared {
    pub(crate) control: Arc<Control>,
    trust: HostTrust,
    now: UtcTime,
    notes: Mutex<Notes>,
}

impl Shared {
    pub(crate) fn new(control: Arc<Control>, trust: HostTrust, now: UtcTime) -> Arc<Self> {
        Arc::new(Self { control, trust, now, notes: Mutex::new(Notes::default()) })
    }

    pub(crate) fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        lock(&self.notes)
    }

    /// Judges the key that the exchange was signed with: the bytes that came, not a re-encoding.
    fn judge(&self, presented: &PublicKeyOrCertificate) -> bool {
        let Some(blob) = self.control.seen().host_key.clone() else { return false };
        let is_certificate = certificate_kind(&blob).is_some();
        // The library verified the exchange with its own reading of these bytes. Should the two
        // readings ever differ, nothing is trusted.
        let same = match presented {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                !is_certificate && key.to_bytes().is_ok_and(|b| b == blob)
            }
            PublicKeyOrCertificate::Certificate(cert) => {
                is_certificate && cert.to_bytes().is_ok_and(|b| b == blob)
            }
        };
        let verdict = if !same {
            Err(Untrusted::Weak("its key is encoded in an unusual way".to_owned()))
        } else if is_certificate {
            self.trust.check_certificate(&blob, self.now)
        } else {
            self.trust.check_key(&blob)
        };
        let ok = verdict.is_ok();
        let kind = printable(blob_kind_name(&blob).unwrap_or_default());
        let fingerprint = Fingerprint::of_blob(&blob);
        self.notes().shown = Some(Shown { fingerprint, kind, blob, verdict });
        ok
    }
}

/// The library's side of a session.
pub(crate) struct Handler {
    shared: Arc<Shared>,
}

impl Handler {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn unasked(&self) {
        let mut notes = self.shared.notes();
        notes.unasked = notes.unasked.saturating_add(1);
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // Also the way out of a panic in the library: whoever waits must not wait for ever.
        self.shared.notes().ended.get_or_insert_with(|| "the session ended".to_owned());
        self.shared.control.cut("the session ended");
    }
}

/// Refuses, counts, goes on. The handle's drop would refuse as well; saying it is clearer.
macro_rules! refuse {
    ($self:ident, $reply:ident) => {{
        $self.unasked();
        $reply.reject(ChannelOpenFailure::AdministrativelyProhibited).await;
        Ok(())
    }};
}

impl client::Handler for Handler {
    type Error = russh::Error;

    async fn auth_banner(&mut self, banner: &str, _: &mut Session) -> Result<(), Self::Error> {
        let mut notes = self.shared.notes();
        if notes.banner.len() < 4096 {
            let text: String = banner
                .chars()
                .take(4096)
                .map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c })
                .collect();
            notes.banner.push_str(&text);
        }
        Ok(())
    }

    async fn check_server_key(&mut self, presented: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        Ok(self.shared.judge(presented))
    }

    async fn kex_done(
        &mut self,
        _: Option<&[u8]>,
        names: &Names,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        let mac = names.client_mac.as_ref();
        self.shared.notes().algorithms = Some(Algorithms {
            kex: names.kex.as_ref().to_owned(),
            cipher: names.cipher.as_ref().to_owned(),
            mac: (mac != "none"
                && !names.cipher.as_ref().contains("gcm")
                && !names.cipher.as_ref().contains("poly1305"))
            .then(|| mac.to_owned()),
            strict: names.strict_kex(),
        });
        Ok(())
    }

    async fn channel_open_failure(
        &mut self,
        _: ChannelId,
        reason: ChannelOpenFailure,
        description: &str,
        _: &str,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        self.shared.notes().refused = Some(format!("{} ({})", printable(description), reason.description()));
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Self::Error>) -> Result<(), Self::Error> {
        let (why, result) = match reason {
            DisconnectReason::ReceivedDisconnect(info) => {
                (format!("the host disconnected: {:?}", printable(&info.message)), Ok(()))
            }
            DisconnectReason::Error(e) => (describe(&e), Err(e)),
        };
        let why = match self.shared.control.why_cut() {
            Some(cut) => cut.to_owned(),
            None => why,
        };
        self.shared.notes().ended.get_or_insert(why);
        result
    }

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        refuse!(self, reply)
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        refuse!(self, reply)
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        refuse!(self, reply)
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        refuse!(self, reply)
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        refuse!(self, reply)
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        refuse!(self, reply)
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        refuse!(self, reply)
    }
}

/// The library's errors in a person's words.
pub(crate) fn describe(e: &russh::Error) -> String {
    match e {
        russh::Error::Disconnect | russh::Error::HUP => "the host closed the connection".to_owned(),
        russh::Error::IO(io) => match io.kind() {
            std::io::ErrorKind::UnexpectedEof => "the host closed the connection".to_owned(),
            _ => io.to_string(),
        },
        russh::Error::NoAuthMethod => "the host takes no further login".to_owned(),
        russh::Error::WrongServerSig => "the host's signature of the key exchange is wrong".to_owned(),
        russh::Error::PacketAuth | russh::Error::DecryptionError => {
            "a packet was changed on the way".to_owned()
        }
        other => printable(&other.to_string()),
    }
}
