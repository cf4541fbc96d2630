//! Scripts that must be followed, and those that must be said not to be.

use super::*;

fn words(script: &str) -> Vec<String> {
    tokens(script.as_bytes())
        .unwrap()
        .iter()
        .filter_map(|t| match t {
            Token::Word(w) => Some(w.literal().unwrap_or_else(|| "$".into())),
            Token::Op { text, .. } => Some((*text).into()),
            _ => None,
        })
        .collect()
}

#[test]
fn quoting() {
    assert_eq!(words("a 'b c' \"d e\" f\\ g # no\n"), ["a", "b c", "d e", "f g"]);
    assert_eq!(words("a#b"), ["a#b"]);
    assert_eq!(words("a \\\n b"), ["a", "b"]);
    assert_eq!(words("$'x\\'y' z"), ["x'y", "z"]);
    assert_eq!(
        words("a>>b 2>&1 | c && d; e &"),
        ["a", ">>", "b", "2", ">&", "1", "|", "c", "&&", "d", ";", "e", "&"]
    );
}

#[test]
fn nesting_and_case_patterns() {
    for script in [
        "x=$(case $y in a) echo 1;; (b) echo 2;; esac)",
        "x=\"$(echo \"a)b\" ')' `echo \\)`)\"",
        "case $x in a|b) (cd /; ls) ;; *) f() { :; } ;; esac",
        "echo ${x:-$(echo })} ${y//[)]/\\}} ${#z} ${!w} ${a[$i]}",
        "((i = (1 + 2) * 3)); echo $(( (i) ))",
        "diff <(sort a) <(sort b)",
        "a=(1 '2 3' $(x))\n[[ $a =~ ^(b|c)$ ]]",
        "shopt -s extglob; rm !(a|b)",
        "for ((i=0;i<3;i++)); do :; done",
        "((a; b) | c) || d; x=$((a; b) | c)",
    ] {
        assert!(tokens(script.as_bytes()).is_ok(), "{script}: {:?}", tokens(script.as_bytes()));
    }
}

#[test]
fn here_documents() {
    let script = "cat <<EOF <<-'X'\n$A ${B}\nEOF\n\t$C\n\tX\necho done\n";
    let all = tokens(script.as_bytes()).unwrap();
    let bodies: Vec<&Word> =
        all.iter().filter_map(|t| if let Token::HereDoc(w) = t { Some(w) } else { None }).collect();
    assert_eq!(bodies.len(), 1);
    let names: Vec<&str> = bodies[0]
        .parts
        .iter()
        .filter_map(|p| if let Part::Param { name, .. } = p { Some(name.as_str()) } else { None })
        .collect();
    assert_eq!(names, ["A", "B"]);
    assert!(
        matches!(all.iter().rev().nth(1), Some(Token::Word(w)) if w.line == 6 && w.literal().as_deref() == Some("done"))
    );
}

#[test]
fn what_cannot_be_followed_is_said_with_its_line() {
    for (script, line) in
        [("a\n'b\n", 2), ("x=$(a\n\n", 3), ("echo ${a", 1), ("a )\n", 1), ("cat <<E\nx\n", 3)]
    {
        assert_eq!(tokens(script.as_bytes()).unwrap_err().line, line, "{script}");
    }
    let deep = "$(".repeat(5000);
    assert!(tokens(deep.as_bytes()).is_err());
    let deep = "${a:-".repeat(5000);
    assert!(tokens(deep.as_bytes()).is_err());
    // Each of them could be arithmetic up to the end of the script.
    let open = "(".repeat(1 << 20);
    assert!(tokens(open.as_bytes()).unwrap_err().why.contains("too many"));
}

proptest::proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
        let _ = tokens(&bytes);
    }

    #[test]
    fn never_panics_on_shell_like_text(text in "[a-z $\"'`(){}\\[\\]<>|;&#\\\\\n=:!*-]{0,200}") {
        let _ = tokens(text.as_bytes());
    }
}
