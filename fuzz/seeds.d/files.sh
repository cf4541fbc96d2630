# Seeds for files and texts of hosts and operators that stand alone: logs, keys with their limits, an inventory that is
# changed, words behind options. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154

# --- a user's certificate
for key in ed25519 p256 rsa; do
  cp "$key.pub" own.pub
  ssh-keygen -q -s ca -I "user $key" -n muster,root -V always:forever own.pub
  put user_certificate "good-$key" <own-cert.pub
done
ssh-keygen -q -s ca -I limited -n muster -O clear -O source-address=10.0.0.0/8 -O force-command=/bin/true -V -1d:+1d own.pub
put user_certificate good-limited <own-cert.pub
ssh-keygen -q -s ca -h -I host -n host.example.net -V always:forever own.pub
put user_certificate bad-host <own-cert.pub
put user_certificate bad-plain <ed25519.pub
head -c 200 own-cert.pub | put user_certificate bad-short
put user_certificate bad-empty </dev/null

# --- the shim's log: a run, one that did not end, one of an earlier boot, and a line that a full disk cut
log() { # RUN EVENT SECOND BOOT MORE
  printf '{"event":"%s","run":"%s","time":"2026-11-29T00:00:%02dZ","boot":"%s","name":"muster-shim","envelope":2,' "$2" "$(printf "%032d" "$1")" "$3" "$4"
  printf '"intent_sha256":"%s","script_sha256":null,"profile":"tls-bootstrap","epoch":7,"phase":"join","params":["MUSTER_A"]%s}\n' \
    "$(printf intent | sha256sum | cut -c1-64)" "${5:-}"
}
{ log 1 start 1 a; log 1 end 2 a ',"verdict":"failed","reason":"script-failed","exit_code":3,"signal":null'; } | put shim_run_log good-run
log 4 start 5 b >whole
{ log 1 start 1 a; log 2 start 2 b; log 3 end 3 b ',"verdict":"ok"'; head -c 90 whole; } | put shim_run_log good-cut
{ log 5 end 3 b ',"verdict":"ok"'; log 5 start 2 b; echo '{"event":"refused","reason":"busy"}'; } | put shim_run_log good-order
log 1 start 1 a | tr 01 xy | put shim_run_log bad-id
log 1 end 1 a ',"verdict":"O K"' | put shim_run_log bad-verdict
put shim_run_log bad-empty </dev/null

{ cat /etc/os-release; printf '%%%%\n'; grep cgroup /proc/self/mountinfo; } >system
head -c 2000 system | put shim_system_files good-this-machine
printf 'ID="debian"\nVERSION_ID='\''12'\''\nPRETTY_NAME="a \\"b\\" \\\\ \tc"\n%%%%\n31 25 0:27 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n12 13\n' |
  put shim_system_files good-both
printf 'IDX=1\n%%%%\n31 25 0:27 / /sys rw - sysfs sysfs rw\n' | put shim_system_files bad-neither

# --- what the doctor and a rotation of keys read on a host
limit() { printf '[keys."%s"]\nphases = [%s]\n' "$(ssh-keygen -l -f "$1" | cut -d' ' -f2)" "$2"; }
policy() { printf 'host = "edge-1"\npools = ["edge"]\n[profiles.tls-bootstrap]\nmin-epoch = 7\n'; }
login() { printf 'restrict,command="/usr/bin/muster-shim"%s %s\n' "${2:-}" "$(cat "$1")"; }
parts() { # FILE..., %% between
  local first=1 part
  for part in "$@"; do
    [ $first = 1 ] || printf '%%%%\n'
    first=0
    cat "$part"
  done
}
policy >plain.toml
{ policy; limit ed25519.pub '"join", "leave"'; limit p256.pub '"floor"'; } >limited.toml
{ sed 's/^host/envelope-1 = true\nsigners-needed = 2\nrevoked-signers = "optional"\nhost/' plain.toml; printf '[profiles.open]\n'; } >open.toml
{ echo '# Written by muster.'; login ed25519.pub; login p256.pub ',from="10.0.0.0/8"'; } >logins
echo "muster namespaces=\"muster-intent\" $(cat ed25519.pub)" >signers
echo "# nobody" >nobody
printf 'muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: tls-bootstrap 7\n' >floors
parts plain.toml signers nobody floors logins | put doctor_files good-plain
parts limited.toml signers nobody floors logins | put doctor_files good-limited
parts open.toml signers nobody floors logins | put doctor_files good-open
printf 'host = "edge-1"\nhost = "edge-2"\n' >twice.toml
parts twice.toml signers nobody floors logins | put doctor_files bad-twice
printf 'signers-needed = "two"\n' >words.toml
parts words.toml signers nobody floors logins | put doctor_files bad-type
parts logins plain.toml | put rotate_files good-plain
parts logins limited.toml | put rotate_files good-limited
{ login ed25519.pub ',from="10.0.0.1"'; } >one
parts one plain.toml | put rotate_files good-one
cat ed25519.pub >foreign
parts foreign plain.toml | put rotate_files bad-foreign
{ policy; limit p256.pub '"floor"'; } >other.toml
parts logins other.toml | put rotate_files bad-unlisted
parts nobody plain.toml | put rotate_files bad-nobody

