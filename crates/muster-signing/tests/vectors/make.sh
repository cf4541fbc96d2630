#!/bin/sh
# Makes the vectors that take too long to make in a test, with the real ssh-keygen. The private
# key is thrown away: the files prove nothing but that a size verifies.
set -eu
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
ssh-keygen -q -t rsa -b 8192 -N '' -C rsa8192 -f "$tmp/rsa8192"
printf '#!/bin/bash\necho joined\n' | ssh-keygen -q -Y sign -f "$tmp/rsa8192" -n kpssh >rsa8192.sig
cp "$tmp/rsa8192.pub" .
