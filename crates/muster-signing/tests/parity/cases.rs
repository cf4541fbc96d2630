//! Cases from a number: mostly good ones, with one or two things changed.

use crate::{
    keys::{Keys, MESSAGES, NAMESPACES, Signer},
    random::Random,
    support::{Pieces, Question, armor, base64, string, take, unbase64},
};
use muster_signing::UtcTime;

/// A question, and what was put into it that ours is known to be stricter about.
pub struct Case {
    pub question: Question,
    pub tags: Vec<&'static str>,
}

const PRINCIPALS: [&str; 4] = ["p", "alice", "bob", "carol@example.com"];
/// 2026-11-30T12:53:20Z
const NOW: u64 = 1_796_043_200;

pub fn make(keys: &Keys, seed: u64, n: u64) -> Case {
    let mut r = Random::new(seed, n);
    let any = r.percent(25);
    let signer = loop {
        let signer = r.pick(&keys.signers);
        if any || signer.tags.is_empty() {
            break signer;
        }
    };
    let mut tags = signer.tags.clone();
    let (namespace, message, armored) = r.pick(&signer.signed);
    let mut signature = armored.clone();
    let mut message = MESSAGES[*message].to_vec();
    let mut namespace = NAMESPACES[*namespace].to_owned();
    let mut principal = if r.percent(80) { "p" } else { *r.pick(&PRINCIPALS) }.to_owned();
    if r.percent(4) {
        namespace = (*r.pick(&["ns", "NS", "kpssh", "fil", "file "])).to_owned();
    }
    if r.percent(2) {
        principal = (*r.pick(&["", "P", "p ", "p,alice", "*", "!p"])).to_owned();
    }
    if r.percent(4) {
        tamper(&mut r, &mut message);
    }
    let mut now = times(&mut r);
    let offset = *r.pick(&[0, 0, 9, -5]);
    let (allowed, bounds) = file(&mut r, keys, signer, &principal, &namespace, offset, &mut tags);
    if let Some(bound) = bounds.first().filter(|_| r.percent(60)) {
        now = (bound + r.below(3) as u64).saturating_sub(1);
    }
    if r.percent(20) {
        change_signature(&mut r, &mut signature, &mut tags);
    }
    let revoked = if r.percent(14) { Some(revocations(&mut r, keys, signer, &mut tags)) } else { None };
    Case {
        question: Question { signature, message, allowed, revoked, namespace, principal, now, offset },
        tags,
    }
}

fn tamper(r: &mut Random, message: &mut Vec<u8>) {
    match r.below(3) {
        0 => message.push(b'\n'),
        1 => {
            message.pop();
        }
        _ => match message.first_mut() {
            Some(b) => *b ^= 1,
            None => message.push(0),
        },
    }
}

/// Mostly today; else an edge of the certificates' life, or far away.
fn times(r: &mut Random) -> u64 {
    match r.below(14) {
        0 => 1_767_225_600 - 1 + r.below(3) as u64,
        1 => 1_798_761_600 - 1 + r.below(3) as u64,
        2 => *r.pick(&[86_400, 946_684_800, 2_147_483_648, 4_294_967_296, 253_402_300_799]),
        _ => NOW,
    }
}

/// One to four lines, of which one is aimed at the signer; and the bounds that stand in that line.
fn file(
    r: &mut Random,
    keys: &Keys,
    signer: &Signer,
    principal: &str,
    namespace: &str,
    offset: i64,
    tags: &mut Vec<&'static str>,
) -> (Vec<u8>, Vec<u64>) {
    let mut bounds = Vec::new();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let total = 1 + r.below(4);
    let aimed_at = r.below(total);
    for n in 0..total {
        if n == aimed_at {
            let mut line = aimed(r, keys, signer, principal, namespace, offset, &mut bounds, tags);
            if r.percent(10) {
                mutate(r, &mut line, tags);
            }
            lines.push(line);
        } else {
            lines.push(other(r, keys, tags));
        }
    }
    let end: &[u8] = if r.percent(6) { b"\r\n" } else { b"\n" };
    let mut out = lines.join(end);
    if r.percent(90) {
        out.extend(end);
    }
    (out, bounds)
}

