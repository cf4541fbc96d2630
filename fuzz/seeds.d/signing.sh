# Seeds for what muster-signing reads. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154

# --- certificates
certify() { ssh-keygen -q -s "$1" -I "$2" "${@:4}" "$3.pub"; }
n=0
for key in $kinds; do
  n=$((n + 1))
  certify ca "$key by ca" "$key" -z "$n" -n muster -V 20200101000000Z:20380101000000Z
  blob "$key-cert.pub" | put certificate "good-$key"
  cut -d' ' -f1,2 "$key-cert.pub" | put public_key_line "bad-cert-$key"
done
other_certificate() { # NAME, then options of ssh-keygen
  cp ed25519.pub variant.pub
  ssh-keygen -q -s ca384 -I "$1" "${@:2}" variant.pub
  blob variant-cert.pub | put certificate "good-$1"
}
other_certificate host -h -n host.example.net -V always:forever
other_certificate many-principals -n "$(seq -s, 1 40)" -z 18446744073709551615
other_certificate nobody -V 20100101000000Z:20110101000000Z
other_certificate critical -n muster -O force-command=/bin/true -O source-address=192.0.2.0/24 -O verify-required
other_certificate bare -n muster -O clear
blob ed25519-cert.pub | head -c 200 | put certificate bad-short
blob ed25519.pub | put certificate bad-plain
{ blob ed25519-cert.pub; printf x; } | put certificate bad-tail

# --- signatures
sign() { ssh-keygen -q -Y sign -n "$1" "${@:3}" -f "$2" <message; }
for key in $kinds; do
  sign muster-intent "$key" >"$key.sig"
  put sshsig "good-$key" <"$key.sig"
  sign muster-intent "$key-cert.pub" | put sshsig "good-cert-$key"
done
sign kpssh ed25519 -O hashalg=sha256 | put sshsig good-sha256
sign kpssh small | put sshsig good-small-rsa
put sshsig bad-empty </dev/null
head -n 3 ed25519.sig | put sshsig bad-no-end
cat ed25519.sig ed25519.sig | put sshsig bad-two
sed 's/^U1NIU0lH/U1NIU0lI/' ed25519.sig | put sshsig bad-magic
printf -- '-----BEGIN SSH SIGNATURE-----\n\n-----END SSH SIGNATURE-----\n' | put sshsig bad-hollow
sed 's/$/\r/' ed25519.sig | put sshsig bad-crlf
# A security key in software: openssl signs what PROTOCOL.u2f says that the authenticator signs.
openssl genpkey -algorithm ed25519 -out sk.pem 2>/dev/null
sk_public=$(openssl pkey -in sk.pem -pubout -outform DER | tail -c 32 | hex)
sk_blob="$(text sk-ssh-ed25519@openssh.com)00000020$sk_public$(text ssh:)"
sk_sign() { # FLAGS (hex)
  local signed sig
  signed="$(printf SSHSIG | hex)$(text muster-intent)$(text '')$(text sha512)00000040$(sha512sum <message | cut -c1-128)"
  { printf 'ssh:' | sha256sum | cut -c1-64 | tr -d '\n'; printf '%s00000007' "$1"; printf '%s' "$signed" | unhex | sha256sum | cut -c1-64; } |
    tr -d '\n' | unhex >sk.tbs
  sig=$(openssl pkeyutl -sign -rawin -inkey sk.pem -in sk.tbs | hex)
  printf '%s' "$(printf SSHSIG | hex)00000001$(unhex <<<"$sk_blob" | str)$(text muster-intent)$(text '')$(text sha512)$(
    printf '%s%s%s' "$(text sk-ssh-ed25519@openssh.com)" "00000040$sig" "${1}00000007" | unhex | str
  )" | unhex
}
armour() { echo '-----BEGIN SSH SIGNATURE-----'; base64 -w70; echo '-----END SSH SIGNATURE-----'; }
sk_sign 01 | armour | put sshsig good-sk
sk_sign 05 | armour | put sshsig good-sk-verified
sk_sign 00 | armour | put sshsig good-sk-not-touched
for f in "$corpus"/sshsig/seed-good-*; do
  sed '1d;$d' "$f" | tr -d '\n' | un64 | put sshsig_blob "${f##*/seed-}"
