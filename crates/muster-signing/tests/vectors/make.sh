#!/bin/sh
# Makes the vectors that take too long to make in a test, with the real ssh-keygen. rsa8192 proves
# that a size verifies; its private key is thrown away. short-p256 is a private key that nobody
# trusts: its scalar is stored in 31 bytes, as in one of 512 keys.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
ssh-keygen -q -t rsa -b 8192 -N '' -C rsa8192 -f "$tmp/rsa8192"
printf '#!/bin/bash\necho joined\n' | ssh-keygen -q -Y sign -f "$tmp/rsa8192" -n kpssh >rsa8192.sig
cp "$tmp/rsa8192.pub" .

n=0
until base64 -d <<EOF | od -An -v -tx1 | tr -d ' \n' | grep -Eq '0000004104[0-9a-f]{128}0000001f'
$(grep -v -e '-----' "$tmp/short" 2>/dev/null || true)
EOF
do
    n=$((n + 1))
    [ "$n" -le 8000 ]
    rm -f "$tmp/short" "$tmp/short.pub"
    ssh-keygen -q -t ecdsa -b 256 -N '' -C short-p256 -f "$tmp/short"
done
cp "$tmp/short" short-p256
