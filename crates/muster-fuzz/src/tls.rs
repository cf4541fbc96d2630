//! The operators' authority, its clients' certificates and its list of revoked ones, as a node reads them.

use crate::{Said, provision::parts, refused, ssh::NOW};
use muster_core::UtcTime;
use muster_tls::{Authority, Fault, Fingerprint, Judge, Lifetime, OperatorCa, RevocationList, authority};
use std::sync::{Arc, LazyLock};

/// An authority that signed nothing in any corpus.
static STRANGER: LazyLock<OperatorCa> = LazyLock::new(|| {
    let (_, made) = Authority::make("stranger", Lifetime::CLIENT, NOW, [7; 16]).expect("an authority");
    OperatorCa::from_pem(&made.certificate, NOW).expect("its certificate")
});

fn plain(name: &str) {
    assert!(name.chars().count() <= 64 && !name.chars().any(muster_core::hidden::is_hidden), "{name:?}");
}

/// The authority's file: exactly one certificate, nothing secret beside it, until it ends; and it is the same by its DER.
pub fn operator_ca(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    if let Ok(fingerprint) = text.parse::<Fingerprint>() {
        assert_eq!(fingerprint.to_string(), text, "two spellings of one fingerprint");
        assert!(muster_ssh::Fingerprint::parse(text).is_ok(), "its other reader refuses it");
    }
    let ca = match OperatorCa::from_pem(text, NOW) {
        Ok(ca) => ca,
        Err(why) => return refused(&why),
    };
    plain(ca.name());
    assert!(NOW <= ca.not_after());
    assert!(!text.lines().any(|l| l.starts_with("-----BEGIN PRIVATE KEY")), "a key beside it is passed over");
    assert_eq!(OperatorCa::from_der(ca.der().clone()).as_ref(), Ok(&ca));
    assert_eq!(ca.fingerprint().to_string().parse(), Ok(ca.fingerprint()));
    assert!(ca.same_key(&ca) && !ca.same_key(&STRANGER));
    assert_eq!(authority::fingerprint(text), Ok(ca.fingerprint()));
    let later = UtcTime::from_unix(ca.not_after().unix() + 1);
    assert_eq!(OperatorCa::from_pem(text, later), Err(Fault::Ended(ca.not_after())));
    let twice = format!("{text}\n{text}");
    assert!(
        twice.len() > 64 * 1024 || OperatorCa::from_pem(&twice, NOW) == Err(Fault::Count(2)),
        "two are taken"
    );
    let leaked = format!("{text}\n-----BEGIN EC PRIVATE KEY-----\n");
    assert!(OperatorCa::from_pem(&leaked, NOW).is_err(), "a key behind it is passed over");
    Said::Accepted
}

/// DER of an authority, of a client under it, and of its list: who is taken is signed by it and by no other, for now, byte for
/// byte, and a list can only take away.
pub fn client_certificate(input: &[u8]) -> Said {
    let [ca, der, bytes] = parts(input);
    let ca = match OperatorCa::from_der(ca.to_vec().into()) {
        Ok(ca) => ca,
        Err(why) => return refused(&why),
    };
    let list = match RevocationList::read(bytes, &ca) {
        Ok(list) => Some(Arc::new(list)),
        Err(why) => {
            refused(&why);
            None
        }
    };
    if let Some(read) = list.as_deref() {
        assert!(read.number().bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        assert!(!read.is_after(read.number()));
    }
    assert!(RevocationList::read(bytes, &STRANGER).is_err(), "anybody's list is taken");
    let judged = ca.verify_client(der, None, NOW);
    let with_list = ca.verify_client(der, list.as_deref(), NOW);
    for (list, judged) in [(None, &judged), (list, &with_list)] {
        let judge = Judge::new(ca.clone(), list);
        for _ in 0..2 {
            assert_eq!(&judge.verify_client(der, NOW), judged, "who remembers judges otherwise");
        }
    }
    assert!(judged.is_ok() || with_list.is_err(), "a list makes a client good");
    assert!(STRANGER.verify_client(der, None, NOW).is_err(), "whoever signed it, it is taken");
    let client = match judged {
        Ok(client) => client,
        Err(why) => return refused(&why),
    };
    plain(&client.name);
    assert!(NOW <= client.not_after && client.fingerprint == Fingerprint::of(der));
    assert!(client.serial.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
    let later = UtcTime::from_unix(client.not_after.unix() + 1);
    let judge = Judge::new(ca.clone(), None);
    let _ = judge.verify_client(der, NOW);
    assert!(judge.verify_client(der, later).is_err(), "it is remembered beyond its end");
    assert!(ca.verify_client(der, None, later).is_err(), "it is taken after its end");
    if let Some((last, head)) = der.split_last() {
        let other = [head, &[last ^ 1]].concat();
        assert!(ca.verify_client(&other, None, NOW).is_err(), "another signature does too");
        assert!(ca.verify_client(&[der, &[0]].concat(), None, NOW).is_err(), "bytes behind it");
    }
    match with_list {
        Ok(with) => assert_eq!(with, client),
        Err(why) => {
            refused(&why);
        }
    }
    Said::Accepted
}