done
head -c 100 "$corpus/sshsig_blob/seed-good-p256" | put sshsig_blob bad-short

# --- public and private keys
for key in $kinds small; do
  blob "$key.pub" | put public_key "good-$key"
  put public_key_line "good-$key" <"$key.pub"
done
unhex <<<"$sk_blob" | put public_key good-sk
printf 'sk-ssh-ed25519@openssh.com %s\n' "$(unhex <<<"$sk_blob" | b64)" >sk.pub
cut -d' ' -f1,2 sk.pub | tr -d '\n' | put public_key_line good-sk
blob ed25519-cert.pub | put public_key bad-certificate
printf '%s%s' "$(text ssh-dss)" 0000 | unhex | put public_key bad-dss
printf '%s%s%s%s' "$(text ecdsa-sha2-nistp256)" "$(text nistp384)" 00000041 04 | unhex | put public_key bad-curve
printf 'ssh-rsa %s x\n' "$(blob ed25519.pub | b64)" | put public_key_line bad-other-type
for key in ed25519 p256 p384 p521; do
  put private_key "good-$key" <"$key"
done
put private_key bad-rsa <small
ssh-keygen -q -t ed25519 -N passphrase -Z aes256-ctr -a 1 -C locked -f locked
put private_key bad-locked <locked
head -n 4 p256 | put private_key bad-short

# --- trust files
{
  echo '# a comment'
  for key in $kinds; do
    echo "muster namespaces=\"muster-intent\" $(cat "$key.pub")"
  done
  echo "kpssh namespaces=\"kpssh\" $(cat sk.pub)"
} | put allowed_signers good-plain
{
  echo "*@example.net,!mallory@example.net cert-authority,namespaces=\"file,git*\" $(cat ca.pub)"
  echo "\"quoted name,muster\" valid-after=\"20200101Z\",valid-before=\"203801010000Z\" $(cat p384.pub)"
  echo "muster valid-after=\"20200101133059Z\" $(cat ed25519.pub)"
  printf 'muster\tCERT-AUTHORITY,Namespaces="a\\"b" %s\r\n' "$(cat ca384.pub)"
} | put allowed_signers good-options
echo "muster valid-after=\"20200101\" $(cat ed25519.pub)" | put allowed_signers bad-local-time
echo "muster $(cat ed25519-cert.pub)" | put allowed_signers bad-certificate
echo "muster no-touch-required $(cat ed25519.pub)" | put allowed_signers bad-option
echo "muster namespaces=\"a\",namespaces=\"b\" $(cat ed25519.pub)" | put allowed_signers bad-twice
echo "muster $(cut -c1-60 ed25519.pub)" | put allowed_signers bad-key
put allowed_signers good-empty </dev/null
{
  echo '# lost in May'
  cat ed25519.pub rsa.pub
  ssh-keygen -l -f p256.pub | cut -d' ' -f2
  cat p384-cert.pub
} | put revoked_signers good
put revoked_signers good-empty </dev/null
echo 'SHA256:tooshort' | put revoked_signers bad-fingerprint
echo 'MD5:00:11' | put revoked_signers bad-md5
echo ssh-ed25519 | put revoked_signers bad-one-word
krl() { # NAME, then options and files of ssh-keygen -k
  ssh-keygen -q -k -f krl "${@:2}"
  put krl "$1" <krl
  rm krl
}
krl good-keys ed25519.pub p256.pub
ssh-keygen -l -f p384.pub | sed 's/^[0-9]* SHA256:\([^ ]*\) .*/hash: SHA256:\1/' >hashes
krl good-hashes hashes
printf 'serial: 1\nserial: 5-9\nserial: 1000\nid: p384 by ca\nid: rsa by ca\n' >spec
krl good-ca -s ca.pub -z 7 spec
{ for i in $(seq 1 2 200); do echo "serial: $i"; done; echo 'serial: 9000000000000000000-9000000000000000099'; } >spec
krl good-bitmap -s ca.pub spec
krl good-certificates ed25519-cert.pub p256-cert.pub
: >spec
krl good-empty spec
sed 's/^/sha1: /' ed25519.pub >spec
krl bad-sha1 spec
head -c 60 "$corpus/krl/seed-good-ca" | put krl bad-short

