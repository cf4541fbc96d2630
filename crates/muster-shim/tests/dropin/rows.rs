//! Envelope 1 as a table: what goes in on standard input, what must come out. Plain data and builders, no dependency, so that
//! the same rows run in process and through real sshd and sudo, against our shim and against the shell one.
//!
//! Where the two differ on purpose the row says why; `docs/` lists the same reasons.

/// Signs bytes in a namespace; the armored signature.
pub(crate) type Sign<'a> = &'a dyn Fn(&[u8], &str) -> Vec<u8>;

/// What the builders need.
pub(crate) struct Keys<'a> {
    /// The listed signer.
    pub(crate) signer: Sign<'a>,
    /// A key that nobody listed.
    pub(crate) stranger: Sign<'a>,
}

/// One case.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) input: Vec<u8>,
    /// Exit code of ours.
    pub(crate) code: i32,
    /// Must be in standard error (of ours; the shell one words it differently).
    pub(crate) stderr: &'static str,
    /// All of standard output; `None` when it depends on the machine.
    pub(crate) stdout: Option<&'static str>,
    /// The shell shim's exit code, where ours is another on purpose, and the reason.
    pub(crate) shell: Option<(i32, &'static str)>,
}

/// What all scripts here do: show that they ran, and what they were given.
pub(crate) const SHOW: &str = "printf 'ran [%s]\\n'  \"${KPSSH_X-unset}\"\n";
const RAN: &str = "ran [unset]\n";

/// RFC 4648 base64 with padding.
pub(crate) fn b64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |w, b| (w << 8) | u32::from(*b)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sextet = (word >> (18 - 6 * place)) & 63;
            out.push(if place <= chunk.len() { char::from(ALPHABET[sextet as usize]) } else { '=' });
        }
    }
    out
}

/// The lines `name: value` in this order.
fn lines(fields: &[(&str, &str)]) -> Vec<u8> {
    fields.iter().map(|(name, value)| format!("{name}: {value}\n")).collect::<String>().into_bytes()
}

struct Builder<'a> {
    keys: &'a Keys<'a>,
    rows: Vec<Row>,
}

impl Builder<'_> {
    fn add(
        &mut self,
        name: &'static str,
        input: Vec<u8>,
        code: i32,
        stderr: &'static str,
        stdout: &'static str,
    ) {
        self.rows.push(Row { name, input, code, stderr, stdout: Some(stdout), shell: None });
    }

    /// The last row has another outcome with the shell shim, for this reason.
    fn but_shell(&mut self, code: i32, why: &'static str) {
        if let Some(row) = self.rows.last_mut() {
            row.shell = Some((code, why));
        }
    }

    fn sig(&self, script: &str) -> String {
        b64(&(self.keys.signer)(script.as_bytes(), "kpssh"))
    }

    /// A good envelope for `script` in phase join, with a raw block of parameters.
    fn good(&self, script: &str, params: Option<&[u8]>) -> Vec<u8> {
        let (sig, body) = (self.sig(script), b64(script.as_bytes()));
        let params = params.map(b64);
        let mut fields = vec![("kpssh-envelope", "1"), ("phase", "join")];
        fields.extend(params.as_deref().map(|p| ("params-b64", p)));
        fields.extend([("sig-b64", sig.as_str()), ("script-b64", body.as_str())]);
        lines(&fields)
    }

    /// The good envelope for [`SHOW`] with its text changed.
    fn changed(&self, from: &str, to: &str) -> Vec<u8> {
        let text = String::from_utf8(self.good(SHOW, None)).unwrap_or_default();
        assert!(text.contains(from), "{from:?} is in the envelope");
        text.replacen(from, to, 1).into_bytes()
    }

    fn param(
        &mut self,
        name: &'static str,
        block: &[u8],
        code: i32,
        stderr: &'static str,
        stdout: &'static str,
    ) {
        let input = self.good(SHOW, Some(block));
        self.add(name, input, code, stderr, stdout);
    }
}

