//! Logging in with public keys. Every identity that is offered, or could not be, is written down, so
//! that a refusal can say what was tried and why it did not do.

use core::time::Duration;

use muster_core::UtcTime;
use russh::client::{AuthResult, Handle};
use russh::keys::agent::AgentIdentity;
use russh::keys::{HashAlg, ssh_key};
use russh::{MethodSet, Signer};
use tokio::time::timeout;

use crate::agent::{Agent, AgentFault, AgentKey};
use crate::certificate::{CERT_SUFFIX, Certificate, RSA_BITS, printable};
use crate::error::{Cause, Tried};
use crate::fingerprint::{Fingerprint, blob_kind_name};
use crate::handler::Handler;
use crate::identity::{Identity, Source};
use crate::key::{RsaHash, rsa_bits};
use crate::link::Proven;
use crate::route::Hop;
use crate::wire::put_string;

/// Connecting to an agent and listing its keys.
const AGENT: Duration = Duration::from_secs(5);

/// The name of the identity that a host took.
pub(crate) type Accepted = String;

/// What signs for an offer.
enum Hand<'a> {
    Key(&'a Source),
    Agent { agent: &'a mut Agent, blob: Vec<u8> },
}

struct Signing<'a> {
    hand: Hand<'a>,
    rsa: RsaHash,
    fault: Option<String>,
}

struct SignFault;

impl From<russh::SendError> for SignFault {
    fn from(_: russh::SendError) -> Self {
        Self
    }
}

impl Signer for Signing<'_> {
    type Error = SignFault;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        _: Option<HashAlg>,
        mut to_sign: Vec<u8>,
    ) -> Result<Vec<u8>, SignFault> {
        let signature = match &mut self.hand {
            Hand::Key(source) => match source.unlock().await {
                Ok(key) => key.sign(&to_sign, self.rsa).map_err(|e| e.to_string()),
                Err(fault) => Err(fault.to_string()),
            },
            Hand::Agent { agent, blob } => {
                agent.sign(blob, &to_sign, self.rsa).await.map_err(|e| e.to_string())
            }
        };
        match signature {
            Ok(signature) => {
                // The library sends what stands behind the text that it gave.
                put_string(&mut to_sign, &signature);
                Ok(to_sign)
            }
            Err(why) => {
                self.fault = Some(why);
                Err(SignFault)
            }
        }
    }
}

/// One key or certificate, ready to be offered.
struct Offer {
    blob: Vec<u8>,
    tried: Tried,
    /// What we already know to be wrong with it.
    hint: Option<String>,
}

impl Offer {
    fn key(blob: &[u8], source: String) -> Self {
        let kind = format!("{} key", printable(blob_kind_name(blob).unwrap_or("unreadable")));
        let tried = Tried { fingerprint: Some(Fingerprint::of_blob(blob)), kind, source, why: String::new() };
        Self { blob: blob.to_vec(), tried, hint: None }
    }

    fn certificate(blob: &[u8], source: String, user: &str, now: UtcTime) -> Self {
        let (kind, fingerprint, hint) = match Certificate::parse(blob) {
            Ok(cert) => (
                format!("{} certificate {:?}", cert.kind, printable(cert.key_id)),
                Some(Fingerprint::of_blob(&cert.plain_key())),
                certificate_hint(&cert, user, now),
            ),
            Err(fault) => ("certificate".to_owned(), None, Some(fault.to_string())),
        };
        let tried = Tried { fingerprint, kind, source, why: String::new() };
        Self { blob: blob.to_vec(), tried, hint }
    }
}

fn certificate_hint(cert: &Certificate<'_>, user: &str, now: UtcTime) -> Option<String> {
    if now.unix() >= cert.valid_before {
        return Some(format!("the certificate was valid until {}", UtcTime::from_unix(cert.valid_before)));
    }
    if now.unix() < cert.valid_after {
        return Some(format!("the certificate is not valid before {}", UtcTime::from_unix(cert.valid_after)));
    }
    if cert.principals.is_empty() {
        return Some("the certificate names no principal".to_owned());
    }
    if !cert.principals.contains(&user) {
        let names: Vec<String> = cert.principals.iter().take(8).map(|p| printable(p)).collect();
        return Some(format!("the certificate is for {}", names.join(", ")));
    }
    None
}

struct Login<'a> {
    handle: &'a mut Handle<Handler>,
    hop: &'a Hop,
    now: UtcTime,
    rsa: Option<RsaHash>,
    tried: Vec<Tried>,
    methods: Vec<String>,
}

enum Step {
    In(Accepted),
    Next,
    /// The host will hear no more.
    Over,
}

