//! One hop's session, from bytes to a login.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use base64ct::{Base64, Encoding as _};
use muster_core::UtcTime;
use russh::client::{self, Handle};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

use crate::algorithms;
use crate::certificate::{CertificateFault, certificate_kind, printable};
use crate::error::{Cause, HopRef, Stage};
use crate::fingerprint::{Fingerprint, KeyKind};
use crate::handler::{Algorithms, Handler, Shared, describe};
use crate::route::Hop;
use crate::stream::{Control, Guarded, SILENT, lock};
use crate::trust::{Basis, Untrusted};

/// What a hop proved to be, and how we got in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopReport {
    /// Which.
    pub hop: HopRef,
    /// Its software, as it says.
    pub version: String,
    /// The kind of key or certificate it presented.
    pub key_kind: String,
    /// The fingerprint of the key or certificate it presented.
    pub fingerprint: Fingerprint,
    /// The key or certificate it presented, in its wire form.
    pub key_blob: Vec<u8>,
    /// Why it is trusted.
    pub basis: Basis,
    /// What was agreed on.
    pub algorithms: Algorithms,
    /// The identity that it took.
    pub identity: String,
    /// Its banner, if it has one.
    pub banner: String,
}

/// What sshd needs, on a busy host, to reap a command that has ended.
const REAPING: Duration = Duration::from_secs(2);

/// A hop that let us in.
pub(crate) struct Link {
    pub(crate) handle: Handle<Handler>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) report: HopReport,
    pub(crate) channel_deadline: Duration,
    keepalive: Duration,
    /// When a command on it last ended.
    session_ended: Mutex<Option<Instant>>,
    /// The bastion that carries this link. Kept alive by it.
    pub(crate) outer: Option<Arc<Link>>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.control.cut("closed here");
    }
}

/// A handshake that is done: the host is whom it must be.
pub(crate) struct Proven {
    pub(crate) handle: Handle<Handler>,
    pub(crate) shared: Arc<Shared>,
    /// Whoever gives up between the handshake and the login leaves nothing running.
    cut: CutOnDrop,
}

/// Why a handshake failed.
pub(crate) enum HandshakeFault {
    Cause(Cause),
    /// The key shown is not pinned, but a bare fingerprint may yet be that of a key of another kind
    /// that this host also has.
    OtherKind {
        shown: (String, Fingerprint),
        offers: Vec<String>,
    },
}

impl From<Cause> for HandshakeFault {
    fn from(cause: Cause) -> Self {
        Self::Cause(cause)
    }
}

/// Cuts the session that the library has already spawned when the wait for it is given up.
struct CutOnDrop(Option<Arc<Control>>);

impl Drop for CutOnDrop {
    fn drop(&mut self) {
        if let Some(control) = self.0.take() {
            control.cut("given up");
        }
    }
}

/// The handshake on a fresh stream, up to a proven host key.
pub(crate) async fn handshake<T>(
    io: T,
    hop: &Hop,
    kinds: &[KeyKind],
    now: UtcTime,
) -> Result<Proven, HandshakeFault>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let control = Control::new();
    let cut = CutOnDrop(Some(Arc::clone(&control)));
    let shared = Shared::new(Arc::clone(&control), hop.trust.clone(), now);
    let config = algorithms::config(&hop.trust, kinds, hop.timing.keepalive.interval);
    let stream = Guarded::new(io, Arc::clone(&control));
    let session = client::connect_stream(config, stream, Handler::new(Arc::clone(&shared)));
    match timeout(hop.timing.handshake, session).await {
        Err(_) => {
            let after = hop.timing.handshake;
            Err(Cause::Deadline { stage: Stage::Handshake, after }.into())
        }
        Ok(Err(e)) => Err(explain(&shared, hop, &e)),
        Ok(Ok(handle)) => {
            // The library calls the handler before it lets the handshake succeed. Were that ever to
            // change, this refuses.
            if shared.notes().shown.as_ref().is_none_or(|s| s.verdict.is_err()) {
                return Err(Cause::Protocol { why: "the host key was not judged".to_owned() }.into());
            }
            Ok(Proven { handle, shared, cut })
        }
    }
}

fn explain(shared: &Shared, hop: &Hop, e: &russh::Error) -> HandshakeFault {
    let mut seen = shared.control.seen();
    if let Some(violation) = seen.violation.take() {
        return violation.into();
    }
    let notes = shared.notes();
    if let Some(shown) = &notes.shown
        && let Err(untrusted) = &shown.verdict
    {
        let presented = (shown.kind.clone(), shown.fingerprint);
        return match untrusted {
            Untrusted::Changed if hop.trust.has_untyped_pin() => {
                HandshakeFault::OtherKind { shown: presented, offers: seen.host_keys.clone() }
            }
            Untrusted::Changed => {
                Cause::HostKeyChanged { pinned: hop.trust.pinned(), presented: vec![presented] }.into()
            }
            Untrusted::Revoked(fp) => {
                Cause::HostKeyRefused { why: format!("{fp} is marked @revoked") }.into()
            }
            Untrusted::Weak(why) => Cause::HostKeyRefused { why: why.clone() }.into(),
            Untrusted::Certificate(fault) => Cause::HostCertificateRefused(fault.clone()).into(),
        };
    }
    if let russh::Error::NoCommonAlgo { kind, ours, theirs } = e {
        return nothing_in_common(kind, ours, theirs, hop).into();
    }
    if seen.version.is_none() {
        let said = printable(String::from_utf8_lossy(&seen.said).trim());
        return match (seen.eof, said.is_empty()) {
            (true, true) => Cause::DroppedBeforeBanner { said: None }.into(),
            (true, false) => Cause::DroppedBeforeBanner { said: Some(said) }.into(),
            (false, _) => Cause::NotSsh { said }.into(),
        };
    }
    if let Some(parting) = &seen.parting {
        return Cause::Lost { why: format!("the host disconnected in the handshake: {parting:?}") }.into();
    }
    match e {
        russh::Error::Disconnect | russh::Error::HUP | russh::Error::IO(_) => {
            Cause::Lost { why: format!("{} in the handshake", describe(e)) }.into()
        }
        other => Cause::Protocol { why: format!("handshake failed: {}", describe(other)) }.into(),
    }
}