# --- an inventory and a host that is added to it
example() { sed -n '/^```yaml$/,/^```$/p' "$fuzz/../docs/$1" | sed '/^```/d'; }
{ echo '10.0.0.9|muster|gate|b17|root'; example inventory.md; } | put inventory_edit good-docs
{ echo 'edge-9.example.net|odd_user||on'; printf 'hosts: {}\n# the end\n'; } | put inventory_edit good-empty
{ echo '::1'; printf 'defaults: {ssh: {user: m}}\n'; } | put inventory_edit good-none
{ echo '10.0.0.9'; printf 'hosts:\n  a: {ssh: {address: a}}\n\n# bastions\nbastions:\n  gate: {address: b}\n'; } | put inventory_edit good-middle
{ printf '10.0.0.9\nhosts:\r\n  a: {ssh: {address: a}}\r\ntrust: {}\r\n'; } | put inventory_edit good-crlf
{ echo '10.0.0.9'; printf 'hosts: {a: {ssh: {address: a}}}\n'; } | put inventory_edit bad-flow
{ echo '-oProxyCommand=x'; printf 'hosts: {}\n'; } | put inventory_edit bad-address
{ echo '10.0.0.9||gone'; printf 'hosts: {}\n'; } | put inventory_edit bad-via

# --- words
call() { printf '%s\0' "$@" | head -c -1; }
call -Y sign -f key.pub -n git -U /tmp/x | put keygen_call good-git-sign
call -Y verify -f signers -I a@example.net -n git -s x.sig -Overify-time=20260101000000Z | put keygen_call good-git-verify
call -Yfind-principals -vvf signers -ssig -O print-pubkey -Ohashalg=sha256 | put keygen_call good-joined
call -qYsign -fkey -nns a b -- -c | put keygen_call good-operands
call -t ed25519 -f x | put keygen_call bad-keygen
call -Y sign -N x -f k | put keygen_call bad-letter
call -Y | put keygen_call bad-short
printf 'duration 1h30m' | put option_values good-duration
printf 'selector site=berlin,!old,pool==edge,name!=a' | put option_values good-selector
printf 'epoch tls-bootstrap=7' | put option_values good-epoch
printf 'target pool=edge' | put option_values good-target
printf 'secret canary-canary\r\n' | put option_values good-secret
printf 'duration 90' | put option_values bad-duration
printf 'selector a=b=c d' | put option_values bad-selector
printf 'epoch a=0' | put option_values bad-epoch
printf 'secret short\n' | put option_values bad-secret
printf 'canary-canary\n\3\5\nthe canary-canary, %s, and %s\r\nnext\033[0m\n' "$(printf canary-canary | b64)" "$(printf canary-canary | hex)" |
  put shown_output good-forms
printf 'it'\''s "a" secret\n\1\nit'\''\\'\'''\''s "a" secret\nit'\''s \\"a\\" secret' | put shown_output good-quotes
printf 'canary-canary\n\3\ncanary-canar\ny' | put shown_output bad-half
printf 'short\n\3\nshort' | put shown_output bad-short

# --- a node's document
printf 'muster:\n  api:\n    enabled: true\n' | put document good-two-lines
ca_pem() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" -keyout ca.key -out ca.pem 2>/dev/null && cat ca.pem; }
{
  printf 'role: controlplane\ncluster:\n  endpoint: api.example.net:6443\n  subjectAltNames: [10.0.0.5, "::1"]\n'
  printf 'join:\n  tokenFrom: {url: "https://boot.example.net/token", authFile: /etc/x, waitFor: 5m}\n  caCertHashes: sha256:%064d\n' 7
  printf 'network: {podCIDR: [10.244.0.0/16, "fd00:10::/64"], serviceCIDR: 10.96.0.0/12}\n'
  printf 'node: {name: edge-1, labels: {example.net/rack: b17}, taints: [{key: a, value: b, effect: NoSchedule}]}\n'
  printf 'api:\n  listen: "[::]:7443"\n  operatorCA: |\n'
  ca_pem operator | sed 's/^/    /'
} | put document good-whole
printf '#cloud-config\nusers: [&a {name: x}, *a]\nmuster: {role: init}\nruncmd: [[ls]]\n' | put document good-cloud
printf 'muster:\n  role: worker\n  cluster: {endpoint: "[2001:db8::1]"}\n  join: {token: abcdef.0123456789abcdef, caCertHashes: ["sha256:%064d"]}\n' 1 |
  put document good-worker
printf '#cloud-config\nusers: []\n' | put document bad-cloud-without
printf 'role: inti\n' | put document bad-role
printf 'muster: {role: init}\nmuster: {role: worker}\n' | put document bad-twice
printf 'role: worker\n' | put document bad-missing
printf 'role: init\nnetwork: {podCIDR: 10.0.0.0/8, serviceCIDR: 10.96.0.0/12}\n' | put document bad-overlap
printf 'muster: &a {role: init}\n' | put document bad-anchor
put document bad-empty </dev/null
printf 'network 10.244.0.0/16' | put document_values good-v4
printf 'network 2001:DB8::/32' | put document_values good-v6
printf 'url https://boot.example.net:8443/a?b=c' | put document_values good-url
printf 'url https://[fd00::1]?a' | put document_values good-url-v6
printf 'host [2001:db8::1]:6443' | put document_values good-host
printf 'label example.net/rack' | put document_values good-label
printf 'kernel BOOT_IMAGE=/vmlinuz ro "muster.config=/a b" quiet\n' | put document_values good-kernel
printf 'network 10.244.0.1/16' | put document_values bad-inside
printf 'url https://user@h/x' | put document_values bad-name
printf 'host a:0' | put document_values bad-port
printf 'kernel muster.config=http://h/x' | put document_values bad-http
