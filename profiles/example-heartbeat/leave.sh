#!/usr/bin/env bash
# Stops the heartbeat and forgets name and token; the spool stays. May be run again, also where nothing joined.
set -euo pipefail

if [ -e /etc/systemd/system/example-heartbeat.timer ]; then
  systemctl disable --quiet --now example-heartbeat.timer
  systemctl stop example-heartbeat.service
fi
rm -f /etc/example-heartbeat/config /etc/example-heartbeat/token
echo "example-heartbeat: left"
