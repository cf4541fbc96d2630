//! Peers that break the rules: bounded in time and memory, with the right name for each.

use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use muster_ssh::testing::client;
use muster_ssh::{Address, Cause, ConnectError, Hop, HostTrust, Route, Stage, Timing};

use crate::{alone, brisk, resident};

const PIN: &str = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Long enough for whatever a peer has to say, on any machine.
const PATIENT: Duration = Duration::from_secs(40);
/// For peers that say nothing more.
const SHORT: Duration = Duration::from_millis(1500);

/// Serves one connection with `behave`, and gives what a client makes of it: long before its patience ends.
async fn meet(behave: impl FnOnce(TcpStream) + Send + 'static) -> ConnectError {
    let (error, took) = meet_for(PATIENT, behave).await;
    assert!(took < PATIENT / 2, "{took:?}: {error}");
    error
}

/// The same for a peer that holds the client until its deadline.
async fn meet_late(behave: impl FnOnce(TcpStream) + Send + 'static) {
    let (error, took) = meet_for(SHORT, behave).await;
    assert_eq!(error.cause(), &Cause::Deadline { stage: Stage::Handshake, after: SHORT }, "{error}");
    assert!((SHORT - Duration::from_millis(100)..SHORT * 10).contains(&took), "{took:?}");
}

async fn meet_for(
    patience: Duration,
    behave: impl FnOnce(TcpStream) + Send + 'static,
) -> (ConnectError, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_write_timeout(Some(PATIENT)).unwrap();
        stream.set_read_timeout(Some(PATIENT)).unwrap();
        behave(stream);
    });
    let timing = Timing { handshake: patience, ..brisk() };
    let hop = Hop::new("evil", Address::parse("127.0.0.1").unwrap(), "root", HostTrust::parse(PIN).unwrap());
    let begin = Instant::now();
    let before = resident();
    let error = client().connect(&Route::direct(hop.port(port).timing(timing))).await.unwrap_err();
    let took = begin.elapsed();
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "grew by {grown} bytes: {error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    // Not on the runtime's own thread, which has the connection to close.
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();
    (error, took)
}

