#!/usr/bin/env bash
# Puts the heartbeat's program and units in place. Starts nothing. May be run again.
set -euo pipefail

lib=/usr/local/lib/example-heartbeat
units=/etc/systemd/system

# Writes standard input to a file, whole or not at all.
put() {
  local path=$1 mode=$2 temp
  temp=$(mktemp "$path.XXXXXX")
  cat > "$temp"
  chmod "$mode" "$temp"
  mv -f "$temp" "$path"
}

command -v systemctl > /dev/null || { echo "example-heartbeat: this host has no systemd" >&2; exit 3; }

install -d -m 0755 "$lib"
install -d -m 0700 /etc/example-heartbeat

put "$lib/beat" 0755 <<'BEAT'
#!/bin/sh
# One heartbeat: a line in the spool, which keeps the last thousand.
set -eu
spool="$STATE_DIRECTORY/beats"
printf '%s %s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$NODE_NAME" "$ENDPOINT" >> "$spool"
if [ "$(wc -l < "$spool")" -gt 1100 ]; then
  tail -n 1000 "$spool" > "$spool.new"
  mv -f "$spool.new" "$spool"
fi
BEAT

put "$units/example-heartbeat.service" 0644 <<'UNIT'
[Unit]
Description=Example heartbeat (one beat)
ConditionPathExists=/etc/example-heartbeat/config

[Service]
Type=oneshot
DynamicUser=yes
StateDirectory=example-heartbeat
EnvironmentFile=/etc/example-heartbeat/config
ExecStart=/usr/local/lib/example-heartbeat/beat
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateNetwork=yes
UNIT

put "$units/example-heartbeat.timer" 0644 <<'UNIT'
[Unit]
Description=Example heartbeat (every ten seconds)

[Timer]
OnActiveSec=1s
OnUnitActiveSec=10s
AccuracySec=1s

[Install]
WantedBy=timers.target
UNIT

systemctl daemon-reload
echo "example-heartbeat: installed"
