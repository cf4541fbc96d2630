//! `muster ssh-keygen` against the program that it stands in for.

use crate::profiles::Agent;
use crate::run::{MUSTER, Place};

/// One P-256 key in 512 is stored with a scalar of fewer bytes than its curve's, which SSH libraries refuse.
#[test]
fn a_p256_key_with_a_short_scalar_signs_everywhere() {
    let p = Place::new();
    p.write("short", include_bytes!("../../../muster-signing/tests/vectors/short-p256"));
    p.sh("chmod 600 short; echo hello > m");
    // Without the public file beside it: the public half is read from the private file.
    let ran = p.muster("ssh-keygen -q -Y sign -f short -n ns m");
    assert_eq!(ran.code, 0, "{}", ran.err);
    p.sh("ssh-keygen -y -f short > short.pub; echo \"a@b $(cat short.pub)\" > as");
    p.sh("ssh-keygen -q -Y verify -f as -I a@b -n ns -s m.sig < m");
    p.fleet();
    p.profile("demo");
    let ran = p.muster("script sign demo --key short");
    assert_eq!(ran.code, 0, "{}", ran.err);
    p.sh("echo \"muster $(cat short.pub)\" > as; cd demo/signed; \
          ssh-keygen -q -Y verify -f ../../as -I muster -n muster-intent -s join.1.sig < join.intent");
}

/// Calls that must end and print as the system's own does. Verdict lines on stderr are ours.
const CALLS: &[&str] = &[
    "-Y verify -f as -I a@b -n ns -s m.sig",
    "-Y verify -q -f as -I a@b -n ns -s m.sig",
    "-q -Yverify -fas -Ia@b -nns -sm.sig",
    "-Y verify -f as -I x -n ns -s m.sig",
    "-Y verify -q -f as -I x -n ns -s m.sig",
    "-Y verify -f as -I a@b -n other -s m.sig",
    "-Y verify -Oprint-pubkey -f as -I a@b -n ns -s m.sig",
    "-Y verify -q -O print-pubkey -f as -I a@b -n ns -s m.sig",
    "-Y verify -f as -I a@b -n ns -s m.sig -r rev",
    "-Y verify -f as -I a@b -n ns -s m.sig -r none",
    "-Y verify -f as -I a@b -n ns -s m.sig -r nofile",
    "-Y verify -f wild -I anybody -n ns -s m.sig",
    "-Y verify -f dated -I a@b -n ns -s m.sig",
    "-Y verify -Overify-time=19850101 -f dated -I a@b -n ns -s m.sig",
    "-Y verify -Overify-time=19900101 -f dated -I a@b -n ns -s m.sig",
    "-Y verify -Overify-time=19891231235959 -f dated -I a@b -n ns -s m.sig",
    "-Y verify -Overify-time=198912311500Z -f dated -I a@b -n ns -s m.sig",
    "-Y verify -Overify-time=198912311459Z -f dated -I a@b -n ns -s m.sig",
    "-Y verify -Overify-time=zz -f as -I a@b -n ns -s m.sig",
    "-Y verify -Obogus -f as -I a@b -n ns -s m.sig",
    "-Y verify -f as -I a@b -n ns -s other.sig",
    "-Y verify -f as -I a@b -n ns -s as",
    "-Y verify -f nofile -I a@b -n ns -s m.sig",
    "-Y verify -f as -I a@b -n ns -s nofile",
    "-Y verify -f as -n ns -s m.sig",
    "-Y verify -I a@b -n ns -s m.sig",
    "-Y verify -f as -I a@b -s m.sig",
    "-Y verify -f as -I a@b -n ns",
    "-Y verify -f as -I a@b -n ns -s m.sig extra",
    "-Y find-principals -f as -s m.sig",
    "-Y find-principals -f wild -s m.sig",
    "-Y find-principals -f two -s m.sig",
    "-Y find-principals -f dated -s m.sig",
    "-Y find-principals -Overify-time=19850101 -f dated -s m.sig",
    "-Y find-principals -f k2.pub -s m.sig",
    "-Y match-principals -f two -I a@b",
    "-Y match-principals -f wild -I who",
    "-Y match-principals -f as -I nobody",
    "-Y check-novalidate -n ns -s m.sig",
    "-Y check-novalidate -n other -s m.sig",
    "-Y check-novalidate -n ns -s other.sig",
    "-Y check-novalidate -s m.sig",
    "-q -Y sign -f k -n ns",
    "-q -Y sign -f k.pub -n ns",
    "-q -Y sign -Ohashalg=sha256 -f k -n ns",
    "-q -Y sign -Ohashalg=sha1 -f k -n ns",
    "-Y sign -f nokey -n ns m",
    "-Y sign -n ns m",
    "-Y sign -f k m",
    "-Y nonsense",
    "-l -f k.pub",
    "-l -E md5 -f k.pub",
];

