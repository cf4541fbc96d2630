//! `muster node …`, `muster audit …` and `muster pki rotate` against a node with real TLS.

mod audits;
mod calls;
mod claims;
mod failing;
mod outputs;
mod rollouts;
mod state;
mod turns;

use crate::run::{MUSTER, Place, Ran};
use muster_client::testing::{Answers, Reply, Seen, Server, reply};
use muster_core::UtcTime;
use muster_tls::OperatorCa;
use tokio::runtime::Runtime;

/// A folder with an authority and its admin, and a runtime that nodes run on.
pub(crate) struct Nodes {
    pub(crate) p: Place,
    runtime: Runtime,
}

impl Nodes {
    pub(crate) fn new() -> Self {
        let p = Place::new();
        for line in
            ["pki init -q --danger-no-passphrase", "pki issue alice --role admin -q --danger-no-passphrase"]
        {
            let ran = p.muster(line);
            assert_eq!(ran.code, 0, "{}", ran.err);
        }
        Self { p, runtime: Runtime::new().unwrap() }
    }

    fn authority(&self, folder: &str) -> OperatorCa {
        OperatorCa::from_pem(&self.p.read(&format!("{folder}/operator-ca.pem")), UtcTime::from_unix(0))
            .unwrap()
    }

    /// A node that has an owner, pinned under this name.
    pub(crate) fn node(&self, name: &str, answers: Box<Answers>) -> Server {
        let server = self.runtime.block_on(Server::start(&[&self.authority("pki")], answers));
        self.pin(name, &server);
        server
    }

    fn pin(&self, name: &str, server: &Server) {
        let file = ".local/state/muster/node-pins";
        let before = std::fs::read_to_string(self.p.join(file)).unwrap_or_default();
        // A name is pinned once.
        let others = before.lines().filter(|l| !l.starts_with(&format!("{name} ")));
        let others: String = others.map(|l| format!("{l}\n")).collect();
        self.p.write(file, format!("{others}{name} {} {}\n", server.address, server.fingerprint));
    }

    fn run(&self, line: &str) -> Ran {
        self.p.muster(line)
    }

    /// Runs it, and Ctrl-C comes when this is so.
    fn interrupted(&self, line: &str, when: impl Fn() -> bool) -> Ran {
        // Ignored signals are inherited, and a shell ignores SIGINT for what it puts in the background.
        let mut command = self.p.command("/usr/bin/env");
        command.args(["--default-signal=INT", MUSTER]).args(line.split_whitespace());
        let piped = std::process::Stdio::piped;
        let mut child = command.stdout(piped()).stderr(piped()).spawn().unwrap();
        while !when() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        self.p.sh(&format!("kill -INT {}", child.id()));
        let out = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: out.status.code().unwrap_or(-1), out: text(out.stdout), err: text(out.stderr) }
    }

    fn ran(&self, line: &str, code: i32) -> Ran {
        let ran = self.run(line);
        assert_eq!(ran.code, code, "{line}\n{}{}", ran.out, ran.err);
        ran
    }
}

/// Method and target.
fn target(seen: &Seen) -> &str {
    seen.line.trim_end_matches(" HTTP/1.1")
}

pub(crate) fn targets(server: &Server) -> Vec<String> {
    server.seen().iter().map(|s| target(s).to_owned()).collect()
}

/// Answers by target; a nonce where one is asked for, 404 elsewhere.
pub(crate) fn table(rows: &[(&str, u16, &str)]) -> Box<Answers> {
    let rows: Vec<_> = rows.iter().map(|(t, s, b)| ((*t).to_owned(), *s, (*b).to_owned())).collect();
    Box::new(move |seen| {
        let row = rows.iter().find(|(t, _, _)| t == target(seen));
        match (row, target(seen)) {
            (Some((_, status, body)), _) => {
                reply(*status, "content-type: application/json\r\n", body.as_bytes())
            }
            (None, "GET /v1/proof") => nonce(),
            _ => reply(404, "", br#"{"error":"there is nothing","reason":"no-route"}"#),
        }
    })
}

fn nonce() -> Reply {
    reply(200, "", br#"{"nonce":"00112233445566778899aabbccddeeff","seconds":60,"required":false}"#)
}
