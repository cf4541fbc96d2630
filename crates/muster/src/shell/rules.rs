//! The lint rules for phase scripts.
//!
//! A signature says who wrote a script, not that it is careful. A controller-key holder chooses every parameter within its
//! pattern, so the rules look first at what a parameter's value could do to the script that takes it.

use super::syntax::{self, Command, Kind};
use super::token::{self, Part, Token, Word};
use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Shown; signs all the same.
    Warning,
    /// `sign` refuses.
    Error,
}

macro_rules! rules {
    ($($variant:ident = $code:literal, $sev:ident, $what:literal, $fix:literal;)*) => {
        /// A lint rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule { $(#[doc = $what] $variant,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The stable word, also the name of its page.
            pub const fn code(self) -> &'static str { match self { $(Self::$variant => $code),* } }
            /// How much it weighs.
            pub const fn severity(self) -> Severity { match self { $(Self::$variant => Severity::$sev),* } }
            /// What it finds, in one clause.
            pub const fn what(self) -> &'static str { match self { $(Self::$variant => $what),* } }
            /// What to do, in one sentence.
            pub const fn fix(self) -> &'static str { match self { $(Self::$variant => $fix),* } }
        }
    };
}

rules! {
    Syntax = "lint-syntax", Error, "bash does not parse the script", "Mend the line that bash names.";
    Nul = "lint-nul", Error, "the script holds a NUL byte", "Take it out: bash drops it silently, so what runs is not what was read.";
    Template = "lint-template", Error, "the script holds a template action", "Signed bytes run as they are: move what changes into parameters.";
    Unreadable = "lint-unreadable", Warning, "the linter cannot follow the script from here", "Write the construct more plainly; what follows was not looked at.";
    StrictMode = "lint-strict-mode", Warning, "no `set -euo pipefail` before the first command", "Make it the first line: otherwise a failing command can end in exit 0 and the host counts as done.";
    Eval = "lint-eval", Warning, "text is run as code", "Write the command out; never let a parameter become code.";
    CurlPipeShell = "lint-curl-pipe-shell", Warning, "something fetched is run unseen", "Fetch to a file, check its digest against a signed value, then run it.";
    Unquoted = "lint-unquoted", Warning, "a parameter is expanded outside quotes", "Write \"$NAME\": unquoted, it splits into words and matches file names.";
    Arithmetic = "lint-arithmetic", Warning, "a parameter is evaluated as arithmetic, which runs `$(…)` in a subscript", "Check it with a pattern of digits only, or compare it as text.";
    SecretArgv = "lint-secret-argv", Warning, "a secret stands on a command line, where every account of the host can read it", "Hand it over on standard input or in a file of mode 0600.";
    Xtrace = "lint-xtrace", Warning, "tracing prints every value, secrets too", "Take `set -x` out.";
    Background = "lint-background", Warning, "a command is left in the background", "Start services through systemd: on envelope 2 whatever outlives the script is ended.";
    SelfPath = "lint-self-path", Warning, "the script reads its own path", "It runs from memory as /proc/self/fd/N; take paths from a value or write them out.";
    Shebang = "lint-shebang", Warning, "the first line asks for something that is not done", "The shim runs /bin/bash whatever it says; put options in `set` and write bash.";
    CarriageReturn = "lint-carriage-return", Warning, "the script has CRLF line ends", "Convert it to LF before signing: bash takes the CR as part of the word.";
    Undeclared = "lint-undeclared", Warning, "the script reads a name that the profile neither fixes nor declares", "Declare it under params: or values:; on the host it is unset, and undeclared ones are refused.";
    Unused = "lint-unused", Warning, "the profile declares a name that the script never reads", "Limit it with phases:, or take it out.";
    WidePattern = "lint-wide-pattern", Warning, "a parameter's pattern takes anything", "Say what it may be; the pattern is all that stands between a stolen controller key and the script.";
    NoWayBack = "lint-no-way-back", Warning, "a phase has no phase that undoes it", "Add the script, or a host that went in cannot come out.";
    TargetAll = "lint-target-all", Warning, "the intent is for every host", "Name hosts or pools, unless it really is.";
    LongValidity = "lint-long-validity", Warning, "the intent is valid for longer than 90 days", "Sign for less: until then whoever holds the controller key may repeat it.";
    EpochSame = "lint-epoch-same", Warning, "scripts changed and the epoch did not", "Raise the epoch, or what was signed before stays runnable.";
    EpochJump = "lint-epoch-jump", Warning, "the epoch rises by much more than one", "Look for a typing error; it can never go back.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Line from 1; 0 is the whole file.
    pub line: usize,
    /// The rule.
    pub rule: Rule,
    /// What exactly, naming the thing; empty when the rule's words say it all.
    pub detail: String,
}

