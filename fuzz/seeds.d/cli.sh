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

example() { sed -n '/^```yaml$/,/^```$/p' "$fuzz/../docs/$1" | sed '/^```/d'; }
example inventory.md >inventory.yaml
put inventory good-docs <inventory.yaml
printf 'muster-inventory: 1\nhosts: {}\n' | put inventory good-none
printf 'muster-inventory: 1\nhosts:\n  a: {ssh: {address: "::1", user: m, host-key: "%s"}}\n' "$(cat ed25519.pub)" |
  put inventory good-flow
sed 's/port: 2222/port: 22222222/' inventory.yaml | put inventory bad-port
sed 's/via: \[gate, inner\]/via: [gate, gone]/' inventory.yaml | put inventory bad-via
sed 's/  edge-2:/  edge-1:/' inventory.yaml | put inventory bad-twice
sed 's/host-key/host_key/' inventory.yaml | put inventory bad-word
printf 'hosts: []\n' | put inventory bad-list

put yaml good-inventory <inventory.yaml
put yaml good-empty </dev/null
printf 'a: 1.10\nb:\n  - on\n  - "null"\n  - |\n    text\n      more\n  - >-\n    folded\n    text\nc: ~\n"d\\u0007": [x, {y: z}]\n' | put yaml good-forms
printf 'a: &x 1\nb: *x\n' | put yaml bad-alias
printf 'a: 1\na: 2\n' | put yaml bad-twice
printf 'a: 1\n---\nb: 2\n' | put yaml bad-documents
printf 'a:\n  <<: {}\n' | put yaml bad-merge
printf 'a: [1,\n' | put yaml bad-open
for _ in $(seq 40); do printf '['; done | put yaml bad-deep

for profile in "$fuzz"/../profiles/*/; do
  name=$(basename "$profile")
  put manifest "good-$name" <"$profile/profile.yaml"
  for script in "$profile"/*.sh; do
    put script "good-$name-$(basename "$script" .sh)" <"$script"
  done
done
printf 'profile: x\ntargets: ["*"]\nvalues: {MUSTER_A: {base64: AAEC}}\n' | put manifest bad-nul
printf 'profile: ../x\ntargets: ["*"]\n' | put manifest bad-name
printf 'profile: x\nparams: {MUSTER_A: {pattern: "a)|(b"}}\n' | put manifest bad-pattern-flow
printf 'profile: x\nepoch: 0\ntargets: [pool=Edge]\nvalidity: 30\n' | put manifest bad-values

cat <<'S' | put script good-many
#!/bin/bash
set -euo pipefail
name=${MUSTER_NODE_NAME:?} list=("$MUSTER_A" $MUSTER_B)
cat <<EOF >/etc/x
$MUSTER_A $(id -u) ${KPSSH_VAR_x:-none}
EOF
cat <<-'EOF'
	$NOT_READ
	EOF
case $MUSTER_C in a|b) eval "$MUSTER_D" ;; *) exit 1 ;; esac
for i in $((MUSTER_E + 1)) `date`; do [[ -v MUSTER_F ]] && sleep 1 & done
curl -fsS https://example.org/x | sh
sudo -E env A=1 bash -c "$MUSTER_G" <<<"$KPSSH_SECRET_t"
f() { local x=$1; diff <(echo a) <(echo b) || true; }
S
printf 'echo "open' | put script bad-open-quote
printf 'cat <<EOF\nnever closed' | put script bad-open-here-document
printf 'echo $(echo $(' | put script bad-open-substitution
printf 'a\000b\r\n{{ .Template }}\n' | put script good-bytes
put script good-empty </dev/null

ssh-keygen -l -f p256.pub | cut -d' ' -f2 | put operator_host_key good-fingerprint
for key in $kinds; do
  put operator_host_key "good-$key" <"$key.pub"
done
echo "edge-1,10.0.0.5 $(cat p384.pub)" | put operator_host_key good-known-hosts
echo "@revoked edge-1 $(cat p384.pub)" | put operator_host_key bad-marker
echo 'SHA256:abc' | put operator_host_key bad-short
{
  echo '# Host keys'
  echo "edge-1 10.0.0.11:22 $(cut -d' ' -f1,2 ed25519.pub)"
  echo "edge-2 [2001:db8::12]:2222 $(ssh-keygen -l -f rsa.pub | cut -d' ' -f2)"
} | put pins good
put pins good-empty </dev/null
echo 'edge-1 10.0.0.11:22' | put pins bad-short

answer() { printf '%b' "$1"; printf '%s\n' "${@:2}"; }
answer '\0' | put shim_answer good-ok
answer '\6' 'muster-shim: refused [epoch-floor]: below the floor: epoch 3, floor 7' | put shim_answer good-refused
answer '\2' 'noise' 'kpssh-shim: refused [key-unknown]: signature rejected: key SHA256:x' | put shim_answer good-kpssh
answer '\12' 'muster-shim: ended [script-failed]: exited 3' | put shim_answer good-failed
answer '\7' 'muster-shim: refused [busy]: another run holds this host' | put shim_answer good-busy
answer '\177' 'bash: muster-shim: not found' | put shim_answer bad-not-found
answer '\1' 'sudo: a password is required' | put shim_answer bad-sudo
answer '\6' 'muster-shim: refused [script-digest]: of another exit code' | put shim_answer bad-other-code

# --- what `muster pki revoke` keeps
printf '{"number": 2, "revoked": {"4102": 1798761600, "41a0ff": 0}}' | put pki_revoked good-two
printf '{"number": 0, "revoked": {}}' | put pki_revoked good-none
printf '{"number": 1, "revoked": {"zz": 1}}' | put pki_revoked bad-serial
printf '{"number": 1, "rewoked": {}}' | put pki_revoked bad-key
printf '{"number": -1, "revoked": {}}' | put pki_revoked bad-number
