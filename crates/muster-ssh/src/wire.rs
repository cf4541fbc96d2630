//! Reading SSH's data types (RFC 4251 section 5) out of a bounded slice.

/// The text ended early, or went on where it should end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A cursor over received bytes. Never copies, never allocates, never panics.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&b, tail) = self.0.split_first().ok_or(Malformed)?;
        self.0 = tail;
        Ok(b)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let (head, tail) = self.0.split_first_chunk::<4>().ok_or(Malformed)?;
        self.0 = tail;
        Ok(u32::from_be_bytes(*head))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let (head, tail) = self.0.split_first_chunk::<8>().ok_or(Malformed)?;
        self.0 = tail;
        Ok(u64::from_be_bytes(*head))
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let n = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        self.take(n)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        core::str::from_utf8(self.string()?).map_err(|_| Malformed)
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends an SSH string. Lengths here are far below 4 GiB: every caller bounds its input first.
pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let n = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&n.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends an unsigned big-endian number as an SSH mpint: no leading zero bytes, but one where the
/// top bit would read as a sign.
pub(crate) fn put_mpint(out: &mut Vec<u8>, magnitude: &[u8]) {
    let start = magnitude.iter().position(|&b| b != 0).unwrap_or(magnitude.len());
    let digits = magnitude.get(start..).unwrap_or_default();
    if digits.first().is_some_and(|b| b & 0x80 != 0) {
        let mut padded = Vec::with_capacity(digits.len() + 1);
        padded.push(0);
        padded.extend_from_slice(digits);
        put_string(out, &padded);
    } else {
        put_string(out, digits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpint_follows_rfc_4251() {
        for (magnitude, wire) in [
            (&[][..], &[0, 0, 0, 0][..]),
            (&[0, 0], &[0, 0, 0, 0]),
            (&[0x80], &[0, 0, 0, 2, 0, 0x80]),
            (&[0, 0x7f], &[0, 0, 0, 1, 0x7f]),
        ] {
            let mut out = Vec::new();
            put_mpint(&mut out, magnitude);
            assert_eq!(out, wire);
        }
    }

    #[test]
    fn a_length_past_the_end_is_malformed() {
        assert_eq!(Reader::new(&[0, 0, 0, 5, 1]).string(), Err(Malformed));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff]).string(), Err(Malformed));
        assert_eq!(Reader::new(&[0]).u32(), Err(Malformed));
    }
}
