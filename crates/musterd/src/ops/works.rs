//! What goes on between the calls.

/// Journals that are followed, an image that is being pulled: shared by every call. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Works {}