#[test]
fn calls_end_and_print_as_the_systems_own() {
    let p = Place::new();
    p.sh("ssh-keygen -q -t ed25519 -N '' -C c -f k; ssh-keygen -q -t ed25519 -N '' -f k2; echo hi > m; echo ho > o; \
          ssh-keygen -q -Y sign -f k -n ns m; ssh-keygen -q -Y sign -f k -n ns o; mv o.sig other.sig; \
          (printf 'a@b '; cat k.pub) > as; (printf '* '; cat k.pub) > wild; (printf 'a@b,c@d '; cat k.pub; printf 'e@f '; cat k.pub) > two; \
          (printf 'a@b valid-after=\"19800101\",valid-before=\"19900101\" '; cat k.pub) > dated; cp k.pub rev; cp k2.pub none");
    // Local times are the caller's: a zone far east moves valid-before across the day.
    for (line, zone) in CALLS.iter().flat_map(|l| [(*l, "UTC"), (*l, "Asia/Tokyo")]) {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let run = |program: &str, first: &[&str]| {
            let mut c = p.command(program);
            c.args(first).args(&arguments).env("TZ", zone);
            p.finish(c, b"hi\n")
        };
        let theirs = run("/usr/bin/ssh-keygen", &[]);
        let ours = run(MUSTER, &["ssh-keygen"]);
        assert_eq!(ours.code, theirs.code, "{line}: {}{}", ours.out, ours.err);
        assert_eq!(ours.out, theirs.out, "{line}: {}", ours.err);
        // Where theirs says nothing of a reason, ours says it; where theirs speaks, ours does too.
        assert!(
            !ours.err.is_empty() || theirs.err.is_empty(),
            "{line}: ours {:?} theirs {:?}",
            ours.err,
            theirs.err
        );
    }
}

#[test]
fn files_are_signed_beside_themselves_and_through_an_agent() {
    let p = Place::new();
    p.sh("ssh-keygen -q -t rsa -N '' -f k; echo one > a; echo two > b; (printf 'me '; cat k.pub) > as");
    let ran = p.muster("ssh-keygen -Y sign -f k -n file a b");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        ran.err,
        "Signing file a\nWrite signature to a.sig\nSigning file b\nWrite signature to b.sig\n"
    );
    p.sh("ssh-keygen -Y verify -f as -I me -n file -s a.sig < a; ssh-keygen -Y verify -f as -I me -n file -s b.sig < b");
    // What is there is overwritten only after a yes.
    let before = p.read("a.sig");
    p.sh("echo changed > a");
    assert!(p.muster_with("ssh-keygen -Y sign -f k -n file a", b"n\n").out.contains("Overwrite (y/n)? "));
    assert_eq!(p.read("a.sig"), before);
    p.muster_with("ssh-keygen -Y sign -f k -n file a", b"y\n");
    assert_ne!(p.read("a.sig"), before);
    let agent = Agent::start(&p);
    p.sh(&format!("SSH_AUTH_SOCK={} ssh-add -q k; mv k away; rm -f a.sig", agent.socket));
    let mut c = p.command(MUSTER);
    c.args(["ssh-keygen", "-U", "-Y", "sign", "-f", "k.pub", "-n", "file", "a"])
        .env("SSH_AUTH_SOCK", &agent.socket);
    let ran = p.finish(c, b"");
    assert_eq!(ran.code, 0, "{}", ran.err);
    p.sh("ssh-keygen -Y verify -f as -I me -n file -s a.sig < a");
}