#[allow(clippy::too_many_arguments, reason = "a generator that fills in two lists")]
fn aimed(
    r: &mut Random,
    keys: &Keys,
    signer: &Signer,
    principal: &str,
    namespace: &str,
    offset: i64,
    bounds: &mut Vec<u64>,
    tags: &mut Vec<&'static str>,
) -> Vec<u8> {
    let quoted = r.percent(10);
    let mut names = match r.below(24) {
        0..13 => principal.to_owned(),
        13 => "*".to_owned(),
        14 => format!("nobody,{principal}"),
        15 => format!("{principal},!nobody"),
        16 => format!("*,!{principal}"),
        17 => principal.chars().next().map_or("?".to_owned(), |c| format!("{c}*")),
        18 => principal.to_uppercase(),
        _ => (*r.pick(&["?", "p?", "!p,*", "alice", "*@example.com", "p,", ",p", "*p*"])).to_owned(),
    };
    if quoted {
        names = match r.below(3) {
            0 => format!("\"{names}\""),
            1 => format!("\"nobody here,{names}\""),
            _ => format!("nobody,\"{names}\""),
        };
    }
    let authority = signer.authority.filter(|_| r.percent(85));
    let key = match authority {
        Some(ca) => keys.authorities.iter().find(|(name, _)| *name == ca).unwrap().1.clone(),
        None => match &signer.certificate {
            Some(certificate) if r.percent(20) => {
                tags.extend(["certificate-as-key", "bad-line"]);
                certificate.clone()
            }
            _ => signer.line.clone(),
        },
    };
    let key = if r.percent(4) { respell(&key, tags) } else { key };
    let mut options = Vec::new();
    let as_authority = if authority.is_some() { 95 } else { 4 };
    if r.percent(as_authority) {
        options.push(cased(r, "cert-authority"));
    }
    if r.percent(30) {
        let list = match r.below(8) {
            0..4 => namespace.to_owned(),
            4 => format!("other,{namespace}"),
            5 => format!("!{namespace},*"),
            6 => "*,!other".to_owned(),
            _ => (*r.pick(&["", "other", "n?", "f*,k*", "x\\\"y,ns", "a b,ns", "NS"])).to_owned(),
        };
        options.push(format!("{}=\"{list}\"", cased(r, "namespaces")));
    }
    for name in ["valid-after", "valid-before"] {
        if r.percent(14) {
            let (text, bound) = bound(r, offset, tags);
            bounds.extend(bound);
            options.push(format!("{}=\"{text}\"", cased(r, name)));
        }
    }
    if let [after, before] = bounds[..]
        && before <= after
    {
        tags.push("bad-line");
    }
    let space = *r.pick(&[" ", " ", " ", "\t", "  "]);
    let options = if options.is_empty() { String::new() } else { options.join(",") + space };
    let comment = *r.pick(&["", "", " c", " a comment # with words", "\t", " \u{e9}"]);
    let lead = if r.percent(4) { " \t" } else { "" };
    let mut line = format!("{lead}{names}{space}{options}{key}{comment}").into_bytes();
    if r.percent(2) {
        let (tag, tail) = *r.pick(&[("nul-in-file", " a\0b".as_bytes()), ("not-utf8", b" caf\xe9")]);
        tags.extend([tag, "bad-line"]);
        line.extend(tail);
    }
    line
}

fn cased(r: &mut Random, word: &str) -> String {
    if !r.percent(15) {
        return word.to_owned();
    }
    word.chars().map(|c| if r.percent(50) { c.to_ascii_uppercase() } else { c }).collect()
}

/// A time in one of the forms, near a year of interest, and what it is in UTC.
fn bound(r: &mut Random, offset: i64, tags: &mut Vec<&'static str>) -> (String, Option<u64>) {
    if r.percent(12) {
        tags.extend(["unreal-time", "bad-line"]);
        let odd = [
            "20260230Z",
            "20261131",
            "20261130235960Z",
            "20261130235961Z",
            "2026 1 1Z",
            "202611302400Z",
            "20261301Z",
            "2026113Z",
            "20261130 Z",
            "soon",
            "",
            "Z",
            "19700101Z",
            "19691231Z",
            "00000101Z",
            "2026-11-30",
            "+2026113",
        ];
        return ((*r.pick(&odd)).to_owned(), None);
    }
    let year = *r.pick(&[2000, 2025, 2026, 2026, 2027, 2038, 2106]);
    let (month, day) = *r.pick(&[(1, 1), (2, 28), (11, 30), (12, 31)]);
    let (h, mi, s) = *r.pick(&[(0, 0, 0), (12, 53, 20), (23, 59, 59)]);
    let date = format!("{year:04}{month:02}{day:02}");
    let (digits, h, mi, s) = match r.below(3) {
        0 => (date, 0, 0, 0),
        1 => (format!("{date}{h:02}{mi:02}"), h, mi, 0),
        _ => (format!("{date}{h:02}{mi:02}{s:02}"), h, mi, s),
    };
    let zone = *r.pick(&["Z", "Z", "z", "UTC", "utc", "Utc", "", ""]);
    let utc = UtcTime::from_civil(year, month, day, h, mi, s).unwrap().unix();
    let utc = if zone.is_empty() { utc.checked_add_signed(-offset * 3600).unwrap() } else { utc };
    (digits + zone, Some(utc))
}

