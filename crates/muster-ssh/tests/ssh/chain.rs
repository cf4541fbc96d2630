//! Bastions.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use muster_ssh::testing::{ClosedPort, KeyPair, Setup, Sshd, client, knows, signal_pid};
use muster_ssh::{
    Address, Cause, Exec, Family, Fault, Hop, HostTrust, Keepalive, Limits, Output, Retry, Route, Stage,
    Status, Timing, require_sshd_or_skip,
};

use crate::{brisk, when};

fn hop(sshd: &Sshd, name: &str) -> Hop {
    sshd.hop(name).timing(brisk())
}

/// Three bastions and a host, each with keys of its own.
fn four() -> [Sshd; 4] {
    core::array::from_fn(|_| Sshd::start())
}

#[tokio::test]
async fn st6_three_hops_each_present_their_own_key() {
    require_sshd_or_skip!();
    let [a, b, c, d] = four();
    let route = Route::via(vec![hop(&a, "a"), hop(&b, "b"), hop(&c, "c")], hop(&d, "d"));
    let client = client();
    let connection = client.connect(&route).await.unwrap();
    let hops = connection.hops();
    let shown: Vec<_> = hops.iter().map(|h| (h.hop.index, h.hop.name.clone(), h.fingerprint)).collect();
    let want: Vec<_> = [&a, &b, &c, &d]
        .iter()
        .zip(["a", "b", "c", "d"])
        .enumerate()
        .map(|(i, (s, name))| (i + 1, name.to_owned(), s.host_key().fingerprint()))
        .collect();
    assert_eq!(shown, want);
    let out = connection.exec("echo $SSH_CONNECTION", b"", Limits::default()).await.unwrap();
    assert!(out.stdout.text().contains(&d.port().to_string()));
    // The login keys are each hop's own.
    for sshd in [&a, &b, &c, &d] {
        assert!(sshd.log().contains(&sshd.login().fingerprint().to_string()), "{}", sshd.log());
    }
}

