//! SSHSIG, allowed_signers, intents and envelopes.
