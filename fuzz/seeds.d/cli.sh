# Seeds of what the command line reads. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154
put inventory good-small <<'Y'
hosts:
  edge-1:
    ssh: {address: 10.0.0.1, via: gate}
    pools: [edge]
    labels: {site: berlin}
    vars: {MUSTER_NODE_NAME: {from: name}, MUSTER_T: {secret-file: t}}
bastions:
  gate: {address: "[2001:db8::1]", port: 2222, user: jump, host-key: "SHA256:qkO0wRxKJYiBFsLVBGMpM3wcSBy5gOEEzWYA0Xq2Gpg"}
defaults:
  ssh: {user: muster, identities: [k, agent, {agent: x}, {key: a, certificate: b}]}
  admin: {user: root}
trust: {allowed-signers: a, signers-needed: 2}
signing: {agent: "SHA256:x"}
Y
printf 'hosts: {}\n' | put inventory good-empty
printf 'hosts:\n  a: {ssh: {adress: b}}\n' | put inventory bad-key
printf 'hosts: &a\n  b: *a\n' | put inventory bad-alias
printf 'hosts: {}\n---\nhosts: {}\n' | put inventory bad-documents
printf 'hosts: [\n' | put inventory bad-syntax
put manifest good-whole <<'Y'
profile: tls-bootstrap
epoch: 7
targets: [pool=edge, host=a.b]
not-before: 2026-11-29T00:00:00Z
validity: 12h
values:
  MUSTER_CLUSTER_ENDPOINT: https://10.0.0.5:6443
  KPSSH_X: {value: "1", phases: [join]}
params:
  MUSTER_NODE_NAME: "[a-z0-9-]+"
  MUSTER_L: {pattern: 'a\.|b', optional: true, phases: join}
phases:
  join: {deadline: 15m, on-disconnect: finish}
Y
printf 'profile: a\ntargets: "*"\n' | put manifest good-least
printf 'profile: a\ntargets: ["*", pool=b]\n' | put manifest bad-star
printf 'profile: a\ntargets: "*"\nparams: {MUSTER_A: "a)|(b"}\n' | put manifest bad-pattern
put script good-constructs <<'S'
#!/usr/bin/env bash
set -euo pipefail
x=$(case $MUSTER_A in a) echo 1;; (b) echo "2)" ;; esac)
cat <<EOF <<-'X'
${KPSSH_B:-$(date)} `echo \`id\``
EOF
	$C
	X
for ((i = 0; i < 3; i++)); do [[ $x -eq MUSTER_N ]] && eval "$x" || ((a; b) | c); done
a=(1 "$2" $'3\'') ; diff <(sort "${a[@]}") - >"$0" 2>&1 &
f() { trap "rm $MUSTER_D" EXIT; curl x | sudo -E bash -s -- "${#MUSTER_A}"; }
S
printf 'echo $((MUSTER_N + ${#x[MUSTER_I]}))\n' | put script good-arithmetic
printf "echo 'open\n" | put script bad-quote
printf 'a )\n' | put script bad-paren
printf 'cat <<E\nx\n' | put script bad-heredoc