/// Every row.
pub(crate) fn rows(keys: &Keys<'_>) -> Vec<Row> {
    let mut b = Builder { keys, rows: Vec::new() };
    form(&mut b);
    order(&mut b);
    encodings(&mut b);
    signatures(&mut b);
    names(&mut b);
    values(&mut b);
    scripts(&mut b);
    bounds(&mut b);
    b.rows
}

/// The lines of the envelope.
fn form(b: &mut Builder<'_>) {
    let plain = b.good(SHOW, None);
    b.add("good", plain.clone(), 0, "", RAN);
    b.add("nothing at all", Vec::new(), 4, "[version]", "");
    let no_version = b.changed("kpssh-envelope: 1\n", "");
    b.add("version missing", no_version, 4, "[version]", "");
    for (name, line) in [
        ("version 2 under the old name", "kpssh-envelope: 2\n"),
        ("version with CR", "kpssh-envelope: 1\r\n"),
        ("version with a leading zero", "kpssh-envelope: 01\n"),
        ("version with two spaces", "kpssh-envelope:  1\n"),
        ("version without space", "kpssh-envelope:1\n"),
        ("version with a trailing space", "kpssh-envelope: 1 \n"),
        ("version in capitals", "KPSSH-ENVELOPE: 1\n"),
    ] {
        let input = b.changed("kpssh-envelope: 1\n", line);
        b.add(name, input, 4, "[version]", "");
    }
    for (name, line, code, reason) in [
        ("phase missing", "", 4, "[field-missing]"),
        ("phase empty", "phase: \n", 4, "[field-missing]"),
        ("phase with CR", "phase: join\r\n", 5, "[phase-unknown]"),
        ("phase in capitals", "phase: JOIN\n", 5, "[phase-unknown]"),
        ("phase with two spaces", "phase:  join\n", 5, "[phase-unknown]"),
        ("phase of envelope 2", "phase: floor\n", 5, "[phase-unknown]"),
        ("phase with a command in it", "phase: join;id\n", 5, "[phase-unknown]"),
    ] {
        let input = b.changed("phase: join\n", line);
        b.add(name, input, code, reason, "");
    }
    for (name, line) in [
        ("phase is not signed on envelope 1: install", "phase: install\n"),
        ("phase is not signed on envelope 1: leave", "phase: leave\n"),
        ("phase is not signed on envelope 1: uninstall", "phase: uninstall\n"),
    ] {
        let input = b.changed("phase: join\n", line);
        b.add(name, input, 0, "", RAN);
    }
    for (name, from, to, code, reason) in [
        ("NUL behind the version", "kpssh-envelope: 1\n", "kpssh-envelope: 1\0\n", 4, "[version]"),
        ("NUL in the phase", "phase: join\n", "phase: jo\0in\n", 5, "[phase-unknown]"),
    ] {
        let input = b.changed(from, to);
        b.add(name, input, code, reason, "");
        b.but_shell(0, "the shell drops the NUL and reads what is left");
    }
    let crlf = String::from_utf8_lossy(&plain).replace('\n', "\r\n").into_bytes();
    b.add("every line with CR", crlf, 4, "[version]", "");
    let mut more = b"\nhello\nx-new: y\n\n".to_vec();
    more.extend(&plain);
    b.add("unknown lines and blanks are ignored", more, 0, "", RAN);
    b.add("a last line without its newline", plain[..plain.len() - 1].to_vec(), 0, "", RAN);
    let mut reversed: Vec<&[u8]> = plain.split_inclusive(|c| *c == b'\n').collect();
    reversed.reverse();
    b.add("any order of lines", reversed.concat(), 0, "", RAN);
    last_wins(b);
}