/// A line that is not about the signer.
fn other(r: &mut Random, keys: &Keys, tags: &mut Vec<&'static str>) -> Vec<u8> {
    let key = keys.signers[r.below(7)].line.clone();
    match r.below(12) {
        0 => b"# a comment".to_vec(),
        1 => b" \t".to_vec(),
        2 => Vec::new(),
        3 => {
            tags.push("bad-line");
            let bad = [
                "p octopus KEY",
                "p namespaces=ns KEY",
                "garbage",
                "p",
                "p KEY!",
                "p valid-after=\"x\" KEY",
                "\"p KEY",
                "p namespaces=\"ns KEY",
                "p namespaces=\"ns\", KEY",
                "p ssh-dss AAAA",
                "p namespaces=\"a\" x KEY",
                "p no-touch-required KEY",
            ];
            r.pick(&bad).replace("KEY", &key).into_bytes()
        }
        4 => format!("q,r namespaces=\"ns\",valid-before=\"20300101\" {key} c").into_bytes(),
        5 => format!("p cert-authority {}", r.pick(&keys.authorities).1).into_bytes(),
        6 => format!("p cert-authority,namespaces=\"other\" {key}").into_bytes(),
        7 => format!("q valid-after=\"20990101Z\" {key}").into_bytes(),
        _ => format!("{} {key}", r.pick(&["q", "r", "alice", "p,!p", "bob*"])).into_bytes(),
    }
}

/// One byte of a line put in, taken out or changed.
fn mutate(r: &mut Random, line: &mut Vec<u8>, tags: &mut Vec<&'static str>) {
    const BYTES: &[u8] = b" \t,\"\\=!*?#\r\x0b\x0c\0\xffaAzZ09+/-";
    tags.push("bad-line");
    for _ in 0..=r.below(2) {
        // Half of the changes in front, where the grammar is.
        let span = if r.percent(50) { line.len().min(40) } else { line.len() };
        let at = r.below(span.max(1));
        let byte = *r.pick(BYTES);
        match r.below(3) {
            0 => line.insert(at, byte),
            1 if at < line.len() => {
                line.remove(at);
            }
            _ if at < line.len() => line[at] = byte,
            _ => line.push(byte),
        }
    }
    if line.contains(&0) {
        tags.push("nul-in-file");
    }
    if std::str::from_utf8(line).is_err() {
        tags.push("not-utf8");
    }
    if line.iter().any(|b| matches!(b, b'\r' | 0x0b | 0x0c)) {
        tags.push("odd-space");
    }
    if String::from_utf8_lossy(line).to_ascii_lowercase().contains("valid-") {
        tags.push("unreal-time");
    }
}

/// The same RSA key, with zeros before its modulus.
fn respell(line: &str, tags: &mut Vec<&'static str>) -> String {
    let (kind, encoded) = line.split_once(' ').unwrap();
    if kind != "ssh-rsa" {
        return line.to_owned();
    }
    tags.extend(["key-spelling", "bad-line"]);
    format!("{kind} {}", base64(&respelled(&unbase64(encoded))))
}

fn respelled(blob: &[u8]) -> Vec<u8> {
    let mut rest = blob;
    let (name, e, n) = (take(&mut rest), take(&mut rest), take(&mut rest));
    [string(&name), string(&e), string(&[vec![0, 0], n].concat())].concat()
}

fn change_signature(r: &mut Random, signature: &mut Vec<u8>, tags: &mut Vec<&'static str>) {
    match r.below(10) {
        0..3 => change_armour(r, signature, tags),
        3..6 => {
            let mut blob = Pieces::of(signature).blob();
            for _ in 0..=r.below(2) {
                let at = r.below(blob.len());
                blob[at] ^= 1 << r.below(8);
            }
            if blob[6..10] == [0; 4] {
                tags.push("version-0");
            }
            *signature = armor(&blob);
        }
        6 => {
            let blob = Pieces::of(signature).blob();
            *signature = armor(&blob[..r.below(blob.len())]);
        }
        _ => change_pieces(r, signature, tags),
    }
}

