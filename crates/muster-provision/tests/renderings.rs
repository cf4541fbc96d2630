//! Every rendering: golden text, and the verdict of the real tool that reads it.
#![allow(clippy::disallowed_methods, reason = "tests spawn the real tools")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so"
)]

mod sandbox;

use muster_core::{HostName, Phase, PoolName, ProfileName};
use muster_provision::render::{self, ShimSource};
use muster_provision::run::{self, Options, Outcome};
use muster_provision::spec::{DropIn, EnvelopeOne, OnDisconnect, Terms};
use muster_provision::{
    AccountName, ControllerKey, FromPattern, HostSpec, Plan, PublicKeyLine, ShimBinary, files,
};
use sandbox::{Logins, Sandbox, Shell, block_on, word};
use std::io::Write as _;
use std::process::{Command, Stdio};

const SIGNER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH+Xc1Z7q6gPjBdbGJ7yKTqrRMLrcHyA8VTZ2lTzB0cF";
const CONTROLLER: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS controller@ci";
const SECOND: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q";

/// An ELF header and nothing else: enough for a plan, small enough for a golden file.
fn shim() -> ShimBinary {
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(64, 0);
    elf[18] = 0x3e;
    ShimBinary::new(elf, None).unwrap()
}

fn key(line: &str) -> ControllerKey {
    ControllerKey::new(PublicKeyLine::parse(line).unwrap())
}

fn plain() -> HostSpec {
    let allowed = format!("muster namespaces=\"muster-intent\",valid-before=\"20271231Z\" {SIGNER}\n");
    let mut spec = HostSpec::new(
        HostName::new("edge-1.example").unwrap(),
        shim(),
        allowed.into_bytes(),
        vec![key(CONTROLLER)],
    );
    spec.profiles.insert(ProfileName::new("tls-bootstrap").unwrap(), 7);
    spec
}

/// Everything that a spec can say at once.
fn full() -> HostSpec {
    let mut spec = plain();
    spec.pools.extend(["edge", "gpu"].map(|p| PoolName::new(p).unwrap()));
    spec.profiles.insert(ProfileName::new("sbc").unwrap(), 1);
    let from = ["10.0.0.0/8", "!10.9.0.0/16", "fd00::/8"].map(|f| FromPattern::new(f).unwrap());
    spec.controllers = vec![
        key(CONTROLLER).with_from(from.into()).unwrap(),
        key(SECOND).with_phases([Phase::Join, Phase::Leave]),
    ];
    spec.envelope_one = EnvelopeOne::Taken(Terms {
        on_disconnect: OnDisconnect::Finish,
        deadlines: [(Phase::Install, 1800), (Phase::Join, 600)].into(),
        ..Terms::default()
    });
    spec.environment.insert("HTTPS_PROXY".into(), "http://proxy.example:3128/?a=\"b\"\\c".into());
    spec.drop_in = Some(DropIn::default());
    spec
}