/// Logs in, or says with what it was tried.
pub(crate) async fn login(proven: &mut Proven, hop: &Hop, now: UtcTime) -> Result<Accepted, Cause> {
    let rsa = best_rsa(&proven.handle, hop).await;
    let mut login =
        Login { handle: &mut proven.handle, hop, now, rsa, tried: Vec::new(), methods: Vec::new() };
    if hop.identities.is_empty() && login.nothing().await {
        return Ok("nothing: the host asked for no proof".to_owned());
    }
    for identity in &hop.identities {
        match login.identity(identity).await {
            Step::In(accepted) => return Ok(accepted),
            Step::Next => {}
            Step::Over => break,
        }
    }
    let Login { tried, methods, .. } = login;
    let said = proven.shared.notes().ended.clone();
    // Whoever asked without a proof learned nothing where no methods came back.
    if tried.is_empty() && said.is_some() && (methods.is_empty() || !hop.identities.is_empty()) {
        return Err(Cause::Lost { why: said.unwrap_or_default() });
    }
    Err(Cause::AuthRefused { user: hop.user.clone(), tried, methods, said })
}

/// Asked once, and only where an RSA key might be offered: it waits up to a second for a server that
/// does not say what it takes. `None` = it takes only SHA-1.
async fn best_rsa(handle: &Handle<Handler>, hop: &Hop) -> Option<RsaHash> {
    let wanted = hop.identities.iter().any(|i| match &*i.source {
        Source::Key { public, .. } => blob_kind_name(public) == Some("ssh-rsa"),
        Source::Agent { .. } => true,
    });
    if !wanted {
        return Some(RsaHash::Sha512);
    }
    match handle.best_supported_rsa_hash().await {
        Ok(Some(Some(HashAlg::Sha256))) => Some(RsaHash::Sha256),
        Ok(Some(None)) => None,
        // Unknown: the newer one, as OpenSSH does.
        _ => Some(RsaHash::Sha512),
    }
}

