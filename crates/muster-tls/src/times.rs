//! Between our seconds and the times of X.509.

use muster_core::UtcTime;
use time::OffsetDateTime;

/// 9999-12-31T23:59:59Z: "no well-defined end" (RFC 5280, 4.1.2.5), and the last moment that X.509 can say.
pub(crate) const NEVER: UtcTime = UtcTime::from_unix(253_402_300_799);

/// For certificates and lists to be issued. What lies after [`NEVER`] is that.
pub(crate) fn to_x509(time: UtcTime) -> OffsetDateTime {
    let secs = i64::try_from(time.unix().min(NEVER.unix())).unwrap_or(0);
    // Between 1970 and NEVER every second is a date.
    OffsetDateTime::from_unix_timestamp(secs).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Of certificates and lists that were read. What lies before 1970 is 1970.
pub(crate) fn from_x509(time: x509_parser::time::ASN1Time) -> UtcTime {
    UtcTime::from_unix(u64::try_from(time.timestamp()).unwrap_or(0))
}
