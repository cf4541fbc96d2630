//! A real sshd on loopback, a fleet of hosts that are all this sshd, and a forced command that says what a test wants.

use crate::run::{Place, Ran};
use muster_ssh::testing::{KeyPair, Setup, Sshd};
use std::fs;

/// Reads its input, counts, answers a probe with one text and a phase with another.
const STUB: &str = r#"#!/bin/sh
cd DIR || exit 99
cat > input.$$
if grep -q '^phase: probe$' input.$$; then . ./probe; else echo x >> sent; . ./phase; fi
"#;

pub(crate) const PROBE: &str = r#"echo '{"muster-probe":1,"clock":{"now":"2026-11-29T00:00:30Z"},"policy":{"host":"h1","profiles":{"tiny":1}},"running":null,"last-run":null}'"#;

pub(crate) struct Bench {
    pub(crate) p: Place,
    pub(crate) sshd: Sshd,
    /// Certifies users.
    pub(crate) ca: KeyPair,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let p = Place::new();
        p.write("stub.text", STUB.replace("DIR", &p.path().display().to_string()));
        // By a program: what this process has had open for writing may not be run yet (ETXTBSY) when a test beside forks.
        p.sh("cp stub.text stub; chmod 755 stub");
        let stub = p.join("stub");
        let ca = KeyPair::generate(p.path(), "ca", "ed25519");
        let config = vec![
            format!("ForceCommand {}", stub.display()),
            format!("TrustedUserCAKeys {}", ca.public_path().display()),
        ];
        let setup = Setup { config, ..Setup::default() };
        let sshd = Sshd::start_with(setup);
        assert_eq!(p.muster("init --danger-no-passphrase").code, 0);
        p.write("tiny/profile.yaml", "profile: tiny\nepoch: 1\ntargets: [pool=edge]\nparams:\n  MUSTER_T: {pattern: \".+\", optional: true}\n");
        p.write("tiny/join.sh", "set -euo pipefail\ntrue\n");
        assert_eq!(p.muster("script sign tiny").code, 0);
        let bench = Self { p, sshd, ca };
        bench.inventory(&["h1"], &bench.sshd.login().path.display().to_string());
        bench.answer("exit 0", PROBE);
        bench
    }

    /// Hosts that are all this sshd, under loopback addresses of their own.
    pub(crate) fn inventory(&self, names: &[&str], identity: &str) {
        let mut text =
            "trust: {allowed-signers: trust/allowed_signers}\nsigning: {key: keys/signer}\nhosts:\n"
                .to_owned();
        for (n, name) in (0..).zip(names) {
            // Another spelling of the address is another place for the inventory.
            let address = ["127.0.0.1", "localhost", "ip6-localhost"][n];
            text.push_str(&format!(
                "  {name}: {{ssh: {{address: {address}, port: {}, user: {}, host-key: \"{}\", identities: [{identity}]}}, pools: [edge]}}\n",
                self.sshd.port(),
                muster_ssh::testing::user(),
                self.sshd.host_key().fingerprint(),
            ));
        }
        self.p.write("inventory.yaml", text);
    }

    pub(crate) fn answer(&self, phase: &str, probe: &str) {
        self.p.write("phase", phase);
        self.p.write("probe", probe);
        let _ = fs::remove_file(self.p.join("sent"));
    }

    pub(crate) fn sent(&self) -> usize {
        fs::read_to_string(self.p.join("sent")).map_or(0, |t| t.lines().count())
    }

    pub(crate) fn join(&self, more: &str) -> Ran {
        self.p.muster(&format!("host join h1 --profile tiny -o json {more}"))
    }
}

pub(crate) fn row(ran: &Ran) -> serde_json::Value {
    let rows: serde_json::Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err));
    rows[0].clone()
}