/// The two sides share no algorithm of a sort. For host keys that is an answer to whom it must be.
fn nothing_in_common(kind: &russh::AlgorithmKind, ours: &[String], theirs: &[String], hop: &Hop) -> Cause {
    let theirs: Vec<String> = theirs.iter().take(32).map(|t| printable(t)).collect();
    let sort = match kind {
        russh::AlgorithmKind::Kex => "key exchange",
        russh::AlgorithmKind::Key => "host key",
        russh::AlgorithmKind::Cipher => "cipher",
        russh::AlgorithmKind::Mac => "MAC",
        russh::AlgorithmKind::Compression => "compression",
    };
    let only_sha1 = ours.iter().any(|o| o == "rsa-sha2-512") && theirs.iter().any(|t| t == "ssh-rsa");
    if matches!(kind, russh::AlgorithmKind::Key) && !only_sha1 {
        let pinned = hop.trust.pinned();
        return if pinned.is_empty() {
            Cause::HostCertificateRefused(CertificateFault::Absent { offers: theirs })
        } else {
            Cause::HostKeyKindGone { pinned, offers: theirs }
        };
    }
    Cause::NoCommonAlgorithm { sort, ours: ours.to_vec(), theirs }
}

impl HopReport {
    /// The key that the host presented, as a line to pin; `None` for a certificate, which is not pinned.
    pub fn key_line(&self) -> Option<String> {
        certificate_kind(&self.key_blob)
            .is_none()
            .then(|| format!("{} {}", self.key_kind, Base64::encode_string(&self.key_blob)))
    }
}

impl Link {
    /// After login: liveness begins to count.
    pub(crate) fn new(
        proven: Proven,
        hop: &Hop,
        hop_ref: HopRef,
        identity: String,
        outer: Option<Arc<Link>>,
    ) -> Result<Self, Cause> {
        let Proven { handle, shared, mut cut } = proven;
        let report = {
            let seen = shared.control.seen();
            let notes = shared.notes();
            let (Some(shown), Some(algorithms)) = (&notes.shown, &notes.algorithms) else {
                return Err(Cause::Protocol { why: "the handshake left no record".to_owned() });
            };
            let Ok(basis) = &shown.verdict else {
                return Err(Cause::Protocol { why: "the host key was not accepted".to_owned() });
            };
            HopReport {
                hop: hop_ref,
                version: seen.version.clone().unwrap_or_default(),
                key_kind: shown.kind.clone(),
                fingerprint: shown.fingerprint,
                key_blob: shown.blob.clone(),
                basis: basis.clone(),
                algorithms: algorithms.clone(),
                identity,
                banner: notes.banner.clone(),
            }
        };
        let keepalive = hop.timing.keepalive;
        shared.control.logged_in(keepalive.interval.saturating_mul(keepalive.max.max(1)));
        cut.0 = None;
        Ok(Self {
            handle,
            shared,
            report,
            channel_deadline: hop.timing.channel,
            keepalive: keepalive.interval,
            session_ended: Mutex::new(None),
            outer,
        })
    }

    /// A session channel is over on our side.
    pub(crate) fn session_ends(&self) {
        *lock(&self.session_ended) = Some(Instant::now());
    }

    /// Whether the host may still count a session that is over: sshd does until it has reaped the
    /// command, and at its MaxSessions refuses the next one meanwhile.
    pub(crate) fn may_still_count_one(&self) -> bool {
        lock(&self.session_ended).is_some_and(|at| at.elapsed() < REAPING)
    }

    /// Whether it may still carry something.
    pub(crate) fn is_alive(&self) -> bool {
        !self.handle.is_closed()
            && self.shared.control.why_cut().is_none()
            && self.outer.as_ref().is_none_or(|o| o.is_alive())
    }

    /// Which hop of the chain is to blame for a loss, and how it was lost: the outermost one that is
    /// gone or has gone silent, because whatever it carries goes with it.
    pub(crate) fn blame(&self) -> (HopRef, String) {
        if let Some(outer) = &self.outer {
            let quiet = outer.shared.control.silent_for() > outer.keepalive.saturating_mul(2);
            if !outer.is_alive() || (quiet && self.shared.control.why_cut() == Some(SILENT)) {
                let (hop, why) = outer.blame();
                return (hop, why);
            }
        }
        let why = match (self.shared.control.why_cut(), &self.shared.notes().ended) {
            (Some(SILENT), _) => SILENT.to_owned(),
            (_, Some(ended)) => ended.clone(),
            (Some(cut), None) => cut.to_owned(),
            (None, None) => "the host closed the connection".to_owned(),
        };
        (self.report.hop.clone(), why)
    }
}
