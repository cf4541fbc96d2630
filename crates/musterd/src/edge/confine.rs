//! What the edge gives up before its first client.

/// Gives it up, and says what holds.
///
/// # Errors
/// Why it could not.
pub fn confine() -> Result<String, String> {
    Ok("confined: nothing yet".to_owned())
}