#[tokio::test]
async fn st6_a_changed_key_is_reported_for_the_hop_that_changed() {
    require_sshd_or_skip!();
    let [a, b, c, d] = four();
    for wrong in 1..=4 {
        let mut hops: Vec<Hop> =
            [&a, &b, &c, &d].iter().zip(["a", "b", "c", "d"]).map(|(s, name)| hop(s, name)).collect();
        let sshd = [&a, &b, &c, &d][wrong - 1];
        // Pinned is the key of the hop before: the fault of clients that check the wrong hop's key.
        let pinned = [&d, &a, &b, &c][wrong - 1].host_key();
        let name = ["a", "b", "c", "d"][wrong - 1];
        hops[wrong - 1] = sshd
            .hop_with(name, HostTrust::parse(&pinned.public()).unwrap())
            .identity(sshd.login().identity())
            .timing(brisk());
        let target = hops.pop().unwrap();
        let error = client().connect(&Route::via(hops, target)).await.unwrap_err();
        assert_eq!(
            (error.hop().index, error.hop().of, error.hop().name.as_str()),
            (wrong, 4, name),
            "{error}"
        );
        let Cause::HostKeyChanged { pinned: p, presented } = error.cause() else { panic!("{error}") };
        assert_eq!(p, &[pinned.fingerprint()]);
        assert_eq!(presented[0].1, sshd.host_key().fingerprint());
        let role = if wrong == 4 { "target" } else { "bastion" };
        assert!(
            error.to_string().starts_with(&format!("hop {wrong} of 4, {role} {name} (127.0.0.1:")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn each_way_a_hop_can_fail_is_reported_for_that_hop() {
    require_sshd_or_skip!();
    let (a, b) = (Sshd::start(), Sshd::start());
    let client = client();
    // The bastion lets nobody in.
    let stranger = KeyPair::generate(a.dir(), "stranger", "ed25519");
    let bad = a.hop_with("a", a.trust()).identity(stranger.identity()).timing(brisk());
    let error = client.connect(&Route::via(vec![bad], hop(&b, "b"))).await.unwrap_err();
    assert_eq!((error.hop().index, error.code()), (1, "auth-refused"), "{error}");
    // The target lets nobody in.
    let bad = b.hop_with("b", b.trust()).identity(stranger.identity()).timing(brisk());
    let error = client.connect(&Route::via(vec![hop(&a, "a")], bad)).await.unwrap_err();
    assert_eq!((error.hop().index, error.code()), (2, "auth-refused"), "{error}");
    // Nobody listens behind the bastion.
    let closed = ClosedPort::on(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let nobody = Hop::new("nobody", Address::parse("127.0.0.1").unwrap(), "x", b.trust())
        .port(closed.port())
        .timing(brisk());
    let error = client.connect(&Route::via(vec![hop(&a, "a")], nobody.clone())).await.unwrap_err();
    assert_eq!((error.hop().index, error.code()), (2, "unreachable"), "{error}");
    assert!(error.to_string().contains("the bastion a could not connect: Connection refused"), "{error}");
    assert_eq!((error.fault(), error.retry()), (Fault::Network, Retry::Helps));
    // Nor before it.
    let error = client.connect(&Route::direct(nobody)).await.unwrap_err();
    assert_eq!((error.hop().index, error.code()), (1, "unreachable"), "{error}");
    // A name that the bastion cannot resolve.
    let unnamed = Hop::new("unnamed", Address::parse("no-such-host.invalid").unwrap(), "x", b.trust());
    let error = client.connect(&Route::via(vec![hop(&a, "a")], unnamed.timing(brisk()))).await.unwrap_err();
    assert_eq!((error.hop().index, error.code()), (2, "unreachable"), "{error}");
    // A bastion that does not forward.
    for config in ["AllowTcpForwarding no", "DisableForwarding yes", "PermitOpen 192.0.2.1:22"] {
        let shut = Sshd::start_with(Setup { config: vec![config.to_owned()], ..Setup::default() });
        let error = client.connect(&Route::via(vec![hop(&shut, "shut")], hop(&b, "b"))).await.unwrap_err();
        assert_eq!((error.hop().index, error.code()), (1, "channel-refused"), "{config}: {error}");
        assert!(error.to_string().contains("AllowTcpForwarding"), "{error}");
        assert_eq!((error.fault(), error.retry()), (Fault::Host, Retry::Useless));
    }
}

#[tokio::test]
async fn st3_a_bastion_is_connected_to_once_for_all_behind_it() {
    require_sshd_or_skip!();
    let (a, b, c) = (Sshd::start(), Sshd::start(), Sshd::start());
    let client = client();
    let to = |target: Hop| Route::via(vec![hop(&a, "a")], target);
    let routes = [to(hop(&b, "b")), to(hop(&c, "c")), to(hop(&b, "b again"))];
    let (x, y, z) =
        tokio::join!(client.connect(&routes[0]), client.connect(&routes[1]), client.connect(&routes[2]));
    let (x, y, z) = (x.unwrap(), y.unwrap(), z.unwrap());
    for connection in [&x, &y, &z] {
        assert_eq!(
            connection.exec("exit 3", b"", Limits::default()).await.unwrap().status,
            Status::Exited(3)
        );
    }
    assert_eq!(a.log().matches("Accepted publickey").count(), 1);
    // Another identity is another connection.
    let second = KeyPair::generate(a.dir(), "second", "ed25519");
    a.authorize(&format!("{}\n{}\n", a.login().public(), second.public()));
    let other = a.hop_with("a", a.trust()).identity(second.identity()).timing(brisk());
    client.connect(&Route::via(vec![other], hop(&b, "b"))).await.unwrap();
    assert_eq!(a.log().matches("Accepted publickey").count(), 2);
    // One that is gone is connected to again.
    drop((x, y, z));
    a.signal_sessions("KILL");
    let connection = client.connect(&to(hop(&c, "c"))).await.unwrap();
    assert!(connection.is_alive());
    assert!(a.log().matches("Accepted publickey").count() >= 3);
}

#[tokio::test]
async fn many_hosts_behind_a_dead_bastion_fail_together() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    // Takes connections and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let timing = Timing { handshake: Duration::from_millis(700), ..brisk() };
    let dead = Hop::new("dead", Address::parse("127.0.0.1").unwrap(), "x", sshd.trust())
        .port(listener.local_addr().unwrap().port())
        .timing(timing);
    let client = std::sync::Arc::new(client());
    let begin = std::time::Instant::now();
    let all: Vec<_> = (0..20)
        .map(|i| {
            let route = Route::via(vec![dead.clone()], hop(&sshd, &format!("h{i}")));
            let client = std::sync::Arc::clone(&client);
            tokio::spawn(async move { client.connect(&route).await })
        })
        .collect();
    for one in all {
        let error = one.await.unwrap().unwrap_err();
        assert_eq!((error.hop().name.as_str(), error.hop().index), ("dead", 1));
    }
    // One after the other it would be 14 s.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_bastion_that_dies_mid_run_is_named_and_the_outcome_is_unknown() {
    require_sshd_or_skip!();
    let (a, b, c) = (Sshd::start(), Sshd::start(), Sshd::start());
    let client = client();
    let route = Route::via(vec![hop(&a, "a"), hop(&b, "b")], hop(&c, "c"));
    let connection = client.connect(&route).await.unwrap();
    let begun = AtomicBool::new(false);
    let mut watch = |_: Output, _: &[u8]| begun.store(true, Ordering::SeqCst);
    let run = connection.run(Exec::new("echo begun; sleep 60").watch(&mut watch));
    let kill = async {
        when(&begun).await;
        b.signal_sessions("KILL");
    };
    let (out, ()) = tokio::join!(run, kill);
    let out = out.unwrap();
    let Status::ConnectionLost { hop, .. } = &out.status else { panic!("{out:?}") };
    assert_eq!((hop.index, hop.name.as_str()), (2, "b"), "{out:?}");
    assert_eq!(out.stdout.bytes, b"begun\n");
    assert!(!out.output_complete);
    assert!(!connection.is_alive());
}

#[tokio::test]
async fn a_bastion_that_stalls_is_named_by_its_silence() {
    require_sshd_or_skip!();
    let (a, b) = (Sshd::start(), Sshd::start());
    let keepalive = Keepalive { interval: Duration::from_millis(700), max: 3 };
    let timing = Timing { keepalive, ..brisk() };
    let client = client();
    let route = Route::via(vec![a.hop("a").timing(timing)], b.hop("b").timing(timing));
    let connection = client.connect(&route).await.unwrap();
    let begin = std::time::Instant::now();
    let begun = AtomicBool::new(false);
    let mut watch = |_: Output, _: &[u8]| begun.store(true, Ordering::SeqCst);
    let stall = async {
        when(&begun).await;
        a.signal_sessions("STOP");
    };
    let (out, ()) = tokio::join!(connection.run(Exec::new("echo begun; sleep 60").watch(&mut watch)), stall);
    let out = out.unwrap();
    let Status::ConnectionLost { hop, why } = &out.status else { panic!("{out:?}") };
    assert_eq!(hop.name, "a", "{out:?}");
    assert!(why.contains("silent"), "{why}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    a.signal_sessions("CONT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_in_both_directions_through_two_bastions_does_not_stall() {
    require_sshd_or_skip!();
    let (a, b, c) = (Sshd::start(), Sshd::start(), Sshd::start());
    let client = client();
    let route = Route::via(vec![hop(&a, "a"), hop(&b, "b")], hop(&c, "c"));
    let connection = client.connect(&route).await.unwrap();
    let input = vec![b'x'; 24 << 20];
    let exec = Exec::new("cat").stdin(&input).deadline(Duration::from_secs(120));
    let out = connection.run(exec.limits(Limits { stdout: 1 << 20, stderr: 0 })).await.unwrap();
    assert_eq!((out.status, out.stdout.total), (Status::Exited(0), input.len() as u64));
}

#[tokio::test]
async fn ipv6_literals_and_families() {
    require_sshd_or_skip!();
    // Nobody may have the same port of the other family, where it must be found closed.
    let (v6, _closed) = core::iter::repeat_with(|| {
        let v6 = Sshd::start_with(Setup { listen: IpAddr::V6(Ipv6Addr::LOCALHOST), ..Setup::default() });
        let closed = ClosedPort::at((Ipv4Addr::LOCALHOST, v6.port()).into());
        (v6, closed)
    })
    .find(|(_, closed)| closed.is_ok())
    .unwrap();
    let client = client();
    let works = async |route: Route| {
        let connection = client.connect(&route).await.unwrap();
        let out = connection.exec("echo hi", b"", Limits::default()).await.unwrap();
        assert_eq!(out.stdout.bytes, b"hi\n");
    };
    for text in ["::1", "[::1]"] {
        let address = Address::parse(text).unwrap();
        let hop = Hop::new("six", address, muster_ssh::testing::user(), v6.trust()).port(v6.port());
        assert_eq!(hop.endpoint(), format!("[::1]:{}", v6.port()));
        works(Route::direct(hop.identity(v6.login().identity()).timing(brisk()))).await;
    }
    // Behind an IPv4 bastion, and as a bastion.
    let v4 = Sshd::start();
    works(Route::via(vec![hop(&v4, "four")], hop(&v6, "six"))).await;
    works(Route::via(vec![hop(&v6, "six")], hop(&v4, "four"))).await;
    // A name with both: the order and the choice are ours.
    let named = |family| {
        let address = Address::parse("localhost").unwrap();
        Hop::new("named", address, muster_ssh::testing::user(), v6.trust())
            .port(v6.port())
            .identity(v6.login().identity())
            .family(family)
            .timing(brisk())
    };
    let both = tokio::net::lookup_host(("localhost", 22)).await.unwrap().any(|a| a.is_ipv6());
    if both {
        for family in [Family::System, Family::V6First, Family::V4First, Family::V6Only] {
            works(Route::direct(named(family))).await;
        }
    } else {
        muster_needs::skip_part("localhost has no IPv6 address here");
    }
    let error = client.connect(&Route::direct(named(Family::V4Only))).await.unwrap_err();
    assert_eq!(error.code(), "unreachable", "{error}");
}

#[tokio::test]
async fn st11_a_flake_is_tried_again_and_a_refusal_is_not() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let retry = muster_ssh::RetryPolicy { attempts: 4, ..brisk().retry };
    let timing = Timing { retry, ..brisk() };
    // Two that are dropped before the banner, then one that is carried through.
    let (port, relay) = crowded("", 2, Some(sshd.port()));
    let flaky =
        Hop::new("flaky", Address::parse("127.0.0.1").unwrap(), muster_ssh::testing::user(), sshd.trust())
            .port(port)
            .identity(sshd.login().identity())
            .timing(timing);
    let connection = client().connect(&Route::direct(flaky)).await.unwrap();
    connection.exec("true", b"", Limits::default()).await.unwrap();
    connection.close().await;
    relay.join().unwrap();
    // A refusal: once.
    let stranger = KeyPair::generate(sshd.dir(), "stranger", "ed25519");
    let refused = sshd.hop_with("host", sshd.trust()).identity(stranger.identity()).timing(timing);
    let before = sshd.log().matches("Connection from").count();
    let error = client().connect(&Route::direct(refused)).await.unwrap_err();
    assert_eq!((error.code(), error.attempts()), ("auth-refused", 1));
    assert_eq!(sshd.log().matches("Connection from").count(), before + 1);
    // A flake that stays: as often as the policy says, and the error says so.
    let closed = ClosedPort::on(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let nobody = Hop::new("nobody", Address::parse("127.0.0.1").unwrap(), "x", sshd.trust())
        .port(closed.port())
        .timing(timing);
    let error = client().connect(&Route::direct(nobody)).await.unwrap_err();
    assert_eq!((error.code(), error.attempts()), ("unreachable", 4), "{error}");
    assert!(error.to_string().ends_with("(tried 4 times)"), "{error}");
}

/// A host that tells as many as `crowd` to go away, and carries the next one to `target`, where there is one.
fn crowded(words: &'static str, crowd: usize, target: Option<u16>) -> (u16, std::thread::JoinHandle<()>) {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let relay = std::thread::spawn(move || {
        for _ in 0..crowd {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(words.as_bytes()).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let _ = std::io::copy(&mut client, &mut std::io::sink());
        }
        let Some(target) = target else { return };
        let (client, _) = listener.accept().unwrap();
        let server = std::net::TcpStream::connect(("127.0.0.1", target)).unwrap();
        let (mut c, mut s) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let up = std::thread::spawn(move || std::io::copy(&mut c, &mut s));
        let (mut s, mut c) = (server, client);
        let _ = std::io::copy(&mut s, &mut c);
        let _ = c.shutdown(std::net::Shutdown::Both);
        drop(up.join());
    });
    (port, relay)
}

#[tokio::test]
async fn st11_a_host_that_is_crowded_is_tried_longer_than_one_that_drops() {
    require_sshd_or_skip!();
    let sshd = Sshd::start();
    let retry = muster_ssh::RetryPolicy { attempts: 2, ..brisk().retry };
    let hop = |port| {
        Hop::new("crowded", Address::parse("127.0.0.1").unwrap(), muster_ssh::testing::user(), sshd.trust())
            .port(port)
            .identity(sshd.login().identity())
            .timing(Timing { retry, ..brisk() })
    };
    let (port, relay) = crowded("Exceeded MaxStartups\r\n", 5, Some(sshd.port()));
    let connection = client().connect(&Route::direct(hop(port))).await.unwrap();
    connection.exec("true", b"", Limits::default()).await.unwrap();
    connection.close().await;
    relay.join().unwrap();
    // What a penalty says.
    let (port, relay) = crowded("Not allowed at this time\r\n", 2, None);
    let error = client().connect(&Route::direct(hop(port))).await.unwrap_err();
    assert_eq!((error.code(), error.attempts()), ("dropped-before-banner", 2), "{error}");
    relay.join().unwrap();
}

#[tokio::test]
async fn st1_no_connection_is_ever_opened_without_a_login() {
    require_sshd_or_skip!();
    // An sshd that shuts out, for five minutes, whoever connects and does not log in.
    let harsh = "PerSourcePenalties noauth:300 min:0s";
    let (config, times) = if knows(harsh) { (vec![harsh.to_owned()], 200) } else { (Vec::new(), 20) };
    let (a, b) = (
        Sshd::start_with(Setup { config: config.clone(), ..Setup::default() }),
        Sshd::start_with(Setup { config, ..Setup::default() }),
    );
    for _ in 0..times {
        let client = client();
        let connection = client.connect(&Route::via(vec![hop(&a, "a")], hop(&b, "b"))).await.unwrap();
        connection.exec("true", b"", Limits::default()).await.unwrap();
    }
    for sshd in [&a, &b] {
        let log = sshd.log();
        assert_eq!(log.matches("Connection from").count(), times);
        assert_eq!(log.matches("Accepted publickey").count(), times);
        let unfinished = log.lines().filter(|l| l.contains("[preauth]") && !l.starts_with("Postponed"));
        assert_eq!(unfinished.count(), 0, "{log}");
    }
    if times == 200 {
        // What a probe would have done.
        drop(std::net::TcpStream::connect(("127.0.0.1", a.port())).unwrap());
        assert!(a.wait_log("penalty"), "{}", a.log());
        let error = client().connect(&Route::direct(hop(&a, "a"))).await.unwrap_err();
        let Cause::DroppedBeforeBanner { said: Some(said) } = error.cause() else { panic!("{error}") };
        assert!(said.contains("Not allowed at this time"), "{said}");
    }
}

#[tokio::test]
async fn a_runtime_may_go_away_with_a_chain_on_it() {
    require_sshd_or_skip!();
    let (a, b) = (Sshd::start(), Sshd::start());
    let route = Route::via(vec![hop(&a, "a")], hop(&b, "b"));
    let kept = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = client();
        let connection = runtime.block_on(client.connect(&route)).unwrap();
        runtime.shutdown_timeout(Duration::from_secs(2));
        (client, connection)
    });
    let (client, connection) = kept.join().unwrap();
    assert!(!connection.is_alive());
    drop(connection);
    drop(client);
    assert!(a.wait_log("Connection closed") || a.wait_log("disconnect"));
}

#[tokio::test]
async fn deadlines_name_their_stage_and_their_hop() {
    require_sshd_or_skip!();
    let (a, b) = (Sshd::start(), Sshd::start());
    let short = Timing { handshake: Duration::from_millis(700), ..brisk() };
    // The second listener accepts and is stopped: the bastion connects, nobody answers.
    signal_pid(b.pid(), "STOP");
    let begin = std::time::Instant::now();
    let route = Route::via(vec![hop(&a, "a")], b.hop("b").timing(short));
    let error = client().connect(&route).await.unwrap_err();
    signal_pid(b.pid(), "CONT");
    assert_eq!(
        error.cause(),
        &Cause::Deadline { stage: Stage::Handshake, after: Duration::from_millis(700) }
    );
    assert_eq!(error.hop().index, 2);
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    assert_eq!((error.fault(), error.retry()), (Fault::Network, Retry::Helps));
}