impl Login<'_> {
    /// Asks to be let in without a proof, and learns what would be taken instead (RFC 4252, section 5.2).
    async fn nothing(&mut self) -> bool {
        match self.handle.authenticate_none(self.hop.user.clone()).await {
            Ok(AuthResult::Success) => true,
            Ok(AuthResult::Failure { remaining_methods, .. }) => {
                self.methods = words(&remaining_methods);
                false
            }
            Err(_) => false,
        }
    }

    async fn identity(&mut self, identity: &Identity) -> Step {
        match &*identity.source {
            Source::Key { name, public, .. } => {
                for (source, blob) in &identity.certificates {
                    let offer = Offer::certificate(blob, source.clone(), &self.hop.user, self.now);
                    match self.offer(offer, Hand::Key(&identity.source)).await {
                        Step::Next => {}
                        other => return other,
                    }
                }
                self.offer(Offer::key(public, name.clone()), Hand::Key(&identity.source)).await
            }
            Source::Agent { socket, only } => {
                let whole = format!("agent {}", socket.display());
                match self.agent(identity, &whole, socket, only.as_deref()).await {
                    Ok(step) => step,
                    Err(why) => {
                        let kind = "agent".to_owned();
                        self.tried.push(Tried { fingerprint: None, kind, source: whole, why });
                        Step::Next
                    }
                }
            }
        }
    }

    async fn agent(
        &mut self,
        identity: &Identity,
        whole: &str,
        socket: &std::path::Path,
        only: Option<&[Fingerprint]>,
    ) -> Result<Step, String> {
        let binding = self.handle.agent_session_binding();
        let asked = async {
            let mut agent = Agent::connect(socket).await?;
            if let Some(binding) = binding {
                let session: &[u8] = binding.session_id();
                // Agents before OpenSSH 8.9 do not know it and say so.
                agent.bind(binding.host_key(), session, binding.signature()).await?;
            }
            let held = agent.identities().await?;
            Ok::<_, AgentFault>((agent, held))
        };
        // None of this asks a person. An agent that hangs must not use up the time of the identities
        // behind it.
        let (mut agent, held) = match timeout(AGENT, asked).await {
            Ok(result) => result.map_err(|e| e.to_string())?,
            Err(_) => return Err(format!("the agent did not answer within {} s", AGENT.as_secs())),
        };
        let offers = self.agent_offers(identity, whole, &held, only);
        if offers.is_empty() {
            return Err(match (held.len(), only) {
                (0, _) => "it holds no key (or is locked)".to_owned(),
                (n, Some(_)) => format!("none of its {n} keys is one of those asked for"),
                (n, None) => format!("none of its {n} keys can be used"),
            });
        }
        for (offer, sign_with) in offers {
            match self.offer(offer, Hand::Agent { agent: &mut agent, blob: sign_with }).await {
                Step::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Step::Next)
    }

    /// The certificates that were given with the agent, then what the agent holds, in its order.
    /// Each with the blob under which the agent knows the private key.
    fn agent_offers(
        &self,
        identity: &Identity,
        whole: &str,
        held: &[AgentKey],
        only: Option<&[Fingerprint]>,
    ) -> Vec<(Offer, Vec<u8>)> {
        let mut offers = Vec::new();
        for (source, blob) in &identity.certificates {
            let Ok(cert) = Certificate::parse(blob) else { continue };
            let plain = cert.plain_key();
            if held.iter().any(|k| k.blob == plain) {
                let source = format!("{source} with {whole}");
                offers.push((Offer::certificate(blob, source, &self.hop.user, self.now), plain));
            }
        }
        // Certificates first: `ssh-add` loads the plain key before them, and every key that the host
        // does not know counts against its MaxAuthTries.
        let (certificates, plain): (Vec<_>, Vec<_>) = held.iter().partition(|k| is_certificate(&k.blob));
        for key in certificates.into_iter().chain(plain) {
            let source = format!("{whole} {:?}", printable(&key.comment));
            let is_certificate = blob_kind_name(&key.blob).is_some_and(|n| n.ends_with(CERT_SUFFIX));
            let offer = if is_certificate {
                Offer::certificate(&key.blob, source, &self.hop.user, self.now)
            } else {
                Offer::key(&key.blob, source)
            };
            let asked = only.is_none_or(|o| offer.tried.fingerprint.is_some_and(|fp| o.contains(&fp)));
            if asked {
                offers.push((offer, key.blob.clone()));
            }
        }
        offers
    }

    async fn offer(&mut self, offer: Offer, hand: Hand<'_>) -> Step {
        let Offer { blob, mut tried, hint } = offer;
        let name = format!(
            "{}{} ({})",
            tried.kind,
            tried.fingerprint.map(|fp| format!(" {fp}")).unwrap_or_default(),
            tried.source
        );
        let kind = blob_kind_name(&blob).unwrap_or_default();
        let is_rsa = kind.starts_with("ssh-rsa");
        let (Some(rsa), false) = (self.rsa.or((!is_rsa).then_some(RsaHash::Sha512)), kind == "ssh-dss")
        else {
            tried.why = "not offered: the host takes it only with SHA-1".to_owned();
            self.tried.push(tried);
            return Step::Next;
        };
        let mut signing = Signing { hand, rsa, fault: None };
        let result = match self.send(&blob, is_rsa, rsa, &mut signing).await {
            Ok(result) => result,
            Err(why) => {
                tried.why = why;
                self.tried.push(tried);
                return if self.handle.is_closed() { Step::Over } else { Step::Next };
            }
        };
        match result {
            AuthResult::Success => Step::In(name),
            AuthResult::Failure { remaining_methods, partial_success } => {
                self.methods = words(&remaining_methods);
                tried.why = match (partial_success, hint) {
                    (true, _) => "accepted, but the host wants more than one proof".to_owned(),
                    (false, Some(hint)) => format!("refused: {hint}"),
                    (false, None) if is_certificate(&blob) => {
                        "refused: its authority, principal or options are not accepted there".to_owned()
                    }
                    (false, None) => "refused: not among the keys of this user there".to_owned(),
                };
                let over = self.handle.is_closed();
                if over && self.methods.is_empty() {
                    tried.why = "the host broke off while it was offered".to_owned();
                }
                self.tried.push(tried);
                if over { Step::Over } else { Step::Next }
            }
        }
    }

    async fn send(
        &mut self,
        blob: &[u8],
        is_rsa: bool,
        rsa: RsaHash,
        signing: &mut Signing<'_>,
    ) -> Result<AuthResult, String> {
        let hash = is_rsa.then_some(match rsa {
            RsaHash::Sha256 => HashAlg::Sha256,
            RsaHash::Sha512 => HashAlg::Sha512,
        });
        let user = self.hop.user.clone();
        let result = if is_certificate(blob) {
            // Ours first: it bounds and un-nests what the library's reader would recurse into.
            Certificate::parse(blob).map_err(|e| format!("not offered: {e}"))?;
            let cert = ssh_key::Certificate::from_bytes(blob)
                .map_err(|_| "not offered: the certificate cannot be read".to_owned())?;
            self.handle.authenticate_certificate_with(user, cert, hash, signing).await
        } else {
            if rsa_bits(blob).is_some_and(|bits| !RSA_BITS.contains(&bits)) {
                return Err("not offered: an RSA key needs 2048 bits or more".to_owned());
            }
            let key = ssh_key::PublicKey::from_bytes(blob)
                .map_err(|_| "not offered: the key cannot be read".to_owned())?;
            self.handle.authenticate_publickey_with(user, key, hash, signing).await
        };
        result.map_err(|SignFault| match signing.fault.take() {
            Some(fault) => format!("the host would take it, but {fault}"),
            None => "the connection ended while it was offered".to_owned(),
        })
    }
}

fn words(methods: &MethodSet) -> Vec<String> {
    methods.iter().map(|m| <&str>::from(m).to_owned()).collect()
}

fn is_certificate(blob: &[u8]) -> bool {
    blob_kind_name(blob).is_some_and(|n| n.contains("-cert-v0"))
}

/// The identities of a hop, as far as sharing a bastion is concerned.
pub(crate) fn identities_key(identities: &[Identity]) -> String {
    identities.iter().map(Identity::cache_key).collect::<Vec<_>>().join("|")
}