/// Whether a name is one that an envelope can carry.
pub fn is_carried(name: &str) -> bool {
    name.strip_prefix("MUSTER_").or_else(|| name.strip_prefix("KPSSH_")).is_some_and(|rest| !rest.is_empty())
}

/// Set by the shim itself, in every run.
const ALWAYS_SET: [&str; 3] = ["MUSTER_RUN_ID", "MUSTER_PHASE", "MUSTER_PROFILE"];

/// The names of the envelope that a script reads, with their first line; `true` when every read has a default.
pub fn read_names(script: &[u8]) -> BTreeMap<String, (usize, bool)> {
    let mut out: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    let Ok(tokens) = token::tokens(script) else { return plain_names(script) };
    each_part(&tokens, &mut |part| match part {
        Part::Param { name, guarded, line, .. }
            if is_carried(name) && !ALWAYS_SET.contains(&name.as_str()) =>
        {
            let entry = out.entry(name.clone()).or_insert((*line, *guarded));
            entry.1 &= *guarded;
        }
        Part::Arithmetic { names, line } => {
            for name in names.iter().filter(|n| is_carried(n) && !ALWAYS_SET.contains(&n.as_str())) {
                out.entry(name.clone()).or_insert((*line, false)).1 = false;
            }
        }
        _ => {}
    });
    // `[[ -v NAME ]]`, `printenv NAME`, `${!x}` and the like name it in plain text; those count as reads, so that the
    // open-parameter rule cannot be passed by spelling.
    for (name, (line, _)) in plain_names(script) {
        out.entry(name).or_insert((line, true));
    }
    out
}

/// Every carried name that stands anywhere in the text outside comment lines.
fn plain_names(script: &[u8]) -> BTreeMap<String, (usize, bool)> {
    let mut out = BTreeMap::new();
    let text = String::from_utf8_lossy(script);
    for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with('#')) {
        for word in line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            if is_carried(word) && !ALWAYS_SET.contains(&word) {
                out.entry(word.to_owned()).or_insert((i + 1, false));
            }
        }
    }
    out
}

fn each_part<'t>(tokens: &'t [Token], f: &mut dyn FnMut(&'t Part)) {
    for t in tokens {
        if let Token::Word(w) | Token::HereDoc(w) = t {
            each_part_of(w, f);
        }
    }
}

fn each_part_of<'t>(word: &'t Word, f: &mut dyn FnMut(&'t Part)) {
    for part in &word.parts {
        f(part);
        if let Part::Commands { tokens, .. } | Part::Array(tokens) = part {
            // Recursion is bounded by the reader's own depth.
            each_part(tokens, f);
        }
    }
}

/// Looks at one script; findings come sorted by line.
pub fn script(bytes: &[u8]) -> Vec<Finding> {
    let mut found = text_rules(bytes);
    match token::tokens(bytes) {
        Err(lost) => found.push(Finding { line: lost.line, rule: Rule::Unreadable, detail: lost.why.into() }),
        Ok(tokens) => {
            let commands = syntax::commands(&tokens);
            let mut look = Look { found: &mut found };
            look.strict_mode(&commands);
            look.pipelines(&commands);
            for c in &commands {
                look.command(c);
            }
        }
    }
    let allowed = allowed_by_comment(bytes);
    found.retain(|f| {
        f.rule.severity() == Severity::Error || !allowed.contains(&(f.line, f.rule.code().to_owned()))
    });
    found.sort();
    found.dedup();
    found
}