fn golden(name: &str, text: &str) {
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
fn golden_files() {
    let account = AccountName::default();
    golden("sudoers", &files::sudoers(&account, false).full());
    golden("sudoers-drop-in", &files::sudoers(&account, true).full());
    golden("sshd", &files::sshd_drop_in(&account, None).full());
    golden("sshd-drop-in", &files::sshd_drop_in(&account, Some(&AccountName::new("kpssh").unwrap())).full());
    golden("shim-toml", &files::shim_toml(&plain()));
    golden("shim-toml-full", &files::shim_toml(&full()));
    golden("authorized-keys", &files::authorized_keys(&full().controllers));
    golden("floors", &files::floors(&full()));
    let plan = Plan::provision(&full()).unwrap();
    golden("plan", &render::text(&plan, Some(&[plan.steps()[2].id().clone()]), true));
    golden("ansible", &render::ansible(&plan, &full().shim).unwrap());
    let sh = render::sh(
        &Plan::provision(&plain()).unwrap(),
        &ShimSource::url("https://mirror.example/muster-shim").unwrap(),
    );
    // The library is in the script word for word; the golden file holds what is around it.
    let (head, rest) = sh.split_once(muster_provision::sh::LIB).unwrap();
    golden("sh", &format!("{head}...\n{rest}"));
    let cloud = render::cloud_init(&plan, &ShimSource::Embedded);
    golden("cloud-init-head", &cloud.lines().take(12).map(|l| format!("{l}\n")).collect::<String>());
    golden("cloud-init-tail", cloud.rsplit_once("\nruncmd:").unwrap().1);
}

#[test]
fn m4_profiles_carry_their_least_epoch_and_the_first_floors() {
    let toml = files::shim_toml(&full());
    assert!(
        toml.contains("[profiles.tls-bootstrap]\nmin-epoch = 7\n")
            && toml.contains("[profiles.sbc]\nmin-epoch = 1\n"),
        "{toml}"
    );
    assert!(files::floors(&full()).ends_with("floor: sbc 1\nfloor: tls-bootstrap 7\n"));
    let mut none = plain();
    none.profiles.clear();
    let faults = Plan::provision(&none).unwrap_err();
    assert!(faults.iter().any(|f| f.part == "profiles"), "{faults:?}");
}

#[test]
fn m6_envelope_one_is_off_unless_asked_for_and_never_beside_a_threshold() {
    assert!(files::shim_toml(&plain()).contains("\nenvelope-1 = false\n"));
    assert!(files::shim_toml(&full()).contains("\nenvelope-1 = true\n"));
    let mut two = full();
    two.signers_needed = 2;
    let faults = Plan::provision(&two).unwrap_err();
    assert!(faults.iter().any(|f| f.part == "envelope-1"), "{faults:?}");
    // M13: and one key is not two signers.
    assert!(faults.iter().any(|f| f.part == "allowed_signers"), "{faults:?}");
    let mut off = full();
    off.envelope_one = EnvelopeOne::Refused;
    assert!(Plan::provision(&off).unwrap_err().iter().any(|f| f.part == "drop-in"));
}

#[test]
fn m12_envelope_one_on_disconnect_is_written() {
    assert!(files::shim_toml(&full()).contains("[envelope1]\non-disconnect = \"finish\"\n"));
}

#[test]
fn s1_a_time_without_zone_is_not_written() {
    let mut spec = plain();
    spec.allowed_signers = format!("# ours\nmuster valid-before=\"20271231\" {SIGNER}\n").into_bytes();
    let faults = Plan::provision(&spec).unwrap_err();
    assert!(faults.iter().any(|f| f.part == "allowed_signers" && f.why.starts_with("line 2")), "{faults:?}");
}

#[test]
fn s9_a_revocation_list_is_always_written_and_required() {
    assert!(files::shim_toml(&plain()).contains("\nrevoked-signers = \"required\"\n"));
    let plan = Plan::provision(&plain()).unwrap();
    assert!(plan.steps().iter().any(|s| s.path() == Some(files::REVOKED_SIGNERS)));
    let mut bad = plain();
    bad.revoked_signers = b"not a key\n".to_vec();
    assert!(Plan::provision(&bad).unwrap_err().iter().any(|f| f.part == "revoked_signers"));
}

#[test]
fn s10_everything_that_is_trusted_is_roots_and_written_by_root_alone() {
    for step in Plan::provision(&full()).unwrap().steps() {
        let check = step.check();
        let mode = check.split(' ').find_map(|w| u32::from_str_radix(w, 8).ok().filter(|_| w.len() == 3));
        let Some(mode) = mode else {
            assert!(step.path().is_none(), "{check}");
            continue;
        };
        assert_eq!(mode & 0o022, 0, "{check}");
    }
}

#[test]
fn s11_a_host_has_one_name_and_pools_without_wildcards() {
    let toml = files::shim_toml(&full());
    assert!(toml.contains("\nhost = \"edge-1.example\"\npools = [\"edge\", \"gpu\"]\n"), "{toml}");
    assert!(HostName::new("edge-*").is_err() && PoolName::new("*").is_err());
}

#[test]
fn ve25_a_key_that_is_limited_makes_the_table_whole() {
    let toml = files::shim_toml(&full());
    assert_eq!(toml.matches("[keys.\"SHA256:").count(), 2);
    assert!(toml.contains("phases = [\"probe\", \"join\", \"leave\"]"), "{toml}");
    assert!(!files::shim_toml(&plain()).contains("[keys"));
}

#[test]
fn the_shim_reads_what_is_written_here() {
    use muster_shim::{floors::Floors, policy::Policy};
    for spec in [plain(), full()] {
        let p = Policy::parse(files::shim_toml(&spec).as_bytes()).unwrap();
        assert_eq!(p.host.unwrap(), spec.host);
        assert_eq!(p.pools, spec.pools.iter().cloned().collect::<Vec<_>>());
        assert_eq!(p.envelope_1, spec.envelope_one != EnvelopeOne::Refused);
        assert_eq!(
            (p.signers_needed, p.max_deadline, p.epoch_max_step),
            (spec.signers_needed, spec.max_deadline, spec.epoch_max_step)
        );
        assert_eq!(p.profiles.unwrap(), spec.profiles.iter().map(|(n, e)| (n.clone(), Some(*e))).collect());
        assert_eq!(p.environment, spec.environment);
        assert_eq!(p.revoked, muster_shim::policy::Revoked::Required);
        let floors = Floors::parse(files::floors(&spec).as_bytes()).unwrap();
        assert_eq!(
            floors.iter().map(|(n, e)| (n.clone(), e)).collect::<Vec<_>>(),
            spec.profiles.clone().into_iter().collect::<Vec<_>>()
        );
    }
    let full = full();
    let p = Policy::parse(files::shim_toml(&full).as_bytes()).unwrap();
    assert_eq!(p.envelope_one.deadline(Phase::Install), 1800);
    assert_eq!(p.envelope_one.on_disconnect, muster_signing::intent::OnDisconnect::Finish);
    let keys = p.keys.unwrap();
    for c in &full.controllers {
        let wanted: Vec<Phase> =
            c.phases().map_or(files::ALL_PHASES.to_vec(), |p| p.iter().copied().collect());
        assert_eq!(keys[c.key().fingerprint()], wanted);
    }
    // Every variable that the shim would refuse is refused here, before anything is sent.
    for name in [
        "BASH_ENV",
        "PATH",
        "TZ",
        "LD_PRELOAD",
        "MUSTER_X",
        "ENV",
        "PS4",
        "CDPATH",
        "GLIBC_TUNABLES",
        "POSIXLY_CORRECT",
        "1X",
        "A-B",
        "",
    ] {
        let mut spec = plain();
        spec.environment.insert(name.into(), "x".into());
        assert!(Plan::provision(&spec).is_err(), "{name}");
        assert!(Policy::parse(format!("[environment]\n\"{name}\" = \"x\"\n").as_bytes()).is_err(), "{name}");
    }
}

fn feed(argv: &[&str], text: &str) -> (bool, String) {
    let mut child = Command::new(argv[0])
        .args(&argv[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    (
        out.status.success(),
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)),
    )
}

#[test]
fn visudo_takes_the_sudoers_file() {
    muster_needs::require!(muster_needs::tool("/usr/sbin/visudo", "sudo"));
    for drop_in in [true, false] {
        let (ok, said) = feed(
            &["/usr/sbin/visudo", "-csf", "-"],
            &files::sudoers(&AccountName::default(), drop_in).full(),
        );
        assert!(ok, "{said}");
    }
}

#[test]
fn sh_takes_the_scripts() {
    let plan = Plan::provision(&full()).unwrap();
    let scripts = [
        render::sh(&plan, &ShimSource::Embedded),
        render::sh(&plan, &ShimSource::url("https://mirror.example/shim").unwrap()),
        muster_provision::sh::revert_script(),
        muster_provision::facts::script(&AccountName::default(), None),
    ];
    for shell in ["/usr/bin/dash", "/usr/bin/bash"] {
        for s in &scripts {
            let (ok, said) = feed(&[shell, "-n"], s);
            assert!(ok && said.is_empty(), "{shell}: {said}");
        }
    }
}

#[test]
fn the_cloud_config_is_yaml_and_carries_the_script_byte_for_byte() {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        write_files: Vec<WriteFile>,
        runcmd: Vec<Vec<String>>,
    }
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct WriteFile {
        path: String,
        owner: String,
        permissions: String,
        content: String,
    }
    let plan = Plan::provision(&full()).unwrap();
    let text = render::cloud_init(&plan, &ShimSource::Embedded);
    assert!(text.starts_with("#cloud-config\n"));
    let config: Config = serde_saphyr::from_str(&text).unwrap();
    let f = &config.write_files[0];
    assert_eq!(f.content, render::sh(&plan, &ShimSource::Embedded));
    assert_eq!((f.owner.as_str(), f.permissions.as_str()), ("root:root", "0700"));
    assert!(config.runcmd[0].last().unwrap().contains(&f.path));
}

