//! Between our seconds and the times of X.509.

use muster_core::UtcTime;
use time::OffsetDateTime;

/// For certificates and lists to be issued.
pub(crate) fn to_x509(time: UtcTime) -> OffsetDateTime {
    i64::try_from(time.unix())
        .ok()
        .and_then(|secs| OffsetDateTime::from_unix_timestamp(secs).ok())
        .unwrap_or_else(|| OffsetDateTime::from_unix_timestamp(FAR).unwrap_or(OffsetDateTime::UNIX_EPOCH))
}

/// 9999-12-31T23:59:59Z: "no well-defined end" (RFC 5280, 4.1.2.5).
const FAR: i64 = 253_402_300_799;

/// The same, as a time of ours.
pub(crate) const NEVER: UtcTime = UtcTime::from_unix(253_402_300_799);

/// Of certificates and lists that were read. What lies before 1970 is 1970.
pub(crate) fn from_x509(time: x509_parser::time::ASN1Time) -> UtcTime {
    UtcTime::from_unix(u64::try_from(time.timestamp()).unwrap_or(0))
}
