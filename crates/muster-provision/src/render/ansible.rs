//! `--as ansible`: a playbook of builtin modules only.
//!
//! It writes the same files with the same owners and modes, lets `visudo` and `sshd` judge each
//! before it is put in place, and leaves the same record on the host, so that
//! `muster host unprovision` can undo it. It refuses to begin on a host where any of its paths is
//! taken and no such record is there: what it would overwrite could not be given back.

use super::{RenderError, yaml_block};
use crate::files;
use crate::plan::{Action, Folder, Plan, Step, Tool};
use crate::spec::ShimBinary;
use core::fmt::Write as _;

/// The playbook. The shim is copied from the controller: variable `muster_shim` is its path there,
/// and its digest is checked first.
pub fn ansible(plan: &Plan, shim: &ShimBinary) -> Result<String, RenderError> {
    let mut out = format!(
        "# Makes machines Muster pool hosts: login {account}, plan {digest}.\n\
         #   ansible-playbook -i INVENTORY THIS -e muster_shim=/path/to/muster-shim\n\
         # Undo: muster host unprovision. It holds the name and policy of one host and refuses to run on more: render one per host.\n\
         - name: Muster pool host\n\
         \x20 hosts: \"{{{{ muster_hosts | default('all') }}}}\"\n\
         \x20 become: true\n\
         \x20 gather_facts: false\n\
         \x20 vars:\n\
         \x20   muster_shim: muster-shim\n\
         \x20   muster_shim_sha256: {sha}\n\
         \x20 tasks:\n",
        account = plan.account(),
        digest = plan.digest(),
        sha = shim.sha256(),
    );
    out.push_str(GATE);
    let taken: Vec<&str> = plan.steps().iter().filter_map(|s| taken_path(s.action())).collect();
    out.push_str(
        &FRESH.replace("PATHS", &serde_free_list(&taken)).replace("ACCOUNT", plan.account().as_str()),
    );
    record(&mut out, plan);
    for s in plan.steps() {
        task(&mut out, s)?;
    }
    out.push_str(&PROOF.replace("ACCOUNT", plan.account().as_str()));
    manifest(&mut out, plan);
    out.push_str(HANDLERS);
    Ok(out)
}

const GATE: &str = r#"
    - name: This playbook is for one host
      ansible.builtin.assert:
        that:
          - ansible_play_hosts_all | length == 1
        fail_msg: it holds the name of one host; say which machine that is with -e muster_hosts=NAME
      run_once: true

    - name: Look at the shim on the controller
      ansible.builtin.stat:
        path: "{{ muster_shim }}"
        checksum_algorithm: sha256
      register: muster_shim_file
      delegate_to: localhost
      become: false
      run_once: true

    - name: The shim is the one that this playbook was made for
      ansible.builtin.assert:
        that:
          - muster_shim_file.stat.exists
          - muster_shim_file.stat.checksum == muster_shim_sha256
        fail_msg: "{{ muster_shim }} is not there or has another SHA-256 than {{ muster_shim_sha256 }}"
      run_once: true

    - name: Look for the record of an earlier provisioning
      ansible.builtin.stat:
        path: /var/lib/muster/provision/baseline/index
      register: muster_record
"#;

const FRESH: &str = r#"
    - name: Look whether a path is taken
      ansible.builtin.stat:
        path: "{{ item }}"
      loop: PATHS
      register: muster_taken
      when: not muster_record.stat.exists

    - name: Look whether the login is taken
      ansible.builtin.getent:
        database: passwd
        key: ACCOUNT
        fail_key: false
      when: not muster_record.stat.exists

    - name: Nothing would be overwritten that could not be given back
      ansible.builtin.assert:
        that:
          - muster_taken.results | selectattr('stat.exists') | list | length == 0
          - ansible_facts.getent_passwd['ACCOUNT'] is none
        fail_msg: >-
          taken already: {{ muster_taken.results | selectattr('stat.exists') | map(attribute='item') | join(' ') }};
          use `muster host provision`, which keeps what was there
      when: not muster_record.stat.exists
"#;

const PROOF: &str = r#"
    - name: Ask sshd what it makes of the login
      ansible.builtin.command:
        argv: [/usr/sbin/sshd, -T, -C, "user=ACCOUNT,host=localhost,addr=127.0.0.1"]
      register: muster_sshd
      changed_when: false

    - name: Ask sudo what it lets the login do
      ansible.builtin.command:
        argv: [sudo, -n, -l, -U, ACCOUNT]
      register: muster_sudo
      changed_when: false

    - name: The login is pinned to the shim
      ansible.builtin.assert:
        that:
          - "'forcecommand /usr/bin/muster-shim' in muster_sshd.stdout_lines"
          - "'authorizedkeysfile /etc/muster/authorized_keys.d/%u' in muster_sshd.stdout_lines"
          - "'NOPASSWD: /usr/bin/muster-shim \"\"' in muster_sudo.stdout"
        fail_msg: sshd or sudo does not read its drop-in folder; use `muster host provision`, which mends that
      # With --check nothing was asked.
      when: not ansible_check_mode
"#;

const HANDLERS: &str = r#"
  handlers:
    - name: Sshd judges the whole configuration
      ansible.builtin.command:
        argv: [/usr/sbin/sshd, -t]
      changed_when: false
      listen: muster sshd

    - name: Find the name of the sshd unit
      ansible.builtin.service_facts:
      listen: muster sshd

    - name: Reload sshd
      ansible.builtin.service:
        name: "{{ 'ssh' if 'ssh.service' in ansible_facts.services else 'sshd' }}"
        state: reloaded
      listen: muster sshd
