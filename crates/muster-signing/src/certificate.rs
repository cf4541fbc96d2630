//! OpenSSH certificates (`PROTOCOL.certkeys`) as signers.
//!
//! Read by hand: the library's reader follows a certificate inside a certificate without end, and
//! here an authority is a plain key or nothing.

use crate::{
    Reason, Refusal, UtcTime,
    key::{self, KeyFault, KeyKind, PublicKey, RawSignature, SignatureFault},
    wire::{Reader, shown},
};

/// OpenSSH's own bound (`SSHKEY_CERT_MAX_PRINCIPALS`).
const MAX_PRINCIPALS: usize = 256;
/// Far more than any issuer writes; keeps a hostile certificate from being a list of thousands.
const MAX_OPTIONS: usize = 64;
const USER: u32 = 1;
const HOST: u32 = 2;

/// A well-formed certificate. Well-formed is not trusted: its authority's signature, its dates,
/// type, principals and options are judged by the checks below.
#[derive(Clone, Debug)]
pub struct Certificate {
    blob: Vec<u8>,
    signed_len: usize,
    key: PublicKey,
    serial: u64,
    user: bool,
    key_id: String,
    principals: Vec<String>,
    valid_after: UtcTime,
    valid_before: UtcTime,
    critical: Vec<String>,
    authority: PublicKey,
    signature: Vec<u8>,
}

impl Certificate {
    /// Reads a certificate's blob, whole.
    pub fn from_blob(blob: &[u8]) -> Result<Self, KeyFault> {
        if blob.len() > key::MAX_BLOB {
            return Err(KeyFault::TooLarge);
        }
        let mut r = Reader::new(blob);
        let name = r.text()?;
        let kind = KeyKind::from_certificate_name(name)
            .ok_or_else(|| KeyFault::Unsupported(shown(name.as_bytes())))?;
        r.string()?; // nonce
        let key = subject(kind, &mut r)?;
        let serial = r.u64()?;
        let user = match r.u32()? {
            USER => true,
            HOST => false,
            _ => return Err(KeyFault::Malformed("a certificate of neither type user nor host")),
        };
        let key_id = r.text()?.to_owned();
        let principals = names(r.string()?)?;
        let valid_after = UtcTime::from_unix(r.u64()?);
        let valid_before = UtcTime::from_unix(r.u64()?);
        let critical = options(r.string()?)?;
        options(r.string()?)?; // extensions: they permit things in a login, which this is not
        r.string()?; // reserved
        let authority = PublicKey::from_blob(r.string()?)?;
        let signed_len = blob.len().saturating_sub(r.len());
        let signature = r.string()?.to_vec();
        if !r.is_empty() {
            return Err(KeyFault::Malformed("bytes after its end"));
        }
        Ok(Self {
            blob: blob.to_vec(),
            signed_len,
            key,
            serial,
            user,
            key_id,
            principals,
            valid_after,
            valid_before,
            critical,
            authority,
            signature,
        })
    }

    /// The wire form.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The certified key.
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// The key that signed the certificate.
    pub fn authority(&self) -> &PublicKey {
        &self.authority
    }

    /// The issuer's number for it; 0 when the issuer gave none.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The issuer's name for it.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// For whom it was issued.
    pub fn principals(&self) -> &[String] {
        &self.principals
    }

    /// Whether the authority's signature over the certificate is good.
    pub fn check_authority(&self) -> Result<(), Refusal> {
        let refuse = |why: String| Refusal::new(Reason::Certificate, why);
        let raw = RawSignature::parse(&self.signature)
            .map_err(|_| refuse("the authority's signature is malformed".to_owned()))?;
        let signed = self.blob.get(..self.signed_len).unwrap_or_default();
        self.authority.verify(signed, &raw).map_err(|fault| {
            refuse(match fault {
                SignatureFault::Malformed => "the authority's signature is malformed".to_owned(),
                SignatureFault::Algorithm(what) => format!("the authority's signature: {what}"),
                SignatureFault::Differs => "the authority did not sign these bytes".to_owned(),
            })
        })
    }

    /// Whether it is a user certificate, valid at `now`, with no restriction that cannot be kept.
    /// `verified` says whether the authenticator verified its user for this signature.
    pub fn check_dates_and_options(&self, now: UtcTime, user_verified: bool) -> Result<(), Refusal> {
        if !self.user {
            return Err(Refusal::new(
                Reason::Certificate,
                "it is a host certificate; only user certificates sign",
            ));
        }
        if now < self.valid_after {
            let detail =
                format!("certificate {} is valid from {}; now {now}", self.shown_id(), self.valid_after);
            return Err(Refusal::new(Reason::KeyNotYetValid, detail));
        }
        if now >= self.valid_before {
            let detail =
                format!("certificate {} was valid until {}; now {now}", self.shown_id(), self.valid_before);
            return Err(Refusal::new(Reason::KeyExpired, detail));
        }
        for option in &self.critical {
            // The only critical option that a signature can answer. `force-command` and
            // `source-address` restrict a login; a signature made with such a certificate would
            // escape them.
            if option != "verify-required" {
                let detail =
                    format!("critical option {:?} cannot be kept by a signature", shown(option.as_bytes()));
                return Err(Refusal::new(Reason::Certificate, detail));
            }
            if !user_verified {
                let detail = "it has verify-required and the security key did not verify its user";
                return Err(Refusal::new(Reason::Certificate, detail));
            }
        }
        Ok(())
    }

    /// Whether it was issued for this principal. An empty list, which `PROTOCOL.certkeys` takes as
    /// "anybody", is nobody here, as in `ssh-keygen -Y verify`.
    pub fn check_principal(&self, principal: &str) -> Result<(), Refusal> {
        if self.principals.is_empty() {
            let detail = format!("certificate {} names no principal", self.shown_id());
            return Err(Refusal::new(Reason::Certificate, detail));
        }
        if self.principals.iter().any(|p| p == principal) {
            return Ok(());
        }
        let detail = format!("certificate {} is not for principal {principal:?}", self.shown_id());
        Err(Refusal::new(Reason::Principal, detail))
    }

    fn shown_id(&self) -> String {
        format!("\"{}\" (serial {})", shown(self.key_id.as_bytes()), self.serial)
    }
}

/// The certified key: the fields of the plain key, without its name.
fn subject(kind: KeyKind, r: &mut Reader<'_>) -> Result<PublicKey, KeyFault> {
    let mut fields = *r;
    key::check_fields(kind, r)?;
    let taken = fields.len().saturating_sub(r.len());
    PublicKey::from_blob(&key::plain_blob(kind, fields.take(taken)?))
}

fn names(list: &[u8]) -> Result<Vec<String>, KeyFault> {
    let mut r = Reader::new(list);
    let mut out = Vec::new();
    while !r.is_empty() {
        if out.len() == MAX_PRINCIPALS {
            return Err(KeyFault::Malformed("more than 256 principals"));
        }
        out.push(r.text()?.to_owned());
    }
    Ok(out)
}

fn options(list: &[u8]) -> Result<Vec<String>, KeyFault> {
    let mut r = Reader::new(list);
    let mut out = Vec::new();
    while !r.is_empty() {
        if out.len() == MAX_OPTIONS {
            return Err(KeyFault::Malformed("more than 64 options"));
        }
        out.push(r.text()?.to_owned());
        r.string()?;
    }
    Ok(out)
}
