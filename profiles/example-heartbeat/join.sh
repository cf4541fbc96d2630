#!/usr/bin/env bash
# Names this host and starts its heartbeat. May be run again, also with another name.
set -euo pipefail

etc=/etc/example-heartbeat
[ -x /usr/local/lib/example-heartbeat/beat ] || { echo "example-heartbeat: not installed; run install first" >&2; exit 3; }

# umask is 077 here, and the secret is written by a builtin: it is on no command line.
printf 'NODE_NAME=%s\nENDPOINT=%s\n' "$MUSTER_NODE_NAME" "$MUSTER_HEARTBEAT_ENDPOINT" > "$etc/config.new"
mv -f "$etc/config.new" "$etc/config"
if [ -n "${MUSTER_HEARTBEAT_TOKEN:-}" ]; then
  printf '%s' "$MUSTER_HEARTBEAT_TOKEN" > "$etc/token.new"
  mv -f "$etc/token.new" "$etc/token"
else
  rm -f "$etc/token"
fi

systemctl enable --quiet --now example-heartbeat.timer
# The first beat is part of joining: a host that cannot beat has not joined.
systemctl start example-heartbeat.service
tail -n 1 /var/lib/example-heartbeat/beats
echo "example-heartbeat: joined as $MUSTER_NODE_NAME"