fn change_armour(r: &mut Random, signature: &mut Vec<u8>, tags: &mut Vec<&'static str>) {
    let text = String::from_utf8(signature.clone()).unwrap();
    let inside = |with: &str| text.replacen('A', &format!("A{with}"), 3);
    let changed = match r.below(16) {
        0 => text.replace('\n', "\r\n"),
        1 => format!("\n{text}"),
        2 => {
            tags.push("armour-tail");
            format!("{text}{}", r.pick(&["x", "-", "\n.", "-----BEGIN SSH SIGNATURE-----\n"]))
        }
        3 => {
            tags.push("armour-tail");
            text.repeat(2)
        }
        4 => format!("{text}{}", r.pick(&["\n", " ", "\r\n\t"])),
        5 => text.trim_end().to_owned(),
        6 => text.replace('=', ""),
        7 => inside(" "),
        8 => inside("\r\n"),
        9 => inside("\x0b\x0c\t"),
        10 => {
            tags.push("armour-nul");
            text.replace("\n-----END", "\0\n-----END")
        }
        11 => inside("!"),
        12 => inside("="),
        13 => text.replace("SIGNATURE", "signature"),
        14 => text.replace("-----\n", "-----"),
        _ => text[..r.below(text.len())].to_owned(),
    };
    *signature = changed.into_bytes();
}

fn change_pieces(r: &mut Random, signature: &mut Vec<u8>, tags: &mut Vec<&'static str>) {
    let mut p = Pieces::of(signature);
    match r.below(13) {
        0 => p.version = *r.pick(&[0, 2, 1 << 31]),
        1 => p.reserved = vec![b'x'; r.below(40)],
        2 => {
            p.hash =
                r.pick(&[&b"sha256"[..], b"sha512", b"sha1", b"sha384", b"SHA512", b"", b"sha512\0"]).to_vec()
        }
        3 => p.namespace.push(0),
        4 => p.namespace = r.pick(&[&b""[..], b"ns", b"kpssh", b"file"]).to_vec(),
        5 => p.tail = vec![0; 1 + r.below(8)],
        6 => p.key.push(0),
        7 => p.signature.push(0),
        8 => p.magic = r.pick(&[&b"SSHSIH"[..], b"sshsig", b""]).to_vec(),
        9 => {
            let mut rest = &p.signature[..];
            take(&mut rest);
            let names: [&[u8]; 7] = [
                b"ssh-rsa",
                b"rsa-sha2-256",
                b"rsa-sha2-512",
                b"ssh-ed25519",
                b"ecdsa-sha2-nistp256",
                b"webauthn-sk-ecdsa-sha2-nistp256@openssh.com",
                b"",
            ];
            p.signature = [string(r.pick::<&[u8]>(&names)), rest.to_vec()].concat();
        }
        10 if p.key.starts_with(b"\0\0\0\x07ssh-rsa") => {
            tags.push("key-spelling");
            p.key = respelled(&p.key);
        }
        11 if p.signature.starts_with(b"\0\0\0\x13ecdsa-sha2-nistp") => {
            tags.push("signature-spelling");
            let mut rest = &p.signature[..];
            let (name, inner) = (take(&mut rest), take(&mut rest));
            let mut rest = &inner[..];
            let (x, y) = (take(&mut rest), take(&mut rest));
            let inner = [string(&[vec![0], x].concat()), string(&y)].concat();
            p.signature = [string(&name), string(&inner)].concat();
        }
        12 if p.signature.starts_with(b"\0\0\0\x0crsa-sha2-") => {
            // Without leading zeros, as some signers write it, or cut for good.
            let mut rest = &p.signature[..];
            let (name, mut inner) = (take(&mut rest), take(&mut rest));
            inner.insert(0, 0);
            let cut = r.below(3);
            p.signature = [string(&name), string(&inner[cut..])].concat();
        }
        _ => {}
    }
    if p.version == 0 {
        tags.push("version-0");
    }
    if p.namespace.ends_with(b"\0") || p.hash.ends_with(b"\0") {
        tags.push("namespace-nul");
    }
    *signature = p.armored();
}

fn revocations(r: &mut Random, keys: &Keys, signer: &Signer, tags: &mut Vec<&'static str>) -> Vec<u8> {
    if r.percent(40) {
        let (krl, tag) = r.pick(&keys.krls);
        tags.extend(tag);
        return krl.clone();
    }
    let mut lines: Vec<String> = Vec::new();
    for _ in 0..r.below(4) {
        lines.push(match r.below(10) {
            0 => "# lost".to_owned(),
            1 => String::new(),
            2 => (*r.pick(&["garbage", "ssh-ed25519", "ssh-ed25519 AAAA", "p ssh-ed25519 AAAA"])).to_owned(),
            3 => signer.line.clone() + " gone",
            4 => signer.certificate.clone().unwrap_or_default(),
            5 => r.pick(&keys.authorities).1.clone(),
            _ => r.pick(&keys.signers).line.clone(),
        });
    }
    lines.join("\n").into_bytes()
}
