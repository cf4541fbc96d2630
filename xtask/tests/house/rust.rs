//! Just enough of Rust's syntax to tell code from comments, texts and tests.

/// The source with comments and the inside of texts and characters blanked, byte for byte, so that lines and offsets stay.
pub(crate) fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let len = if rest.starts_with(b"//") {
            rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            block_comment(rest)
        } else if let Some(hashes) = raw_text(bytes, at) {
            let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
            let body = 2 + hashes;
            rest[body..]
                .windows(end.len())
                .position(|w| w == end)
                .map_or(rest.len(), |p| body + p + end.len())
        } else if rest[0] == b'"' {
            escaped_until(rest, b'"')
        } else if rest[0] == b'\'' && is_char(rest) {
            escaped_until(rest, b'\'')
        } else {
            at += 1;
            continue;
        };
        for b in &mut out[at..at + len] {
            if *b != b'\n' {
                *b = b' ';
            }
        }
        at += len;
    }
    String::from_utf8(out).expect("whole characters were blanked")
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The number of `#` when a raw text begins here.
fn raw_text(bytes: &[u8], at: usize) -> Option<usize> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    // `br"` begins at its `r`; the letter before it must be that `b` (or `c`) and no part of a longer word.
    let before = at.checked_sub(1).map(|n| bytes[n]).filter(|b| word(*b));
    let alone = match before {
        None => true,
        Some(b'b' | b'c') => !at.checked_sub(2).is_some_and(|n| word(bytes[n])),
        Some(_) => false,
    };
    let hashes = bytes[at..].strip_prefix(b"r")?.iter().take_while(|b| **b == b'#').count();
    (alone && bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

/// A character and not a lifetime: `'a'`, `'\n'`, but not `'a`.
fn is_char(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(first) => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            rest.get(1 + width) == Some(&b'\'')
        }
        None => false,
    }
}

fn escaped_until(rest: &[u8], end: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b if b == end => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Code that ships: without what stands under `#[cfg(test)]` or the feature `testing`; and the names of modules in files of
/// their own that stand under them.
pub(crate) fn shipped(source: &str) -> (String, Vec<String>) {
    let mut code = code(source).into_bytes();
    let mut modules = Vec::new();
    let mut from = 0;
    while let Some(at) = find(&code, from, b"#[cfg(") {
        let end = find(&code, at, b"]").unwrap_or(code.len());
        from = end;
        let attribute = &source[at..end];
        let test = has_word(attribute, "test") && !attribute.contains("not(test)");
        if !test && !attribute.contains("feature = \"testing\"") {
            continue;
        }
        let stop = code[end..].iter().position(|b| matches!(b, b'{' | b';')).map_or(code.len(), |p| end + p);
        let item = String::from_utf8_lossy(&code[end..stop]).into_owned();
        let close = if code.get(stop) == Some(&b'{') { braces(&code, stop) } else { stop };
        if close == stop
            && let Some(name) = item.split_whitespace().skip_while(|w| *w != "mod").nth(1)
        {
            modules.push(name.to_owned());
        }
        for b in &mut code[at..close] {
            if *b != b'\n' {
                *b = b' ';
            }
        }
        from = close;
    }
    (String::from_utf8(code).expect("whole characters were blanked"), modules)
}

fn find(code: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    code.get(from..)?.windows(what.len()).position(|w| w == what).map(|p| from + p)
}

/// The offset after the brace that closes the one at `open`.
fn braces(code: &[u8], open: usize) -> usize {
    let mut depth = 0;
    for (at, b) in code.iter().enumerate().skip(open) {
        match b {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

pub(crate) fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

/// The names of the functions that a test attribute stands on: `#[test]`, `#[tokio::test(…)]`.
pub(crate) fn tests(source: &str) -> Vec<String> {
    test_bodies(source).into_iter().map(|(name, _)| name).collect()
}

/// Those functions, each with what is inside of its braces; comments and texts are blanked.
pub(crate) fn test_bodies(source: &str) -> Vec<(String, String)> {
    let code = code(source);
    let mut out = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        if at.checked_sub(1).is_some_and(|n| !code.as_bytes()[n].is_ascii_whitespace()) {
            continue;
        }
        let head = &code[..at];
        let from = head.rfind(['{', '}', ';']).map_or(0, |p| p + 1);
        let is_test = head[from..].split("#[").skip(1).any(|attribute| {
            let path = attribute.split([']', '(']).next().unwrap_or_default().trim();
            path == "test" || path.ends_with("::test")
        });
        let name = code[at + 3..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
        if let (true, Some(name), Some(open)) = (is_test, name, find(code.as_bytes(), at, b"{")) {
            let close = braces(code.as_bytes(), open);
            let body = code.get(open + 1..close - 1).unwrap_or_default();
            out.push((name.to_owned(), body.to_owned()));
        }
    }
    out
}

#[test]
fn comments_and_texts_are_no_code() {
    let source = r##"let a = "unsafe \" {"; // unsafe
let b = r#"unsafe " {"#; /* unsafe /* nested */ unsafe */ let c = '"'; let d: &'static str = b"x";
let e = '\''; unsafe { é }"##;
    let code = code(source);
    assert_eq!(code.len(), source.len());
    assert_eq!(code.matches("unsafe").count(), 1, "{code}");
    assert!(code.contains("'static str"), "a lifetime is no text: {code}");
    assert!(code.ends_with("unsafe { é }"));
}

#[test]
fn tests_do_not_ship_and_what_follows_them_does() {
    let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { '{'; }\n}\nfn c() {}\n#[cfg(test)]\nmod d;\n\
        #[cfg(feature = \"testing\")]\npub mod e;\n#[cfg(not(test))]\nfn f() {}\n#[cfg(unix)]\nfn g() {}";
    let (code, modules) = shipped(source);
    let left: Vec<bool> =
        ["fn a", "fn b", "fn c", "mod d", "fn f", "fn g"].iter().map(|f| code.contains(f)).collect();
    assert_eq!(left, [true, false, true, false, true, true], "{code}");
    assert_eq!(modules, ["d", "e"]);
}

#[test]
fn only_tests_are_tests() {
    let source = "#[test]\nfn m1_a() {}\nfn m2_b() {}\n// #[test]\nfn m3_c() {}\n#[tokio::test(flavor = \"x\")]\n#[cfg(unix)]\n\
        async fn m4_d() {}\nlet s = \"#[test]\nfn m5_e() {}\";\nproptest! { #[test] fn m6_f(x in 0..1) {} }\n#[testing]\nfn m7_g() {}";
    assert_eq!(tests(source), ["m1_a", "m4_d", "m6_f"]);
}
