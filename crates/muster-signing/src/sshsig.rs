//! SSH signatures (OpenSSH `PROTOCOL.sshsig`): armour and blob.
//!
//! The armour is read as `ssh-keygen` 9.2 reads it: the header line at byte 0 and ended by LF,
//! the footer at the start of a line, white space skipped between them. Stricter: after the footer
//! only white space may follow, so that a second signature in one field is refused and not
//! overlooked; the version is 1 and nothing else; no NUL anywhere.

use crate::{
    Reason, Refusal, base64,
    certificate::Certificate,
    key::{KeyFault, PublicKey, RawSignature, SignatureFault},
    wire::{Reader, WireFault, put_string, shown},
};
use sha2::{Digest, Sha256, Sha512};

/// A blob or an armoured text over this many bytes is not looked at.
pub const MAX_BYTES: usize = 64 * 1024;

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
const BEGIN: &[u8] = b"-----BEGIN SSH SIGNATURE-----\n";
const END: &[u8] = b"\n-----END SSH SIGNATURE-----";
/// As `ssh-keygen` wraps.
const WRAP: usize = 70;

/// The hash over the message, named in the signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashAlg {
    /// `sha256`
    Sha256,
    /// `sha512`, what `ssh-keygen` uses when not told otherwise.
    #[default]
    Sha512,
}

impl HashAlg {
    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Reads the name on the wire; nothing but the two, in lower case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Sha256, Self::Sha512].into_iter().find(|h| h.name() == name)
    }

    fn digest(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }
}

/// Who a signature says it is by.
#[derive(Clone, Debug)]
pub enum SignerKey {
    /// A plain key.
    Plain(PublicKey),
    /// A key with a certificate.
    Certified(Box<Certificate>),
}

impl SignerKey {
    /// Reads a key blob or a certificate blob.
    pub fn from_blob(blob: &[u8]) -> Result<Self, KeyFault> {
        match PublicKey::from_blob(blob) {
            Err(KeyFault::Certificate) => Certificate::from_blob(blob).map(|c| Self::Certified(Box::new(c))),
            other => other.map(Self::Plain),
        }
    }

    /// The key that made the signature; for a certificate, the key in it.
    pub fn key(&self) -> &PublicKey {
        match self {
            Self::Plain(key) => key,
            Self::Certified(cert) => cert.key(),
        }
    }

    /// The certificate, where there is one.
    pub fn certificate(&self) -> Option<&Certificate> {
        match self {
            Self::Plain(_) => None,
            Self::Certified(cert) => Some(cert),
        }
    }

    /// The wire form, as it stands in the signature.
    pub fn blob(&self) -> &[u8] {
        match self {
            Self::Plain(key) => key.blob(),
            Self::Certified(cert) => cert.blob(),
        }
    }
}

/// A well-formed SSH signature. Well-formed is not trusted: see [`crate::verify::verify`].
#[derive(Clone, Debug)]
pub struct SshSig {
    signer: SignerKey,
    namespace: String,
    hash: HashAlg,
    signature: Vec<u8>,
}