# --- intents, parameters, envelopes
printf '#!/bin/bash\nset -euo pipefail\necho "$MUSTER_NODE_NAME"\n' >script
digest=$(sha256sum <script | cut -d' ' -f1)
intent() { # PHASE DIGEST; lines between the targets and the epoch on stdin
  printf 'muster-intent: 1\nprofile: tls-bootstrap\nphase: %s\nscript-sha256: %s\n' "$1" "$2"
  cat
  printf 'epoch: 7\nnot-before: 2026-11-29T00:00:00Z\nnot-after: 2026-12-29T00:00:00Z\ndeadline: 900\n'
}
intent join "$digest" >join.intent <<X
target: host=edge-1
target: pool=edge
param: MUSTER_CLUSTER_CA? [A-Za-z0-9+/=]{1,4000}
value: MUSTER_CLUSTER_ENDPOINT $(printf 'https://10.0.0.5:6443' | b64)
param: MUSTER_NODE_NAME [a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?
X
put intent good-join <join.intent
{ cat join.intent; echo 'on-disconnect: finish'; } | put intent good-finish
{ cat join.intent; echo 'on-disconnect: end'; } | put intent good-end
echo 'target: *' | intent floor - >floor.intent
put intent good-floor <floor.intent
echo 'target: *' | intent uninstall "$digest" | put intent good-uninstall
printf 'target: *\nparam: KPSSH_A .*\nparam: KPSSH_B? a|b\nparam: MUSTER_C (?i)[^\\s]+\\d{2,9}$\n' |
  intent install "$digest" | put intent good-patterns
sed 's/^epoch: 7/epoch: 07/' join.intent | put intent bad-epoch
sed 's/^epoch: 7/epoch: 4294967296/' join.intent | put intent bad-epoch-large
sed 's/^target: host/target: zost/' join.intent | put intent bad-target
sed '/^target/d' join.intent | put intent bad-no-target
sed 's/^profile: /profile: ..\//' join.intent | put intent bad-profile
printf 'target: *\nparam: MUSTER_A a)|(b\n' | intent join "$digest" | put intent bad-pattern
printf 'target: *\nparam: MUSTER_PHASE a\n' | intent join "$digest" | put intent bad-reserved
sed 's/$/\r/' join.intent | put intent bad-crlf
head -c -1 join.intent | put intent bad-no-lf
printf 'KPSSH_A=1\nKPSSH_B=a=b\nKPSSH_LONG=%0300d\n' 0 | put params_1 good
printf '\nKPSSH_B=second\nKPSSH_B=first\n\nKPSSH_A=\xff"$(id)"' | put params_1 good-loose
printf 'KPSSH_A\n' | put params_1 bad-form
printf 'BASH_ENV=/tmp/x\n' | put params_1 bad-name
printf 'KPSSH_=x\n' | put params_1 bad-bare
printf 'KPSSH_A=1\nMUSTER_NODE_NAME=edge-1\nMUSTER_X=\n' >params
put params_2 good <params
put params_2 good-empty </dev/null
printf 'MUSTER_B=1\nMUSTER_A=1\n' | put params_2 bad-order
printf 'MUSTER_RUN_ID=1\n' | put params_2 bad-reserved
printf 'MUSTER_A=1' | put params_2 bad-no-lf
ssh-keygen -q -Y sign -n kpssh -f ed25519 <script >script.sig
{
  printf 'kpssh-envelope: 1\nphase: join\n'
  printf 'params-b64: %s\n' "$(printf 'KPSSH_A=1\nKPSSH_B=2\n' | b64)"
  printf 'sig-b64: %s\nscript-b64: %s\n' "$(b64 <script.sig)" "$(b64 <script)"
} >one
put envelope_1 good-join <one
printf 'kpssh-envelope: 1\nphase: probe\n' | put envelope_1 good-probe
{ echo; echo 'x: y'; tac one; echo 'phase: leave'; } | put envelope_1 good-loose
sed 's/$/\r/' one | put envelope_1 bad-crlf
sed 's/^phase: join/phase: floor/' one | put envelope_1 bad-floor
sed '/^sig/d' one | put envelope_1 bad-no-signature
{ cat one; echo 'muster-envelope: 2'; } | put envelope_1 good-both-for-this-reader
printf 'kpssh-envelope: 2\nphase: join\n' | put envelope_1 bad-version
two() { # PHASE INTENT-FILE KEY... ; parameters and script follow where the phase has them
  printf 'muster-envelope: 2\nphase: %s\nintent-b64: %s\n' "$1" "$(b64 <"$2")"
  for key in "${@:3}"; do
    printf 'sig-b64: %s\n' "$(ssh-keygen -q -Y sign -n muster-intent -f "$key" <"$2" | b64)"
  done
  [ "$1" = floor ] || printf 'params-b64: %s\nscript-b64: %s\n' "$(printf 'MUSTER_NODE_NAME=edge-1\n' | b64)" "$(b64 <script)"
}
two join join.intent ed25519 >two
put envelope_2 good-join <two
two join join.intent p256 ed25519-cert.pub rsa | put envelope_2 good-three
two floor floor.intent p384 | put envelope_2 good-floor
printf 'muster-envelope: 2\nphase: probe\n' | put envelope_2 good-probe
two leave join.intent ed25519 | put envelope_2 bad-phase
sed '/^params/d' two | put envelope_2 good-no-params
{ cat two; echo; } | put envelope_2 bad-tail
tac two | put envelope_2 bad-order
sed '/^script/d' two | put envelope_2 bad-no-script
{ cat two; echo 'kpssh-envelope: 1'; } | put envelope_2 bad-both
parts() { # PHASE INTENT KEY: as two, but bare, with %% between
  printf '%s\n%%%%\n' "$1"
  cat "$2"
  printf '\n%%%%\n'
  ssh-keygen -q -Y sign -n muster-intent -f "$3" <"$2" | head -c -1
  printf '\n%%%%\nMUSTER_NODE_NAME=edge-1\n\n%%%%\n'
}
{ parts join join.intent ed25519; cat script; } | put envelope_2_parts good-join
{ parts floor floor.intent ed25519-cert.pub; } | put envelope_2_parts good-floor
{ parts leave join.intent p256; cat script; } | put envelope_2_parts bad-phase
printf 'join' | put envelope_2_parts bad-short

# --- short texts
for t in 1970-01-01T00:00:00Z 2000-02-29T12:00:00Z 9999-12-31T23:59:59Z 20200101Z 202001011330 20200101133059utc; do
  printf '%s' "$t" | put times "good-${t//:/}"
done
for t in 2026-02-29T00:00:00Z 2026-01-01T00:00:60Z 20200230Z 19700101Z ''; do
  name=${t:-empty}
  printf '%s' "$t" | put times "bad-${name//:/}"
done
for t in a edge-1.example.net tls-bootstrap; do
  printf '%s' "$t" | put names "good-$t"
done
printf '*' | put names good-star
printf 'host=edge-1' | put names good-host
printf 'pool=edge' | put names good-pool
printf '..' | put names bad-dots
printf 'A' | put names bad-case
printf 'host=' | put names bad-host
printf '%064d' 0 | put names bad-long
