//! The vectors of draft-irtf-cfrg-cpace-21, appendix "Test vector for CPace using group ristretto255 and hash SHA-512".
#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use proptest::prelude::*;

const PRS: &[u8] = b"Password";
const CI: &[u8] = b"\nAinitiator\nBresponder";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|c| char::from(c).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn hex32(text: &str) -> [u8; 32] {
    hex(text).try_into().unwrap()
}

fn scalar(text: &str) -> Scalar {
    Scalar::from_canonical_bytes(hex32(text)).unwrap()
}

fn sid() -> Vec<u8> {
    hex("7e4b4791d6a8ef019b936c79fb7f2c57")
}

#[test]
fn the_generator_is_the_drafts() {
    let text = hex(&format!(
        "11435061636552697374726574746f3235350850617373776f726464{}160a41696e69746961746f720a42726573706f6e646572107e4b4791d6a8ef019b936c79fb7f2c57",
        "00".repeat(100)
    ));
    assert_eq!(text.len(), 168);
    assert_eq!(generator_string(PRS, CI, &sid()), text);
    assert_eq!(
        generator(PRS, CI, &sid()).compress().to_bytes(),
        hex32("5e25411ca1ad7c9debfd0b33ad987a95cefef2d3f15dcc8bd26415a5dfe2e15a")
    );
}

#[test]
fn both_sides_get_the_drafts_key() {
    let g = generator(PRS, CI, &sid());
    let a = Half::of(&g, scalar("da3d23700a9e5699258aef94dc060dfda5ebb61f02a5ea77fad53f4ff0976d08"));
    let b = Half::of(&g, scalar("d2316b454718c35362d83d69df6320f38578ed5984651435e2949762d900b80d"));
    assert_eq!(a.share(), hex32("383a85dd236978f17f8c8545b50dabc52a39fcdab2cf8bc531ce040ff77ca82d"));
    assert_eq!(b.share(), hex32("a6206309c0e8e5f579295e35997ac4300ab3fecec3c17f7b604f3e698fa1383c"));
    let k = hex32("fa1d0318864e2cacb26875f1b791c9ae83204fe8359addb53e95a2e98893853f");
    assert_eq!(*common_point(&a.scalar, &b.share()).unwrap(), k);
    assert_eq!(*common_point(&b.scalar, &a.share()).unwrap(), k);
    let key = session_key(&sid(), &k, (&a.share(), b"ADa"), (&b.share(), b"ADb"));
    assert_eq!(
        key.expose().to_vec(),
        hex(
            "e91ccb2c0f5e0d0993a33956e3be59754f3f2b07db57631f5394452ea2e7b4354674eb1f5686c078462bf83bec72e8743df440108e638f3526d9b90e85be096f"
        )
    );
}

#[test]
fn multiplication_is_the_drafts() {
    let s = scalar("7cd0e075fa7955ba52c02759a6c90dbbfc10e6d40aea8d283e407d88cf538a05");
    let x = hex32("2c3c6b8c4f3800e7aef6864025b4ed79bd599117e427c41bd47d93d654b4a51c");
    assert_eq!(
        *common_point(&s, &x).unwrap(),
        hex32("7c13645fe790a468f62c39beb7388e541d8405d1ade69d1778c5fe3e7f6b600e")
    );
}

#[test]
fn shares_that_are_no_points_or_neutral_are_refused() {
    let s = scalar("7cd0e075fa7955ba52c02759a6c90dbbfc10e6d40aea8d283e407d88cf538a05");
    // The draft's Y_i1 and Y_i2, then encodings that RFC 9496 (appendix A.3) calls bad: not canonical, negative.
    for share in [
        "2b3c6b8c4f3800e7aef6864025b4ed79bd599117e427c41bd47d93d654b4a51c",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ] {
        assert_eq!(common_point(&s, &hex32(share)).unwrap_err(), BadShare, "{share}");
    }
}

#[test]
fn lengths_are_leb128() {
    let mut out = Vec::new();
    prepend_len(&mut out, &[7; 300]);
    assert_eq!(out.get(..3), Some(&[0xac, 0x02, 7][..]));
    assert_eq!(out.len(), 302);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn one_password_one_channel_one_key(x: [u8; 32], y: [u8; 32], other in "[a-z]{1,12}") {
        let wide = |b: [u8; 32]| { let mut w = [9; 64]; w[..32].copy_from_slice(&b); w };
        let a = Half::new(PRS, CI, wide(x));
        for (password, channel, same) in [(PRS, CI, true), (other.as_bytes(), CI, false), (PRS, other.as_bytes(), false)] {
            let b = Half::new(password, channel, wide(y));
            let at_a = a.finish(&b.share(), Role::Initiator, b"1", b"2").unwrap();
            let at_b = b.finish(&a.share(), Role::Responder, b"1", b"2").unwrap();
            prop_assert_eq!(at_a.expose() == at_b.expose(), same);
            let elsewhere = b.finish(&a.share(), Role::Responder, b"1", b"3").unwrap();
            prop_assert!(at_a.expose() != elsewhere.expose());
        }
    }
}