/// `# muster-lint: allow CODE` on a line or the one above takes a warning away. Errors stay.
fn allowed_by_comment(bytes: &[u8]) -> BTreeSet<(usize, String)> {
    let mut out = BTreeSet::new();
    for (i, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        if let Some((_, rest)) = line.split_once("# muster-lint: allow ") {
            let code = rest.split_whitespace().next().unwrap_or_default();
            out.insert((i + 1, code.to_owned()));
            out.insert((i + 2, code.to_owned()));
        }
    }
    out
}

fn text_rules(bytes: &[u8]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |line, rule, detail: &str| found.push(Finding { line, rule, detail: detail.to_owned() });
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.contains(&0) {
            add(i + 1, Rule::Nul, "");
        }
        if line.windows(2).any(|w| w == b"{{") {
            add(i + 1, Rule::Template, "`{{`");
        }
    }
    if let Some(at) = bytes.windows(2).position(|w| w == b"\r\n") {
        add(1 + bytes.iter().take(at).filter(|b| **b == b'\n').count(), Rule::CarriageReturn, "");
    }
    let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    if let Some(interpreter) = first.strip_prefix("#!") {
        let words: Vec<&str> = interpreter.split_whitespace().collect();
        let bash = words.iter().position(|w| w.rsplit('/').next() == Some("bash"));
        match bash {
            None => add(1, Rule::Shebang, &format!("`#!{}`", interpreter.trim())),
            Some(at) if words.len() > at + 1 => add(1, Rule::Shebang, "options on this line are not seen"),
            Some(_) => {}
        }
    }
    found
}

struct Look<'f> {
    found: &'f mut Vec<Finding>,
}

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "ash"];
const INTERPRETERS: [&str; 5] = ["python", "python3", "perl", "ruby", "node"];
const FETCHERS: [&str; 4] = ["curl", "wget", "fetch", "aria2c"];
/// Commands of bash itself: their arguments are on no process's command line.
const BUILTINS: [&str; 23] = [
    "echo", "printf", "test", "[", "[[", ":", "export", "local", "readonly", "declare", "typeset", "unset",
    "read", "return", "exit", "set", "shift", "let", "eval", "for", "select", "cd", "true",
];