"#;

/// A path that must be free on a host without a record; shared folders may be there.
fn taken_path(action: &Action) -> Option<&str> {
    match action {
        Action::File { path, .. } | Action::Once { path, .. } | Action::Adaptive { path, .. } => Some(path),
        Action::Dir { path, folder: Folder::Own, .. } => Some(path),
        Action::Dir { .. } | Action::Account { .. } | Action::Pin { .. } => None,
    }
}

/// A YAML flow list of plain words.
fn serde_free_list(words: &[&str]) -> String {
    format!("[{}]", words.iter().map(|w| format!("\"{w}\"")).collect::<Vec<_>>().join(", "))
}

/// The record that unprovision goes back to: everything of ours was absent.
fn record(out: &mut String, plan: &Plan) {
    let mut index = String::new();
    let mut n = 0;
    let mut line = |kind: &str, path: &str| {
        n += 1;
        let _ = writeln!(index, "{n} {kind} 0 0 0 {path}");
    };
    for s in plan.steps() {
        match s.action() {
            Action::Dir { path, folder: Folder::Own, .. } => line("absent-tree", path),
            // Shared folders may have been there; they are removed only when they are empty.
            Action::Dir { path, .. } if !path.starts_with("/etc/ssh") => line("absent-dir", path),
            Action::Dir { .. } | Action::Pin { .. } => {}
            Action::File { path, .. } | Action::Once { path, .. } | Action::Adaptive { path, .. } => {
                line("absent", path)
            }
            Action::Account { name } => line("account-made", name.as_str()),
        }
    }
    for (name, path) in [
        ("Make the state folder", "/var/lib/muster"),
        ("Make the folder of the record", "/var/lib/muster/provision"),
        ("Make the folder of the baseline", "/var/lib/muster/provision/baseline"),
    ] {
        let mode = if path == "/var/lib/muster" { "0755" } else { "0700" };
        directory(out, name, path, mode);
    }
    file(
        out,
        "Record that nothing was there before",
        "/var/lib/muster/provision/baseline/index",
        "0600",
        &index,
        "        force: false\n",
        "",
    );
}

fn manifest(out: &mut String, plan: &Plan) {
    file(
        out,
        "Record which plan this is",
        "/var/lib/muster/provision/manifest",
        "0600",
        &plan.manifest("ansible"),
        "",
        "",
    );
}

fn directory(out: &mut String, name: &str, path: &str, mode: &str) {
    let _ = write!(
        out,
        "\n    - name: {name}\n      ansible.builtin.file:\n        path: {path}\n        state: directory\n        owner: root\n        group: root\n        mode: \"{mode}\"\n"
    );
}

fn file(out: &mut String, name: &str, path: &str, mode: &str, text: &str, more: &str, after: &str) {
    // !unsafe: the text is data, whatever braces it holds.
    let _ = write!(
        out,
        "\n    - name: {name}\n      ansible.builtin.copy:\n        dest: {path}\n        owner: root\n        group: root\n        mode: \"{mode}\"\n{more}        content: !unsafe {}{after}",
        yaml_block(text, 10)
    );
}

fn capital(text: &str) -> String {
    // A colon followed by a blank would end a plain YAML scalar.
    let text = text.replace(": ", " - ");
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn task(out: &mut String, step: &Step) -> Result<(), RenderError> {
    let name = capital(step.what());
    match step.action() {
        Action::Dir { path, mode, .. } => directory(out, &name, path, &format!("{mode:04o}")),
        Action::File { path, mode, .. } if path == files::SHIM || path == files::KPSSH_SHIM => {
            let _ = write!(
                out,
                "\n    - name: {name}\n      ansible.builtin.copy:\n        src: \"{{{{ muster_shim }}}}\"\n        dest: {path}\n        owner: root\n        group: root\n        mode: \"{mode:04o}\"\n"
            );
        }
        Action::File { path, mode, content } => {
            file(out, &name, path, &format!("{mode:04o}"), text_of(content)?, "", "");
        }
        Action::Once { path, mode, content } => {
            file(out, &name, path, &format!("{mode:04o}"), text_of(content)?, "        force: false\n", "");
        }
        Action::Adaptive { path, mode, tool, file: lines } => {
            let (validate, after) = match tool {
                Tool::Visudo => ("/usr/sbin/visudo -cf %s", ""),
                Tool::Sshd => ("/usr/sbin/sshd -t -f %s", "      notify: muster sshd\n"),
            };
            let more = format!("        validate: {validate}\n");
            file(out, &name, path, &format!("{mode:04o}"), &lines.full(), &more, after);
        }
        Action::Account { name: account } => {
            let _ = write!(
                out,
                "\n    - name: {name}\n      ansible.builtin.user:\n        name: {account}\n        system: true\n        password: \"*\"\n        shell: /bin/sh\n        home: {}\n        create_home: false\n        comment: Muster pool login\n",
                files::HOME
            );
        }
        Action::Pin { .. } => {}
    }
    Ok(())
}

fn text_of(content: &[u8]) -> Result<&str, RenderError> {
    let why =
        "a playbook holds text only: give the revocation list as public keys or fingerprints, one a line";
    core::str::from_utf8(content)
        .ok()
        .filter(|t| !t.chars().any(crate::text::is_hidden))
        .ok_or_else(|| RenderError { what: "file content", why: why.into() })
}
