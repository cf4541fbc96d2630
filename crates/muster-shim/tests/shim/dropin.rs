//! The table of envelope 1, row by row.

use crate::rows::{Keys, Row, rows};
use crate::world::{KPSSH, World, keys, world};
use muster_signing::sign::{KeySigner, sign};

fn table() -> Vec<Row> {
    let by = |signer: &'static KeySigner| {
        move |bytes: &[u8], ns: &str| sign(bytes, ns, signer).unwrap().into_bytes()
    };
    rows(&Keys { signer: &by(&keys().signer), stranger: &by(&keys().stranger) })
}

fn judge(w: &World, row: &Row) -> Result<(), String> {
    let out = w.shim(KPSSH, &row.input);
    let good = out.code == Some(row.code)
        && out.stderr.contains(row.stderr)
        && row.stdout.is_none_or(|want| out.stdout == want);
    if good {
        Ok(())
    } else {
        Err(format!("{}: wanted {} {:?} {:?}, got {out:?}", row.name, row.code, row.stderr, row.stdout))
    }
}

#[test]
fn n7_every_row_of_envelope_1_holds() {
    world(|w| {
        w.drop_in();
        let table = table();
        assert!(table.len() > 100, "{}", table.len());
        let bad: Vec<String> = table.iter().filter_map(|r| judge(w, r).err()).collect();
        assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), table.len(), bad.join("\n"));
    });
}

#[test]
fn every_refusal_of_envelope_1_is_one_line_with_the_old_prefix() {
    world(|w| {
        w.drop_in();
        for row in table().iter().filter(|r| r.code != 0 && r.code != 10) {
            let out = w.shim(KPSSH, &row.input);
            assert_eq!(out.stderr.matches('\n').count(), 1, "{}: {:?}", row.name, out.stderr);
            assert!(out.stderr.starts_with("kpssh-shim: refused ["), "{}: {:?}", row.name, out.stderr);
            assert!(out.stdout.is_empty(), "{}", row.name);
        }
    });
}
