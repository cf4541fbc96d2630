# Seeds for the reader of a probe's answer: the real shim answers, in mounts of its own. Sourced by seeds.sh as root.
# shellcheck shell=bash disable=SC2154

shim=${MUSTER_SHIM_BIN:-$fuzz/../target/debug/muster-shim}
cat >probe.sh <<'S'
set -e
mount -t tmpfs t /mnt
cp -a /etc /mnt/etc
mount --bind /mnt/etc /etc
mkdir -p /etc/muster /mnt/state
mount --bind /mnt/state /var/lib
install -d -m 700 /var/lib/muster/shim
mount -t tmpfs r /run
install -d -m 700 /run/muster/shim
printf 'host = "edge-1"\npools = ["edge"]\n[profiles.heartbeat]\nmin-epoch = 7\n' >/etc/muster/shim.toml
cp "$2" /etc/muster/allowed_signers
: >/etc/muster/revoked_signers
printf 'muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\n' >/var/lib/muster/shim/floors
chmod 600 /var/lib/muster/shim/floors
printf 'muster-envelope: 2\nphase: probe\n' | env SUDO_UID=1000 "$1"
S
echo "muster namespaces=\"muster-intent\" $(cat ed25519.pub)" >probe-signers
unshare -m bash probe.sh "$shim" "$work/probe-signers" >probe.json
put probe_answer good <probe.json
sed 's/"policy":{.*},"running"/"policy":{"fault":"line 1: no value"},"running"/' probe.json | put probe_answer good-policy-fault
run='{"run":"0123456789abcdef0123456789abcdef","phase":"join","since":"2026-11-29T00:00:00Z","alive":true}'
last='{"run":"0123456789abcdef0123456789abcdef","phase":"leave","verdict":"ok","time":"2026-11-28T00:00:00Z"}'
sed "s/\"running\":null/\"running\":$run/; s/\"last-run\":null/\"last-run\":$last/" probe.json | put probe_answer good-runs
sed 's/"muster-probe":1/"muster-probe":2/' probe.json | put probe_answer bad-version
sed 's/"now":"[^"]*"/"now":"today"/' probe.json | put probe_answer bad-time
head -c 200 probe.json | put probe_answer bad-cut
printf 'Welcome\n4\n16316412\nx86_64\nactivating\n' | put probe_answer bad-four-facts