fn last_wins(b: &mut Builder<'_>) {
    let (sig, body) = (b.sig(SHOW), b64(SHOW.as_bytes()));
    let all = [
        ("kpssh-envelope", "1"),
        ("phase", "join"),
        ("sig-b64", sig.as_str()),
        ("script-b64", body.as_str()),
    ];
    for (name, first) in [
        ("the last version wins", ("kpssh-envelope", "2")),
        ("the last phase wins", ("phase", "nonsense")),
        ("the last signature wins", ("sig-b64", "AAAA")),
        ("the last script wins", ("script-b64", "AAAA")),
    ] {
        let mut fields = vec![first];
        fields.extend(all);
        b.add(name, lines(&fields), 0, "", RAN);
    }
    let two = [("params-b64", b64(b"BASH_ENV=/x\n")), ("params-b64", b64(b"KPSSH_X=second\n"))];
    let mut fields: Vec<(&str, &str)> = two.iter().map(|(n, v)| (*n, v.as_str())).collect();
    fields.extend(all);
    b.add("the last parameters win", lines(&fields), 0, "", "ran [second]\n");
    let mut fields = all.to_vec();
    fields.push(("sig-b64", ""));
    b.add("the last signature wins though empty", lines(&fields), 4, "[field-missing]", "");
    let mut fields = all.to_vec();
    fields.push(("phase", "probe"));
    let input = lines(&fields);
    b.rows.push(Row {
        name: "the last phase wins: probe",
        input,
        code: 0,
        stderr: "",
        stdout: None,
        shell: None,
    });
    let mut both = all.to_vec();
    both.push(("muster-envelope", "2"));
    b.add("both version words", lines(&both), 4, "[version]", "");
    b.but_shell(0, "the shell shim knows one envelope and ignores the other's word");
}

/// What is checked before what.
fn order(b: &mut Builder<'_>) {
    let two = |fields: &[(&str, &str)]| lines(fields);
    b.add("version before phase", two(&[("kpssh-envelope", "9"), ("phase", "nonsense")]), 4, "[version]", "");
    b.add(
        "phase before signature",
        two(&[("kpssh-envelope", "1"), ("phase", "nonsense")]),
        5,
        "[phase-unknown]",
        "",
    );
    for (name, fields) in [
        ("probe alone", vec![("kpssh-envelope", "1"), ("phase", "probe")]),
        (
            "probe looks at nothing else",
            vec![
                ("kpssh-envelope", "1"),
                ("phase", "probe"),
                ("sig-b64", "%"),
                ("script-b64", "%"),
                ("params-b64", "%"),
            ],
        ),
    ] {
        b.rows.push(Row { name, input: lines(&fields), code: 0, stderr: "", stdout: None, shell: None });
    }
    let (sig, body) = (b.sig(SHOW), b64(SHOW.as_bytes()));
    let with = |sig: Option<&str>, script: Option<&str>, params: Option<&str>| {
        let mut fields = vec![("kpssh-envelope", "1"), ("phase", "join")];
        fields.extend(params.map(|p| ("params-b64", p)));
        fields.extend(sig.map(|s| ("sig-b64", s)));
        fields.extend(script.map(|s| ("script-b64", s)));
        lines(&fields)
    };
    let bad_param = b64(b"PATH=/evil\n");
    let other = b64(b"other bytes\n");
    b.add("signature missing", with(None, Some(&body), None), 4, "[field-missing]", "");
    b.add("script missing", with(Some(&sig), None, None), 4, "[field-missing]", "");
    b.add("signature empty", with(Some(""), Some(&body), None), 4, "[field-missing]", "");
    b.add("script empty", with(Some(&sig), Some(""), None), 4, "[field-missing]", "");
    b.add("script not base64", with(Some(&sig), Some("%%%"), None), 4, "[base64]", "");
    b.add("signature not base64", with(Some("%%%"), Some(&body), None), 4, "[base64]", "");
    b.add(
        "base64 before signature check",
        with(Some(&b64(b"rubbish")), Some("%%%"), None),
        4,
        "[base64]",
        "",
    );
    b.add(
        "signature before parameters",
        with(Some(&sig), Some(&other), Some(&bad_param)),
        2,
        "signature rejected",
        "",
    );
    b.add(
        "signature before undecodable parameters",
        with(Some(&sig), Some(&other), Some("%")),
        2,
        "signature rejected",
        "",
    );
    b.add("parameters not base64", with(Some(&sig), Some(&body), Some("%")), 4, "[base64]", "");
    b.add(
        "parameter of a good script",
        with(Some(&sig), Some(&body), Some(&bad_param)),
        3,
        "[param-name]",
        "",
    );
}