/// Reads what comes until the other side hangs up.
fn drain(stream: &mut TcpStream) {
    let mut sink = [0; 4096];
    loop {
        match stream.read(&mut sink) {
            Ok(n) if n > 0 => {}
            // A read that has a limit is not begun again by itself when something interrupts it: signal(7).
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let padding = 8 - (payload.len() + 5) % 8 + 8;
    let mut out = u32::try_from(payload.len() + padding + 1).unwrap().to_be_bytes().to_vec();
    out.push(u8::try_from(padding).unwrap());
    out.extend_from_slice(payload);
    out.resize(out.len() + padding, 0);
    out
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
    out.extend_from_slice(bytes);
}

fn kexinit(kex: &str, host: &str, cipher: &str) -> Vec<u8> {
    let mut payload = vec![20];
    payload.extend_from_slice(&[7; 16]);
    for list in [kex, host, cipher, cipher, "hmac-sha2-256", "hmac-sha2-256", "none", "none", "", ""] {
        string(&mut payload, list.as_bytes());
    }
    payload.extend_from_slice(&[0; 5]);
    packet(&payload)
}

const GOOD: (&str, &str, &str) =
    ("curve25519-sha256,kex-strict-s-v00@openssh.com", "ssh-ed25519", "aes256-gcm@openssh.com");

fn hello() -> Vec<u8> {
    let mut out = b"SSH-2.0-Evil\r\n".to_vec();
    out.extend(kexinit(GOOD.0, GOOD.1, GOOD.2));
    out
}

#[tokio::test]
async fn st20_closed_before_the_banner() {
    if !alone("hostile::st20_closed_before_the_banner") {
        return;
    }
    let error = meet(drop).await;
    assert_eq!(error.cause(), &Cause::DroppedBeforeBanner { said: None });
    // What a newer sshd says to an address that it penalizes.
    let error = meet(|mut s| {
        s.write_all(b"Not allowed at this time\r\n").unwrap();
    })
    .await;
    assert_eq!(
        error.cause(),
        &Cause::DroppedBeforeBanner { said: Some("Not allowed at this time".to_owned()) }
    );
    assert!(error.to_string().contains("PerSourcePenalties"), "{error}");
}

#[tokio::test]
async fn st20_tarpits_end_at_the_deadline() {
    if !alone("hostile::st20_tarpits_end_at_the_deadline") {
        return;
    }
    // Says nothing at all.
    meet_late(|mut s| drain(&mut s)).await;
    // Says its version and no more.
    meet_late(|mut s| {
        s.write_all(b"SSH-2.0-Tarpit\r\n").unwrap();
        drain(&mut s);
    })
    .await;
    // One byte at a time.
    meet_late(|mut s| {
        for b in hello().into_iter().cycle() {
            if s.write_all(&[b]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    })
    .await;
    // All of the first part, then silence.
    meet_late(|mut s| {
        s.write_all(&hello()).unwrap();
        drain(&mut s);
    })
    .await;
}

#[tokio::test]
async fn st20_endless_banners() {
    if !alone("hostile::st20_endless_banners") {
        return;
    }
    let error = meet(|mut s| while s.write_all(b"hello hello hello\r\n").is_ok() {}).await;
    assert!(matches!(error.cause(), Cause::NotSsh { .. }), "{error}");
    let error = meet(|mut s| while s.write_all(&[b'a'; 4096]).is_ok() {}).await;
    assert!(matches!(error.cause(), Cause::NotSsh { .. }), "{error}");
    meet_late(|mut s| {
        s.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n\x1b[31mred\x07").unwrap();
        drain(&mut s);
    })
    .await;
    let error = meet(|mut s| {
        s.write_all(b"SSH-1.5-OpenSSH_2\r\n").unwrap();
        drain(&mut s);
    })
    .await;
    assert!(matches!(error.cause(), Cause::NotSsh { said } if said == "SSH-1.5-OpenSSH_2"), "{error}");
    let error = meet(|mut s| {
        s.write_all(b"\x1b]0;owned\x07 \xff\xfe\r\n").unwrap();
    })
    .await;
    assert!(!error.to_string().contains('\u{1b}'), "no control characters reach a terminal: {error:?}");
}

#[tokio::test]
async fn st20_giant_and_impossible_packets() {
    if !alone("hostile::st20_giant_and_impossible_packets") {
        return;
    }
    for length in [0u32, 1, 5, 100_000, 0x0fff_ffff, u32::MAX] {
        let error = meet(move |mut s| {
            let mut bytes = b"SSH-2.0-Evil\r\n".to_vec();
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&[0xff; 4096]);
            let _ = s.write_all(&bytes);
            drain(&mut s);
        })
        .await;
        assert!(matches!(error.cause(), Cause::Protocol { .. }), "{length}: {error}");
    }
}

#[tokio::test]
async fn st20_garbage_in_the_key_exchange() {
    if !alone("hostile::st20_garbage_in_the_key_exchange") {
        return;
    }
    let reply = |host_key: &[u8], signature: &[u8]| {
        let mut payload = vec![31];
        string(&mut payload, host_key);
        string(&mut payload, &[9; 32]);
        string(&mut payload, signature);
        packet(&payload)
    };
    let mut ed25519 = Vec::new();
    string(&mut ed25519, b"ssh-ed25519");
    string(&mut ed25519, &[1; 32]);
    let mut signature = Vec::new();
    string(&mut signature, b"ssh-ed25519");
    string(&mut signature, &[1; 64]);
    let mut nested = Vec::new();
    for _ in 0..1000 {
        string(&mut nested, b"ssh-ed25519-cert-v01@openssh.com");
    }
    let mut huge = Vec::new();
    string(&mut huge, b"ssh-ed25519");
    string(&mut huge, &vec![1; 60_000]);
    for (what, bytes, code) in [
        ("random bytes", vec![0xa5; 5000], "protocol"),
        ("a wrong signature", reply(&ed25519, &signature), "protocol"),
        ("an empty key", reply(b"", &signature), "host-key-refused"),
        ("a key of a strange kind", reply(b"\0\0\0\x03foo", &signature), "host-key-refused"),
        ("a key that is too long", reply(&huge, &signature), "host-key-refused"),
        ("nested certificates", reply(&nested, &signature), "host-certificate-refused"),
        ("no signature", reply(&ed25519, b""), "protocol"),
        ("a disconnect", packet(b"\x01\0\0\0\x02\0\0\0\x03bye\0\0\0\0"), "connection-lost"),
        ("an unasked reply", packet(&[33, 0, 0, 0, 0]), "protocol"),
        ("data before keys", packet(&[94, 0, 0, 0, 0]), "protocol"),
        ("an unfinished packet", vec![0, 0, 0, 20, 4], "connection-lost"),
    ] {
        let error = meet(move |mut s| {
            let mut all = hello();
            all.extend(bytes);
            let _ = s.write_all(&all);
            let _ = s.shutdown(std::net::Shutdown::Write);
            drain(&mut s);
        })
        .await;
        assert_eq!(error.code(), code, "{what}: {error}");
    }
}

#[tokio::test]
async fn terrapin_a_host_without_strict_order_and_without_gcm_is_refused() {
    if !alone("hostile::terrapin_a_host_without_strict_order_and_without_gcm_is_refused") {
        return;
    }
    let error = meet(|mut s| {
        let mut all = b"SSH-2.0-Old\r\n".to_vec();
        all.extend(kexinit("curve25519-sha256", GOOD.1, "chacha20-poly1305@openssh.com,aes256-ctr"));
        let _ = s.write_all(&all);
        drain(&mut s);
    })
    .await;
    assert!(error.to_string().contains("CVE-2023-48795"), "{error}");
    // With GCM it goes on, to where this one has nothing more to say.
    meet_late(|mut s| {
        let mut all = b"SSH-2.0-Old\r\n".to_vec();
        all.extend(kexinit(
            "curve25519-sha256",
            GOOD.1,
            "chacha20-poly1305@openssh.com,aes256-gcm@openssh.com",
        ));
        let _ = s.write_all(&all);
        drain(&mut s);
    })
    .await;
}

#[tokio::test]
async fn st20_flood_of_ignored_packets_is_bounded() {
    if !alone("hostile::st20_flood_of_ignored_packets_is_bounded") {
        return;
    }
    let error = meet(|mut s| {
        let _ = s.write_all(b"SSH-2.0-Evil\r\n");
        let ignore = packet(&[2; 1000]);
        while s.write_all(&ignore).is_ok() {}
    })
    .await;
    assert!(matches!(error.cause(), Cause::Protocol { .. }), "{error}");
}
