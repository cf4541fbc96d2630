//! SSH wire types (RFC 4251 section 5): a reader that cannot run past its end, and the writers.

/// The bytes end before the value does, or the value is not in its one allowed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireFault;

/// A cursor over bytes that were bounded by the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], WireFault> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(WireFault)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireFault> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(WireFault)?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireFault> {
        self.array::<1>().map(|[b]| b)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireFault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireFault> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8], WireFault> {
        let n = usize::try_from(self.u32()?).map_err(|_| WireFault)?;
        self.take(n)
    }

    /// A string of UTF-8 without NUL. OpenSSH lets one NUL at the end pass; here there is one
    /// form for one text.
    pub(crate) fn text(&mut self) -> Result<&'a str, WireFault> {
        let bytes = self.string()?;
        if bytes.contains(&0) {
            return Err(WireFault);
        }
        core::str::from_utf8(bytes).map_err(|_| WireFault)
    }

    /// The magnitude of a positive mpint in its shortest form. OpenSSH trims leading zeros; here a
    /// second spelling of one key would be a second signer.
    pub(crate) fn positive_mpint(&mut self) -> Result<&'a [u8], WireFault> {
        match self.string()? {
            [] => Err(WireFault),
            [0, rest @ ..] => match rest.first() {
                Some(b) if b & 0x80 != 0 => Ok(rest),
                _ => Err(WireFault),
            },
            all @ [first, ..] if first & 0x80 == 0 => Ok(all),
            _ => Err(WireFault),
        }
    }
}

/// Appends a string. Every caller writes values that were bounded far below 4 GiB; a longer one
/// is cut rather than given a wrong length.
pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let n = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&n.to_be_bytes());
    out.extend(bytes.iter().take(n as usize));
}

/// `bytes` as text for a message: escaped, and cut after 64 characters.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..bytes.len().min(256)).unwrap_or(bytes));
    let mut out: String = text.chars().take(64).flat_map(char::escape_debug).collect();
    if bytes.len() > 64 {
        out.push('\u{2026}');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_past_the_end() {
        assert_eq!(Reader::new(&[0, 0, 0, 2, 1]).string(), Err(WireFault));
        assert_eq!(Reader::new(&[0xff; 4]).string(), Err(WireFault));
        assert_eq!(Reader::new(&[0, 0, 0]).u32(), Err(WireFault));
        let mut r = Reader::new(&[0, 0, 0, 1, b'a', 7]);
        assert_eq!((r.text(), r.u8(), r.is_empty()), (Ok("a"), Ok(7), true));
    }

    #[test]
    fn one_form_of_a_number() {
        let mpint = |body: &[u8]| {
            let mut b = Vec::new();
            put_string(&mut b, body);
            Reader::new(&b).positive_mpint().map(<[u8]>::to_vec)
        };
        assert_eq!(mpint(&[1, 0, 1]), Ok(vec![1, 0, 1]));
        assert_eq!(mpint(&[0, 0x80]), Ok(vec![0x80]));
        for bad in [&[][..], &[0], &[0, 1], &[0, 0, 0x80], &[0x80]] {
            assert_eq!(mpint(bad), Err(WireFault), "{bad:?}");
        }
    }
}