#[test]
fn git_signs_and_verifies_through_it() {
    let p = Place::new();
    muster_needs::require!(muster_needs::tool("/usr/bin/git", "git"));
    p.write("front", format!("#!/bin/sh\nexec {MUSTER} ssh-keygen \"$@\"\n"));
    p.sh("chmod +x front; ssh-keygen -q -t ed25519 -N '' -f k; (printf 'o@x '; cat k.pub) > as; git init -q r; cd r; \
          git config user.name o; git config user.email o@x; git config gpg.format ssh; git config user.signingkey ../k; \
          git config gpg.ssh.program \"$PWD/../front\"; git config gpg.ssh.allowedSignersFile \"$PWD/../as\"; \
          git commit -q --allow-empty -S -m x; git verify-commit HEAD");
}

/// The regression script of Debian's `openssh-tests`, run as its own test-exec.sh would run it, with `ssh-keygen` replaced.
#[test]
fn the_sshsig_regression_script_passes() {
    let regress = std::path::Path::new("/usr/lib/openssh/regress");
    muster_needs::require!(muster_needs::tool("/usr/lib/openssh/regress/sshsig.sh", "openssh-tests"));
    let p = Place::new();
    p.write("front", format!("#!/bin/sh\nexec {MUSTER} ssh-keygen \"$@\"\n"));
    let out = p.sh(&format!(
        "chmod +x front; mkdir obj; cd {dir}; export OBJ={here}/obj USER=$(id -un) LOGNAME=$(id -un) TEST_SHELL=/bin/sh TEST_REGRESS_CACHE_DIR= \
         TEST_SSH_SSHKEYGEN={here}/front TEST_SSH_QUIET= ; \
         cat > {here}/exec.sh <<'SH'\n{harness}\nSH\n/bin/sh {here}/exec.sh {dir}/sshsig.sh 2>&1 | tail -40; grep -c . {here}/obj/verdict; cat {here}/obj/verdict",
        dir = regress.display(),
        here = p.path().display(),
        harness = HARNESS
    ));
    assert!(out.ends_with("1\nok\n"), "{out}");
}

/// What sshsig.sh needs of test-exec.sh, without its sshd: keys of every kind but ssh-dss and sk-, data, and how failure is told.
const HARNESS: &str = r#"
SSHKEYGEN="$TEST_SSH_SSHKEYGEN"; SSHAGENT=ssh-agent; SSHADD=ssh-add; EXTRA_AGENT_ARGS=""
SSH_KEYTYPES="ssh-ed25519 ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 ecdsa-sha2-nistp521 ssh-rsa"
DATANAME=data; DATA=$OBJ/data; head -c 20000 /dev/urandom > $DATA
RESULT=0
trace() { :; }
verbose() { echo "$@"; }
fail() { RESULT=1; echo "FAIL: $@"; }
fatal() { echo "FATAL: $@"; exit 1; }
for t in $SSH_KEYTYPES; do
  bits=""; kind=$t
  case $t in ssh-ed25519) kind=ed25519;; ecdsa-sha2-nistp*) kind=ecdsa; bits="-b ${t#ecdsa-sha2-nistp}";; ssh-rsa) kind=rsa; bits="-b 3072";; esac
  ssh-keygen -q -t $kind $bits -N '' -f $OBJ/$t || fatal "keygen $t"
done
. "$1"
[ $RESULT = 0 ] && echo ok > $OBJ/verdict || echo bad > $OBJ/verdict
"#;
