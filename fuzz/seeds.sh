#!/usr/bin/env bash
# Makes the seeds of the fuzz corpora with the real tools (ssh-keygen, sshd, ssh-agent, openssl), so that
# every target starts from inputs that the formats' own programs wrote. Needs nothing from the network.
#
#   fuzz/seeds.sh [PART…]    writes fuzz/corpus/<target>/seed-*; a PART is a file of fuzz/seeds.d
#
# The keys are thrown away; the few private ones that are seeds themselves (target private_key) open
# nothing. Names: seed-good-* is accepted by the target, seed-bad-* is refused; the replay test in
# crates/muster-fuzz holds us to that.
set -euo pipefail
cd "$(dirname "$0")"
fuzz=$PWD
corpus=$fuzz/corpus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C TZ=UTC

put() { # put TARGET NAME < bytes; the first one of a target clears the seeds of earlier times
  [ -e "$work/fresh.$1" ] || rm -f "$corpus/$1"/seed-*
  : >"$work/fresh.$1"
  mkdir -p "$corpus/$1"
  cat >"$corpus/$1/seed-$2"
}
b64() { base64 -w0; }
un64() { base64 -d; }
blob() { cut -d' ' -f2 "$1" | un64; } # the wire form of a .pub file
# SSH wire types, from hexadecimal.
hex() { od -An -v -tx1 | tr -d ' \n'; }
unhex() { local h; h=$(cat); printf '%b' "$(sed 's/../\\x&/g' <<<"$h")"; }
str() { local h; h=$(hex); printf '%08x%s' $((${#h} / 2)) "$h"; }
text() { printf '%s' "$1" | str; }

cd "$work"
printf 'a message\n' >message
keygen() { ssh-keygen -q -N '' -C "$1" -f "$@"; }
keygen ed25519 -t ed25519
keygen p256 -t ecdsa -b 256
keygen p384 -t ecdsa -b 384
keygen p521 -t ecdsa -b 521
keygen rsa -t rsa -b 3072
keygen small -t rsa -b 2048
keygen ca -t ed25519
keygen ca384 -t ecdsa -b 384
kinds='ed25519 p256 p384 p521 rsa'

parts=("$@")
[ $# -gt 0 ] || parts=(signing ssh host cli provision pairing files tls audit node edge ops probe)
for part in "${parts[@]}"; do
  # shellcheck source=/dev/null
  . "$fuzz/seeds.d/$part.sh"
done
echo "seeds: $(find "$corpus" -name 'seed-*' | wc -l) files, $(cat "$corpus"/*/seed-* | wc -c) bytes"