/// How base64 is written.
fn encodings(b: &mut Builder<'_>) {
    let (sig, body) = (b.sig(SHOW), b64(SHOW.as_bytes()));
    let with = |script: &str| {
        lines(&[("kpssh-envelope", "1"), ("phase", "join"), ("sig-b64", &sig), ("script-b64", script)])
    };
    let unpadded = with(body.trim_end_matches('='));
    assert!(body.ends_with('='), "the script's length makes padding");
    b.add("base64 without its padding", unpadded, 4, "[base64]", "");
    // The last letter carries bits that no byte has.
    let last = body.trim_end_matches('=').len() - 1;
    let stray = char::from(body.as_bytes()[last] + 1);
    let stray = format!("{}{stray}{}", &body[..last], &body[last + 1..]);
    b.add("base64 with stray bits", with(&stray), 4, "[base64]", "");
    b.but_shell(0, "base64(1) drops the bits, so that one script has several spellings");
    b.add(
        "base64 with a second text behind the padding",
        with(&format!("{body}{}", b64(b"more"))),
        4,
        "[base64]",
        "",
    );
    b.but_shell(2, "base64(1) reads on; the signature then fails");
    b.add("base64 with a blank in it", with(&body.replacen('c', "c ", 1)), 4, "[base64]", "");
}

fn signatures(b: &mut Builder<'_>) {
    let body = b64(SHOW.as_bytes());
    let keys = b.keys;
    let armored = (keys.signer)(SHOW.as_bytes(), "kpssh");
    let text = String::from_utf8_lossy(&armored).into_owned();
    let half: String = text.lines().take(2).map(|l| format!("{l}\n")).collect();
    let flipped = {
        // A letter in the middle of the last full line: inside the signature's own bytes.
        let mut chars: Vec<char> = text.chars().collect();
        let at = chars.len() - 60;
        chars[at] = if chars[at] == 'A' { 'B' } else { 'A' };
        chars.into_iter().collect::<String>()
    };
    for (name, sig) in [
        ("rubbish for a signature", b"rubbish".to_vec()),
        ("an empty line for a signature", b"\n".to_vec()),
        ("half a signature", half.into_bytes()),
        ("a signature with a letter changed", flipped.into_bytes()),
        (
            "an armor without content",
            b"-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----\n".to_vec(),
        ),
        ("a signature for files", (keys.signer)(SHOW.as_bytes(), "file")),
        ("a signature for git", (keys.signer)(SHOW.as_bytes(), "git")),
        ("a signature for intents", (keys.signer)(SHOW.as_bytes(), "muster-intent")),
        ("a signature over other bytes", (keys.signer)(b"other\n", "kpssh")),
        (
            "a signature over the same text without its last newline",
            (keys.signer)(SHOW.trim_end().as_bytes(), "kpssh"),
        ),
        ("a stranger's signature", (keys.stranger)(SHOW.as_bytes(), "kpssh")),
    ] {
        let input = lines(&[
            ("kpssh-envelope", "1"),
            ("phase", "join"),
            ("sig-b64", &b64(&sig)),
            ("script-b64", &body),
        ]);
        b.add(name, input, 2, "signature rejected", "");
    }
}