fn ansible_playbook() -> Result<String, String> {
    let named = std::env::var("MUSTER_ANSIBLE_PLAYBOOK").ok();
    let usual = ["/usr/bin/ansible-playbook".into(), "/usr/local/bin/ansible-playbook".into()];
    let found = named.into_iter().chain(usual).find(|p| std::path::Path::new(p).exists());
    found.ok_or(
        "no ansible-playbook here (package ansible-core, or set MUSTER_ANSIBLE_PLAYBOOK to one of a venv)"
            .into(),
    )
}

#[test]
fn ansible_takes_the_playbook() {
    let tool = muster_needs::require!(ansible_playbook());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("play.yml");
    for spec in [plain(), full()] {
        std::fs::write(&path, render::ansible(&Plan::provision(&spec).unwrap(), &spec.shim).unwrap())
            .unwrap();
        let out =
            Command::new(&tool).args(["--syntax-check", "-i", "localhost,"]).arg(&path).output().unwrap();
        assert!(
            out.status.success(),
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        assert!(
            !String::from_utf8_lossy(&out.stderr).contains("WARN"),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

/// Text that ends a line for a YAML reader, and would so end the block that it stands in.
#[test]
fn no_comment_or_value_becomes_a_play_on_the_controller() {
    let tool = muster_needs::require!(ansible_playbook());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("play.yml");
    let tasks = |spec: &HostSpec| {
        std::fs::write(&path, render::ansible(&Plan::provision(spec).ok()?, &spec.shim).ok()?).unwrap();
        let out = Command::new(&tool).args(["--list-tasks", "-i", "localhost,"]).arg(&path).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Some(String::from_utf8(out.stdout).unwrap())
    };
    let usual = tasks(&plain()).unwrap();
    assert!(usual.contains("play #1 ") && !usual.contains("play #2 "), "{usual}");
    let refused = ['\u{85}', '\u{2028}', '\u{2029}', '\u{feff}', '\u{202e}'];
    for c in refused.into_iter().chain([' ', '\u{a0}', '\u{3000}']) {
        let evil = format!(
            "# rotated{c}- hosts: localhost{c}  connection: local{c}  tasks:{c}    - ansible.builtin.shell: id{c}    #"
        );
        let mut specs = [plain(), plain(), plain()];
        specs[0].allowed_signers.extend_from_slice(format!("{evil}\n").as_bytes());
        specs[1].revoked_signers = format!("{evil}\n").into_bytes();
        specs[2].environment.insert("NOTE".into(), evil);
        for (n, spec) in specs.iter().enumerate() {
            let listed = tasks(spec);
            assert_eq!(listed.is_none(), refused.contains(&c), "{c:?} in part {n}");
            assert!(listed.is_none_or(|l| l == usual), "{c:?} in part {n}");
        }
    }
}

/// The sandbox's host: `id` stands for the shim, real keys log in.
fn live(s: &Sandbox) -> HostSpec {
    let mut spec = plain();
    spec.shim = ShimBinary::new(std::fs::read("/usr/bin/id").unwrap(), None).unwrap();
    spec.controllers = vec![key(&s.key("controller.pub"))];
    spec
}

fn logins(s: &Sandbox) -> Logins<'_> {
    Logins { sandbox: s, user: "muster", key: "controller" }
}

#[test]
fn the_script_provisions_again_and_again_and_undoes_itself() {
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let spec = live(&s);
    let script = s.dir.path().join("out/provision.sh");
    s.write(&script, render::sh(&Plan::provision(&spec).unwrap(), &ShimSource::Embedded).as_bytes());
    let before = s.snapshot();
    let run = |args: &str| s.sh(&format!("sh {} {args}", script.display()));

    // Something fails on the way: as it was.
    s.ok("mount --bind /bin/false /usr/sbin/useradd");
    let out = run("");
    assert!(!out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("step account failed"), "{out:?}");
    s.ok("umount /usr/sbin/useradd");
    assert_eq!(before, s.snapshot());

    let check = run("--check");
    assert!(String::from_utf8_lossy(&check.stdout).contains("to do: sshd\n"));
    assert_eq!(check.status.code(), Some(2), "there is something to do");
    let out = run("");
    assert!(out.status.success(), "{out:?}");
    assert!(block_on(muster_provision::Prover::pool_login(&logins(&s))).is_ok());
    let strict = s.snapshot_strict();
    assert_eq!(String::from_utf8_lossy(&run("").stdout), "muster-provision: nothing to do\n");
    let check = run("--check");
    assert_eq!((check.stdout.as_slice(), check.status.code()), (&b""[..], Some(0)));
    let shell = Shell::direct(&s);
    let same = block_on(run::provision(&shell, &logins(&s), &spec, &Options::new(word()), &mut run::silent))
        .unwrap();
    assert!(matches!(same, Outcome::Unchanged { .. }), "{same:?}");
    assert_eq!(strict, s.snapshot_strict());

    let out = run("--undo");
    assert!(out.status.success(), "{out:?}");
    assert_eq!(
        s.ok(
            "ls -d /var/lib/muster /etc/muster /usr/bin/muster-shim 2>/dev/null; getent passwd muster; true"
        ),
        ""
    );
}

#[test]
fn the_playbook_provisions_for_real_and_unprovision_undoes_it() {
    let tool = muster_needs::require!(ansible_playbook());
    muster_needs::require!(sandbox::available());
    let s = Sandbox::start();
    let spec = live(&s);
    let play = s.dir.path().join("out/play.yml");
    s.write(&play, render::ansible(&Plan::provision(&spec).unwrap(), &spec.shim).unwrap().as_bytes());
    let before = s.ok("cat /etc/passwd; find /etc/ssh /etc/sudoers.d /var/lib/muster 2>/dev/null; true");
    // No systemd here: the two handlers that ask it are left out, and sshd is told by hand.
    s.ok(&format!("sed -i '/name: Find the name/,$d' {}", play.display()));
    let run = || {
        s.sh(&format!(
            "export HOME=/root LC_ALL=C.UTF-8; {tool} -c local -i localhost, -e muster_shim=/usr/bin/id -e ansible_python_interpreter=/usr/bin/python3 {}",
            play.display()
        ))
    };
    let out = run();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    s.reload_sshd();
    assert!(block_on(muster_provision::Prover::pool_login(&logins(&s))).is_ok());
    let again = run();
    assert!(
        String::from_utf8_lossy(&again.stdout).contains("changed=0 "),
        "{}",
        String::from_utf8_lossy(&again.stdout)
    );
    let shell = Shell::direct(&s);
    let same = block_on(run::provision(&shell, &logins(&s), &spec, &Options::new(word()), &mut run::silent))
        .unwrap();
    assert!(matches!(same, Outcome::Unchanged { .. }), "{same:?}");
    block_on(run::unprovision(&shell, &logins(&s), &Options::new(word()), &mut run::silent)).unwrap();
    assert_eq!(
        before,
        s.ok("cat /etc/passwd; find /etc/ssh /etc/sudoers.d /var/lib/muster 2>/dev/null; true")
    );
    // On a host that is in use the playbook refuses.
    s.ok("mkdir -p /etc/muster; touch /etc/muster/shim.toml");
    let out = run();
    assert!(
        !out.status.success()
            && String::from_utf8_lossy(&out.stdout).contains("taken already: /etc/muster/shim.toml")
    );
}
