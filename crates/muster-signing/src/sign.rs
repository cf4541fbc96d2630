//! Making SSH signatures.

/// Why a signature could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignFault(pub String);

/// Something that holds a private key and signs with it: a file key, an agent, a token.
pub trait Signer {
    /// The public key blob, or the certificate blob, that goes into the signature.
    fn public_blob(&self) -> &[u8];

    /// Signs `data` as it is (it is already the SSHSIG envelope) and returns the SSH signature
    /// blob: `string algorithm, string signature`, and for `sk-` keys flags and counter. RSA
    /// signers must use `rsa-sha2-512` (or `rsa-sha2-256`), never `ssh-rsa`.
    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault>;
}

/// Signs `message` in `namespace` with SHA-512 and returns the armoured text.
pub fn sign(_message: &[u8], _namespace: &str, _signer: &dyn Signer) -> Result<String, SignFault> {
    Err(SignFault("signing is not built yet".to_owned()))
}