/// Names of parameters: a security boundary.
fn names(b: &mut Builder<'_>) {
    for (name, block) in [
        ("name BASH_ENV", &b"BASH_ENV=/tmp/x\n"[..]),
        ("name ENV", b"ENV=/tmp/x\n"),
        ("name PATH", b"PATH=/tmp\n"),
        ("name LD_PRELOAD", b"LD_PRELOAD=/tmp/x.so\n"),
        ("name IFS", b"IFS=x\n"),
        ("name with the other prefix", b"MUSTER_X=1\n"),
        ("prefix alone", b"KPSSH_=1\n"),
        ("prefix in small letters", b"kpssh_X=1\n"),
        ("prefix not at the start", b"XKPSSH_X=1\n"),
        ("name with a hyphen", b"KPSSH_A-B=1\n"),
        ("name with a blank", b"KPSSH_A B=1\n"),
        ("name with a blank before it", b" KPSSH_X=1\n"),
        ("name with a letter beyond ASCII", "KPSSH_\u{c9}=1\n".as_bytes()),
        ("name with a wide digit", "KPSSH_\u{ff11}=1\n".as_bytes()),
        ("name of an exported function", b"BASH_FUNC_x%%=() { id; }\n"),
        ("name of an exported function with the prefix", b"KPSSH_X%%=() { id; }\n"),
        ("name with brackets", b"KPSSH_X()=1\n"),
        ("name of an array element", b"KPSSH_X[0]=1\n"),
        ("name with a substitution", b"KPSSH_$(id)=1\n"),
        ("name empty", b"=1\n"),
        ("export before the name", b"export KPSSH_X=1\n"),
        ("a bad name after a good one", b"KPSSH_X=1\nBASH_ENV=/tmp/x\n"),
    ] {
        b.param(name, block, 3, "[param-name]", "");
    }
    b.param("no equals sign", b"KPSSH_X\n", 3, "[param-form]", "");
    b.param("no equals sign and no prefix", b"BASH_ENV\n", 3, "[param-form]", "");
    b.param("NUL in a value", b"KPSSH_X=a\0b\n", 3, "[param-form]", "");
    b.but_shell(0, "the shell drops the NUL and goes on with what is left");
    b.param("NUL in a name", b"KPSSH_X\0=a\n", 3, "[param-form]", "");
    b.but_shell(0, "the shell drops the NUL and goes on with what is left");
    let mut long = b"KPSSH_".to_vec();
    long.extend([b'A'; 65_536]);
    long.extend(b"=1\n");
    b.param("a name of 64 KiB", &long, 0, "", RAN);
    b.param("digits and underscores in a name", b"KPSSH_9_a_Z=1\n", 0, "", RAN);
}

/// Values are data: nothing in them is looked at.
fn values(b: &mut Builder<'_>) {
    for (name, block, shown) in [
        ("value empty", &b"KPSSH_X=\n"[..], "ran []\n"),
        ("value with equals signs", b"KPSSH_X=a=b==\n", "ran [a=b==]\n"),
        ("value with quotes", b"KPSSH_X=it's \"x\" `id`\n", "ran [it's \"x\" `id`]\n"),
        (
            "value with a substitution",
            b"KPSSH_X=$(touch /root/owned) ${PATH} $((1+1))\n",
            "ran [$(touch /root/owned) ${PATH} $((1+1))]\n",
        ),
        ("value with backslashes", b"KPSSH_X=a\\nb\\\\\n", "ran [a\\nb\\\\]\n"),
        ("value with blanks around it", b"KPSSH_X=  a\tb  \n", "ran [  a\tb  ]\n"),
        ("value with CR", b"KPSSH_X=a\r\n", "ran [a\r]\n"),
        ("value that looks like a function", b"KPSSH_X=() { :; }; id\n", "ran [() { :; }; id]\n"),
        ("value beyond ASCII", "KPSSH_X=\u{e9}\u{4e2d}\n".as_bytes(), "ran [\u{e9}\u{4e2d}]\n"),
        ("value that looks like an option", b"KPSSH_X=-n\n", "ran [-n]\n"),
        ("a repeated name: the last wins", b"KPSSH_X=1\nKPSSH_X=2\n", "ran [2]\n"),
        ("empty lines between parameters", b"\n\nKPSSH_Y=1\n\nKPSSH_X=2\n\n", "ran [2]\n"),
        ("last line without its newline", b"KPSSH_X=end", "ran [end]\n"),
        (
            "knobs of the old shim are only data",
            b"KPSSH_ALLOWED_SIGNERS=/tmp/x\nKPSSH_SHIM_SUDO=0\nKPSSH_X=1\n",
            "ran [1]\n",
        ),
    ] {
        b.param(name, block, 0, "", shown);
    }
    let mut long = b"KPSSH_X=".to_vec();
    long.extend([b'v'; 65_536]);
    long.push(b'\n');
    let script = "printf '%s\\n' \"${#KPSSH_X}\"\n";
    let input = b.good(script, Some(&long));
    b.add("a value of 64 KiB", input, 0, "", "65536\n");
}