impl SshSig {
    /// Reads the armoured form, `-----BEGIN SSH SIGNATURE-----` at byte 0.
    ///
    /// Refuses with `signature-missing` (empty), `algorithm` (hash or key type) or
    /// `signature-malformed`.
    pub fn parse_armored(text: &[u8]) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Err(Refusal::new(Reason::SignatureMissing, "it is empty"));
        }
        if text.len() > MAX_BYTES {
            return Err(malformed(format!("it is over {MAX_BYTES} bytes")));
        }
        let body = text
            .strip_prefix(BEGIN)
            .ok_or_else(|| malformed("it does not begin with the line -----BEGIN SSH SIGNATURE-----"))?;
        let at = body
            .windows(END.len())
            .position(|w| w == END)
            .ok_or_else(|| malformed("it has no line -----END SSH SIGNATURE-----"))?;
        let (inner, tail) = body.split_at_checked(at).unwrap_or_default();
        let after = tail.get(END.len()..).unwrap_or_default();
        if !after.iter().all(|b| base64::is_c_space(*b)) {
            return Err(malformed("something follows its END line"));
        }
        let blob = base64::decode_spaced(inner).ok_or_else(|| malformed("its body is not base64"))?;
        Self::parse_blob(&blob)
    }

    /// Reads the bare blob, magic at byte 0.
    pub fn parse_blob(blob: &[u8]) -> Result<Self, Refusal> {
        if blob.len() > MAX_BYTES {
            return Err(malformed(format!("it is over {MAX_BYTES} bytes")));
        }
        let early = |_: WireFault| malformed("it ends early, or a text in it holds NUL");
        let mut r = Reader::new(blob);
        if r.take(MAGIC.len()).map_err(early)? != MAGIC {
            return Err(malformed("it does not start with SSHSIG"));
        }
        let version = r.u32().map_err(early)?;
        if version != VERSION {
            return Err(malformed(format!("its version is {version}; only {VERSION} is known")));
        }
        let signer = SignerKey::from_blob(r.string().map_err(early)?).map_err(|fault| match fault {
            KeyFault::Unsupported(_) => Refusal::new(Reason::Algorithm, fault.to_string()),
            _ => malformed(format!("its key: {fault}")),
        })?;
        let namespace = r.text().map_err(early)?.to_owned();
        if namespace.is_empty() {
            return Err(malformed("its namespace is empty"));
        }
        r.string().map_err(early)?; // reserved: whatever it holds is ignored, and signed as empty
        let hash = r.text().map_err(early)?;
        let hash = HashAlg::from_name(hash).ok_or_else(|| {
            let shown = shown(hash.as_bytes());
            Refusal::new(Reason::Algorithm, format!("hash {shown:?}; only sha256 and sha512 are accepted"))
        })?;
        let signature = r.string().map_err(early)?;
        if !r.is_empty() {
            return Err(malformed("bytes follow its end"));
        }
        RawSignature::parse(signature)
            .map_err(|_| malformed("the raw signature in it does not follow its format"))?;
        Ok(Self { signer, namespace, hash, signature: signature.to_vec() })
    }

    /// The namespace that was signed; never empty.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Who it says it is by.
    pub fn signer(&self) -> &SignerKey {
        &self.signer
    }

    /// `SHA256:` and unpadded base64 of the signing key (for a certificate, of the key in it).
    pub fn fingerprint(&self) -> String {
        self.signer.key().fingerprint()
    }

    /// The public key, or certificate, as it stands in the signature.
    pub fn signer_blob(&self) -> &[u8] {
        self.signer.blob()
    }

    /// Whether the signer shows an OpenSSH certificate.
    pub fn is_certificate(&self) -> bool {
        self.signer.certificate().is_some()
    }

    /// The hash over the message.
    pub fn hash(&self) -> HashAlg {
        self.hash
    }

    /// `type base64` of the signer, what `ssh-keygen -O print-pubkey` prints (without a comment).
    pub fn public_key_line(&self) -> String {
        let kind = self.signer.key().kind();
        let name = if self.is_certificate() { kind.certificate_name() } else { kind.name() };
        format!("{name} {}", base64::encode(self.signer_blob()))
    }

    /// `ED25519`, `RSA-CERT` and the like, as `ssh-keygen` names the signer in its messages.
    pub fn short_type(&self) -> String {
        let kind = self.signer.key().kind();
        let suffix = if self.is_certificate() { "-CERT" } else { "" };
        format!("{}{suffix}", kind.short_name())
    }

    /// Whether the authenticator says that it verified its user.
    pub(crate) fn user_verified(&self) -> bool {
        RawSignature::parse(&self.signature).is_ok_and(|raw| raw.user_verified())
    }

    /// Whether the raw signature's algorithm and the key's size are acceptable at all.
    pub(crate) fn check_algorithm(&self) -> Result<(), Refusal> {
        let refuse = |why: String| Refusal::new(Reason::Algorithm, why);
        let key = self.signer.key();
        key.may_sign().map_err(refuse)?;
        let raw = RawSignature::parse(&self.signature).map_err(|_| malformed("its raw signature"))?;
        raw.check_algorithm(key.kind()).map_err(refuse)
    }

    /// Whether the signature is by its key over `message` in its namespace.
    pub(crate) fn check_bytes(&self, message: &[u8]) -> Result<(), Refusal> {
        let raw = RawSignature::parse(&self.signature).map_err(|_| malformed("its raw signature"))?;
        let signed = signed_data(&self.namespace, self.hash, message);
        self.signer.key().verify(&signed, &raw).map_err(|fault| match fault {
            SignatureFault::Malformed => malformed("the raw signature in it does not follow its format"),
            SignatureFault::Algorithm(what) => Refusal::new(Reason::Algorithm, what),
            SignatureFault::Differs => Refusal::new(
                Reason::BytesDiffer,
                format!(
                    "key {}, received {} bytes with sha256 {}",
                    self.fingerprint(),
                    message.len(),
                    hex(&Sha256::digest(message))
                ),
            ),
        })
    }
}

fn malformed(why: impl Into<String>) -> Refusal {
    Refusal::new(Reason::SignatureMalformed, why)
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use core::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len().saturating_mul(2)), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// What a key signs: magic, namespace, empty reserved, hash name, hash of the message.
pub(crate) fn signed_data(namespace: &str, hash: HashAlg, message: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_string(&mut out, namespace.as_bytes());
    put_string(&mut out, b"");
    put_string(&mut out, hash.name().as_bytes());
    put_string(&mut out, &hash.digest(message));
    out
}

/// The blob of a signature, and its armour as `ssh-keygen` writes it.
pub(crate) fn armored(signer_blob: &[u8], namespace: &str, hash: HashAlg, signature: &[u8]) -> String {
    let mut blob = MAGIC.to_vec();
    blob.extend_from_slice(&VERSION.to_be_bytes());
    put_string(&mut blob, signer_blob);
    put_string(&mut blob, namespace.as_bytes());
    put_string(&mut blob, b"");
    put_string(&mut blob, hash.name().as_bytes());
    put_string(&mut blob, signature);
    let body = base64::encode(&blob);
    let mut out = String::from("-----BEGIN SSH SIGNATURE-----\n");
    for (n, c) in body.chars().enumerate() {
        if n > 0 && n.is_multiple_of(WRAP) {
            out.push('\n');
        }
        out.push(c);
    }
    out.push_str("\n-----END SSH SIGNATURE-----\n");
    out
}