impl Look<'_> {
    fn add(&mut self, line: usize, rule: Rule, detail: impl Into<String>) {
        self.found.push(Finding { line, rule, detail: detail.into() });
    }

    fn strict_mode(&mut self, commands: &[Command]) {
        let (mut e, mut u, mut p) = (false, false, false);
        for c in commands {
            if c.name().as_deref() != Some("set") {
                break;
            }
            let words: Vec<String> = c.words.iter().skip(1).filter_map(Word::literal).collect();
            for (i, w) in words.iter().enumerate() {
                let follows_o = i
                    .checked_sub(1)
                    .and_then(|k| words.get(k))
                    .is_some_and(|k| k.starts_with('-') && k.ends_with('o'));
                e |= (w.starts_with('-') && w.contains('e')) || (follows_o && w == "errexit");
                u |= (w.starts_with('-') && w.contains('u')) || (follows_o && w == "nounset");
                p |= follows_o && w == "pipefail";
            }
        }
        if !(e && u && p) {
            let line = commands.first().map_or(0, |c| c.line);
            self.add(line, Rule::StrictMode, "");
        }
    }

    fn pipelines(&mut self, commands: &[Command]) {
        let mut fetched: Option<&Command> = None;
        for c in commands {
            let head = c.unwrapped().first().and_then(Word::literal).unwrap_or_default();
            let head = head.rsplit('/').next().unwrap_or_default();
            if let Some(from) = fetched
                && from.depth == c.depth
                && (SHELLS.contains(&head) || INTERPRETERS.contains(&head))
            {
                let detail = format!("`{} | {head}`", from.name().unwrap_or_default());
                self.add(c.line, Rule::CurlPipeShell, detail);
            }
            let fetches = FETCHERS.contains(&head);
            fetched = match (c.piped, fetches, fetched) {
                (true, true, _) => Some(c),
                (true, false, still) => still,
                (false, ..) => None,
            };
        }
    }

    fn command(&mut self, c: &Command) {
        let real = c.unwrapped();
        let head = real.first().and_then(Word::literal).unwrap_or_default();
        let head = head.rsplit('/').next().unwrap_or_default().to_owned();
        self.code(c, &head, real);
        self.words(c, &head, real);
        if c.background || head == "disown" || c.name().as_deref() == Some("nohup") {
            self.add(c.line, Rule::Background, "");
        }
        if head == "set" {
            let words: Vec<String> = real.iter().skip(1).filter_map(Word::literal).collect();
            if words
                .iter()
                .any(|w| w == "xtrace" || (w.starts_with('-') && !w.starts_with("--") && w.contains('x')))
            {
                self.add(c.line, Rule::Xtrace, "");
            }
        }
    }

    /// Text that becomes code.
    fn code(&mut self, c: &Command, head: &str, real: &[Word]) {
        let is_shell = SHELLS.contains(&head);
        if head == "eval" {
            self.add(c.line, Rule::Eval, "`eval`");
        }
        let dash_c = is_shell
            && real
                .iter()
                .skip(1)
                .any(|w| w.literal().is_some_and(|t| t.starts_with('-') && t.contains('c')));
        if dash_c
            || matches!(head, "trap" | "source" | "." | "awk" | "sed" | "ssh" | "xargs" | "su" | "watch")
        {
            let at = real.iter().skip(1);
            for name in at.clone().flat_map(carried_in) {
                if dash_c
                    || matches!(head, "trap" | "source" | "." | "su" | "watch")
                    || in_program(real, &name)
                {
                    self.add(c.line, Rule::Eval, format!("${name} in what `{head}` runs"));
                }
            }
        }
        if is_shell || head == "source" || head == "." || head == "eval" {
            let words = real.iter().skip(1).chain(&c.redirects);
            for tokens in words
                .flat_map(|w| &w.parts)
                .filter_map(|p| if let Part::Commands { tokens, .. } = p { Some(tokens) } else { None })
            {
                for inner in syntax::commands(tokens) {
                    if inner.name().is_some_and(|n| FETCHERS.contains(&n.as_str())) {
                        self.add(c.line, Rule::CurlPipeShell, format!("`{head}` of a fetch"));
                    }
                }
            }
        }
        if head == "let" {
            let texts: Vec<String> = real.iter().skip(1).filter_map(Word::literal).collect();
            for name in
                texts.iter().flat_map(|t| t.split(|ch: char| !(ch.is_ascii_alphanumeric() || ch == '_')))
            {
                if is_carried(name) {
                    self.add(c.line, Rule::Arithmetic, format!("${name}"));
                }
            }
        }
    }

    fn words(&mut self, c: &Command, head: &str, real: &[Word]) {
        let declares = matches!(head, "export" | "local" | "readonly" | "declare" | "typeset");
        let outside = c.words.len() - real.len();
        for (i, w) in c.words.iter().enumerate() {
            let splits = c.kind == Kind::Simple && !(declares && syntax::is_assignment(w));
            self.word(w, splits);
            let argument = i > outside && c.kind == Kind::Simple && !BUILTINS.contains(&head);
            if argument {
                self.secret(w, head);
            }
        }
        for w in &c.assigns {
            self.word(w, false);
        }
        for w in &c.redirects {
            self.word(w, false);
        }
        if c.kind == Kind::Test {
            self.test(c);
        }
    }

    fn word(&mut self, w: &Word, splits: bool) {
        for part in &w.parts {
            match part {
                Part::Param { name, quoted: false, line, .. } if splits && is_carried(name) => {
                    self.add(*line, Rule::Unquoted, format!("${name}"));
                }
                Part::Param { name, line, .. } if name == "0" || name == "BASH_SOURCE" => {
                    self.add(*line, Rule::SelfPath, format!("${name}"));
                }
                Part::Arithmetic { names, line } => {
                    for name in names.iter().filter(|n| is_carried(n)) {
                        self.add(*line, Rule::Arithmetic, format!("${name}"));
                    }
                }
                Part::Array(tokens) => {
                    for t in tokens {
                        if let Token::Word(inner) = t {
                            self.word(inner, true);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// `[[ a -eq b ]]` evaluates both sides as arithmetic.
    fn test(&mut self, c: &Command) {
        for (i, w) in c.words.iter().enumerate() {
            if matches!(w.bare(), Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge")) {
                let sides = [i.checked_sub(1), i.checked_add(1)];
                for side in sides.into_iter().flatten().filter_map(|k| c.words.get(k)) {
                    for name in carried_in(side) {
                        self.add(c.line, Rule::Arithmetic, format!("${name}"));
                    }
                }
            }
        }
    }

    fn secret(&mut self, w: &Word, head: &str) {
        for part in &w.parts {
            if let Part::Param { name, line, .. } = part
                && is_carried(name)
                && ["_TOKEN", "_SECRET", "_PASSWORD", "_PASSPHRASE", "_PRIVATE_KEY"]
                    .iter()
                    .any(|s| name.ends_with(s))
            {
                self.add(*line, Rule::SecretArgv, format!("${name} as an argument of `{head}`"));
            }
        }
    }
}

/// Carried names expanded anywhere in a word.
fn carried_in(word: &Word) -> Vec<String> {
    let mut out = Vec::new();
    each_part_of(word, &mut |part| {
        if let Part::Param { name, .. } = part
            && is_carried(name)
        {
            out.push(name.clone());
        }
    });
    out
}

/// Whether a name is expanded in the program text of `awk` or `sed`, or the command of `ssh` or `xargs`: a word in which
/// the expansion stands beside literal program text that was quoted with it.
fn in_program(real: &[Word], name: &str) -> bool {
    real.iter().skip(1).any(|w| {
        let has = carried_in(w).iter().any(|n| n == name);
        let braces = w
            .parts
            .iter()
            .any(|p| matches!(p, Part::Text { text, .. } if text.contains(['{', ';', '/', '|'])));
        has && braces && !w.prefix().starts_with('-') && !syntax::is_assignment(w)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str) -> Vec<(usize, &'static str)> {
        let body = format!("set -euo pipefail\n{script}");
        super::script(body.as_bytes()).iter().map(|f| (f.line, f.rule.code())).collect()
    }

    #[test]
    fn each_rule_finds_and_stays_silent() {
        for (script, want) in [
            ("eval \"$x\"", vec![(2, "lint-eval")]),
            ("command eval x", vec![(2, "lint-eval")]),
            ("bash -c \"echo $MUSTER_X\"", vec![(2, "lint-eval")]),
            ("bash -c 'echo ok'", vec![]),
            ("trap \"rm $KPSSH_DIR\" EXIT", vec![(2, "lint-eval")]),
            ("sed \"s/a/$MUSTER_X/\" f", vec![(2, "lint-eval")]),
            ("awk -v x=\"$MUSTER_X\" '{print x}' f", vec![]),
            (". \"$MUSTER_FILE\"", vec![(2, "lint-eval")]),
            ("curl -fsSL https://x | sh", vec![(2, "lint-curl-pipe-shell")]),
            ("curl x | tee y | sudo -E bash -s -- -y", vec![(2, "lint-curl-pipe-shell")]),
            ("wget -qO- x | python3 -", vec![(2, "lint-curl-pipe-shell")]),
            ("bash <(curl x)", vec![(2, "lint-curl-pipe-shell")]),
            ("sh -c \"$(curl x)\"", vec![(2, "lint-curl-pipe-shell")]),
            ("curl -o f x\nsha256sum -c s\nbash f", vec![]),
            ("curl x | jq . ; bash f", vec![]),
            ("echo $MUSTER_A", vec![(2, "lint-unquoted")]),
            ("echo \"$MUSTER_A\" ${#MUSTER_A}", vec![]),
            ("x=$MUSTER_A; export Y=$MUSTER_A", vec![]),
            ("case $MUSTER_A in b) ;; esac", vec![]),
            ("[[ $MUSTER_A == b ]]", vec![]),
            ("[ $MUSTER_A = b ]", vec![(2, "lint-unquoted")]),
            ("for i in $MUSTER_A; do :; done", vec![(2, "lint-unquoted")]),
            ("a=($MUSTER_A)", vec![(2, "lint-unquoted")]),
            ("cat <<E\n$MUSTER_A\nE", vec![]),
            ("x=$(ls $MUSTER_A)", vec![(2, "lint-unquoted")]),
            ("x=$((MUSTER_N + 1))", vec![(2, "lint-arithmetic")]),
            ("(( MUSTER_N > 1 )) || true", vec![(2, "lint-arithmetic")]),
            ("[[ \"$MUSTER_N\" -gt 1 ]]", vec![(2, "lint-arithmetic")]),
            ("[ \"$MUSTER_N\" -gt 1 ]", vec![]),
            ("let MUSTER_N+=1", vec![(2, "lint-arithmetic")]),
            ("kubeadm join --token \"$MUSTER_TOKEN\"", vec![(2, "lint-secret-argv")]),
            ("printf %s \"$MUSTER_TOKEN\" > f", vec![]),
            ("set -x", vec![(2, "lint-xtrace")]),
            ("sleep 5 &", vec![(2, "lint-background")]),
            ("cd \"$(dirname \"$0\")\"", vec![(2, "lint-self-path")]),
            ("docker ps --format '{{.ID}}'", vec![(2, "lint-template")]),
            ("echo '\n", vec![(2, "lint-unreadable")]),
            ("eval \"$x\" # muster-lint: allow lint-eval reviewed", vec![]),
            ("# muster-lint: allow lint-template\necho '{{'", vec![(3, "lint-template")]),
            ("# eval $MUSTER_A {}", vec![]),
        ] {
            let want: Vec<(usize, &str)> = want;
            assert_eq!(found(script), want, "{script}");
        }
    }

    #[test]
    fn strict_mode_and_first_line() {
        let codes = |s: &str| super::script(s.as_bytes()).iter().map(|f| f.rule.code()).collect::<Vec<_>>();
        assert_eq!(codes("#!/usr/bin/env bash\nset -euo pipefail\n"), [""; 0]);
        assert_eq!(codes("set -e -u\nset -o pipefail\necho"), [""; 0]);
        assert_eq!(codes("set -o errexit -o nounset -o pipefail\n"), [""; 0]);
        assert_eq!(codes("set -e\necho\nset -uo pipefail"), ["lint-strict-mode"]);
        assert_eq!(codes("#!/bin/bash -e\nset -euo pipefail\n"), ["lint-shebang"]);
        assert_eq!(codes("#!/bin/sh\nset -euo pipefail\n"), ["lint-shebang"]);
        assert_eq!(codes("set -euo pipefail\r\necho\r\n"), ["lint-carriage-return"]);
        assert_eq!(codes("set -euo pipefail\necho a\0b\n"), ["lint-nul"]);
        assert_eq!(codes(""), ["lint-strict-mode"]);
    }

    #[test]
    fn m1_a_name_cannot_be_read_unseen() {
        for script in [
            "x=$MUSTER_CLUSTER_ENDPOINT",
            "x=${MUSTER_CLUSTER_ENDPOINT:-y}",
            "x=\"$(printenv MUSTER_CLUSTER_ENDPOINT)\"",
            "n=MUSTER_CLUSTER_ENDPOINT; x=${!n}",
            "[[ -v MUSTER_CLUSTER_ENDPOINT ]]",
            "cat <<E\n$MUSTER_CLUSTER_ENDPOINT\nE",
            "env | grep ^MUSTER_CLUSTER_ENDPOINT=",
            "x=$MUSTER_CLUSTER_ENDPOINT; echo '",
        ] {
            assert!(read_names(script.as_bytes()).contains_key("MUSTER_CLUSTER_ENDPOINT"), "{script}");
        }
        assert!(read_names(b"# MUSTER_CLUSTER_ENDPOINT\necho \"$MUSTER_RUN_ID\"").is_empty());
        assert!(read_names(b"x=${MUSTER_A:-1}")["MUSTER_A"].1);
        assert!(!read_names(b"x=${MUSTER_A:-1}; y=$MUSTER_A")["MUSTER_A"].1);
    }
}