/// What the script sees, and what becomes of its end.
fn scripts(b: &mut Builder<'_>) {
    for (name, script, code, stderr, stdout) in [
        ("runs as root", "id -u\n", 0, "", "0\n"),
        ("standard input is empty", "wc -c\n", 0, "", "0\n"),
        ("umask", "umask\n", 0, "", "0077\n"),
        ("bash whatever the first line says", "#!/bin/false\n[[ 1 == 1 ]] && echo bash\n", 0, "", "bash\n"),
        ("no last newline", "echo x", 0, "", "x\n"),
        ("failure in the middle without set -e", "false\necho on\n", 0, "", "on\n"),
        ("fails with 1", "exit 1\n", 10, "script exited 1", ""),
        (
            "fails with 2, which is not a rejected signature",
            "echo out\nexit 2\n",
            10,
            "script exited 2",
            "out\n",
        ),
        ("fails with 255", "exit 255\n", 10, "script exited 255", ""),
        ("standard error passes through", "echo to-stderr >&2\n", 0, "to-stderr", ""),
        ("does not parse", "if\n", 10, "script exited 2", ""),
        (
            "none of the login's variables",
            "echo \"[${BASH_ENV-}${ENV-}${LD_PRELOAD-}${SSH_ORIGINAL_COMMAND-}]\"\n",
            0,
            "",
            "[]\n",
        ),
        ("stdout is passed as it is", "printf 'a\\0b\\377' | od -An -tx1\n", 0, "", " 61 00 62 ff\n"),
    ] {
        let input = b.good(script, None);
        b.add(name, input, code, stderr, stdout);
    }
    let input = b.good("kill -KILL $$\n", None);
    b.add("ends by a signal", input, 10, "signal", "");
    b.but_shell(10, "the shell shim reports a signal as exit 137; ours never calls a signal an exit code");
    for (name, script, ours) in [
        ("working folder", "pwd\n", "/\n"),
        ("HOME", "echo $HOME\n", "/root\n"),
        ("LANG", "echo $LANG ${LC_ALL-none}\n", "C.UTF-8 none\n"),
        ("PATH", "echo $PATH\n", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"),
        ("the descriptors are three and the script", "ls /proc/self/fd | wc -l\n", "5\n"),
    ] {
        let input = b.good(script, None);
        b.add(name, input, 0, "", ours);
        b.but_shell(0, "the shell shim passes on what sudo and the login left");
    }
    let padding = "#".repeat(300_000);
    let script = format!("{padding}\necho long\n");
    let input = b.good(&script, None);
    b.add("a script of 300 kB", input, 0, "", "long\n");
}

/// Over a bound is 4, before anything is decoded or verified.
fn bounds(b: &mut Builder<'_>) {
    let script = format!("echo big\n{}\n", "#".repeat(1 << 20));
    let input = b.good(&script, None);
    b.add("a script over 1 MiB", input, 4, "[too-large]", "");
    b.but_shell(0, "the shell shim has no bounds");
    let mut block = b"KPSSH_X=1\n".to_vec();
    block.extend(b"\n".repeat(256 << 10));
    b.param("parameters over 256 KiB", &block, 4, "[too-large]", "");
    b.but_shell(0, "the shell shim has no bounds");
    let mut sig = (b.keys.signer)(SHOW.as_bytes(), "kpssh");
    sig.extend(b"\n".repeat(64 << 10));
    let body = b64(SHOW.as_bytes());
    let input =
        lines(&[("kpssh-envelope", "1"), ("phase", "join"), ("sig-b64", &b64(&sig)), ("script-b64", &body)]);
    b.add("a signature over 64 KiB", input, 4, "[too-large]", "");
    b.but_shell(0, "the shell shim has no bounds");
    let mut input = b.good(SHOW, None);
    input.extend(b"x".repeat(2 << 20));
    b.add("an envelope over 2 MiB", input, 4, "[too-large]", "");
    b.but_shell(0, "the shell shim has no bounds");
}
