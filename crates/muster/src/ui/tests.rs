//! The dashboard without a terminal: events go in, screens and effects come out.

mod actions;
mod hostile;
mod journal;
mod list;
mod screens;

use super::keys::Key;
use super::model::{Effect, Event, Model};
use super::update::update;
use super::view::view;
use crate::codes::Own;
use crate::fault::Fault;
use crate::nodes::choose::Chosen;
use muster_api::logs::Record;
use muster_api::node::{Kubernetes, Management, Node, NodeHealth, Os};
use muster_api::services::Service;
use muster_api::upgrade::Image;
use muster_tls::Fingerprint;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

pub(super) fn chosen(name: &str, pinned: bool) -> Chosen {
    Chosen {
        name: name.to_owned(),
        endpoint: "192.0.2.7:7443".parse().unwrap(),
        pin: pinned.then(|| Fingerprint::of(name.as_bytes())),
    }
}

/// A dashboard with its clock and what it wanted done.
pub(super) struct Bench {
    pub(super) model: Model,
    pub(super) at: u64,
    pub(super) done: Vec<Effect>,
}

impl Bench {
    pub(super) fn new(names: &[&str], parallel: usize, size: (u16, u16)) -> Self {
        let nodes = names.iter().map(|n| chosen(n, true)).collect();
        let model = Model::new(nodes, Duration::from_secs(5), parallel, size);
        Self { model, at: 0, done: Vec::new() }
    }

    pub(super) fn event(&mut self, event: Event) -> Vec<Effect> {
        let effects = update(&mut self.model, self.at, event);
        self.done.extend(effects.clone());
        effects
    }

    pub(super) fn after(&mut self, ms: u64) -> Vec<Effect> {
        self.at += ms;
        self.event(Event::Tick)
    }

    pub(super) fn state(&mut self, n: usize, node: Node) -> Vec<Effect> {
        self.event(Event::State(n, Box::new(Ok(node))))
    }

    pub(super) fn dead(&mut self, n: usize) -> Vec<Effect> {
        self.event(Event::State(n, Box::new(Err(unreachable("edge")))))
    }

    /// Types: each character is a key, but for those in `<>`.
    pub(super) fn keys(&mut self, text: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            let key = if c == '<' {
                match rest.by_ref().take_while(|c| *c != '>').collect::<String>().as_str() {
                    "enter" => Key::Enter,
                    "esc" => Key::Esc,
                    "tab" => Key::Tab,
                    "up" => Key::Up,
                    "down" => Key::Down,
                    "pgup" => Key::PageUp,
                    "end" => Key::End,
                    "home" => Key::Home,
                    "back" => Key::Backspace,
                    "ctrl-c" => Key::Ctrl('c'),
                    "ctrl-z" => Key::Ctrl('z'),
                    other => panic!("{other}"),
                }
            } else {
                Key::Char(c)
            };
            effects.extend(self.event(Event::Key(key)));
        }
        effects
    }

    /// The screen as text.
    pub(super) fn screen(&self) -> String {
        let (columns, rows) = self.model.size;
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| view(&self.model, frame)).unwrap();
        terminal
            .backend()
            .to_string()
            .lines()
            .map(|l| format!("{}\n", l.trim_matches('"').trim_end()))
            .collect()
    }

    pub(super) fn view_number(&self) -> u64 {
        self.model.number
    }
}

pub(super) fn unreachable(name: &str) -> Fault {
    Fault::new(
        Own::NodeUnreachable,
        format!("{name}: 192.0.2.7:7443 does not answer: no connection within 15 s"),
    )
}

pub(super) fn well() -> Node {
    Node {
        hostname: Some("edge-1".into()),
        bootstrapped: true,
        role: Some("worker".into()),
        cluster: Some("lab".into()),
        os: Os {
            name: Some("Debian GNU/Linux 12 (bookworm)".into()),
            kernel: Some("6.1.0-18-amd64".into()),
            booted: Some(Image {
                image: Some("registry.example/os:1.4".into()),
                digest: Some("sha256:9f86d081884c7d65".into()),
                version: Some("1.4.2".into()),
            }),
            ..Os::default()
        },
        kubernetes: Kubernetes {
            version: Some("v1.31.2".into()),
            service: Some("kubelet.service".into()),
            active: true,
        },
        health: NodeHealth {
            verdict: Some("passed".into()),
            by: Some("greenboot".into()),
            uptime_seconds: Some(277_000),
            ..NodeHealth::default()
        },
        management: Management {
            claimed_by: Some("pairing-code".into()),
            revocation: Some("none".into()),
            ..Management::default()
        },
        ..Node::default()
    }
}

pub(super) fn waiting() -> Node {
    Node {
        hostname: Some("edge-3".into()),
        management: Management {
            claimed_by: Some("configuration".into()),
            waits_for: Some("document".into()),
            ..Management::default()
        },
        os: Os { name: Some("Debian GNU/Linux 12 (bookworm)".into()), ..Os::default() },
        health: NodeHealth { uptime_seconds: Some(61), ..NodeHealth::default() },
        ..Node::default()
    }
}

pub(super) fn service(name: &str, active: &str, restartable: bool) -> Service {
    Service {
        name: name.into(),
        purpose: "runs pods".into(),
        restartable,
        active: active.into(),
        sub: "running".into(),
        since: Some("2026-11-30T10:00:00Z".into()),
        ..Service::default()
    }
}

pub(super) fn record(message: &str) -> Box<Record> {
    Box::new(Record {
        time: "2026-11-30T10:00:00.000000Z".into(),
        unit: Some("kubelet.service".into()),
        priority: 6,
        message: message.into(),
        truncated: false,
        lost: None,
    })
}
