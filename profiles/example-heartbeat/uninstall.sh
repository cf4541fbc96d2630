#!/usr/bin/env bash
# Takes away everything that install and join made, the spool too. May be run again.
set -euo pipefail

if [ -e /etc/systemd/system/example-heartbeat.timer ]; then
  systemctl disable --quiet --now example-heartbeat.timer
  systemctl stop example-heartbeat.service
fi
rm -f /etc/systemd/system/example-heartbeat.timer /etc/systemd/system/example-heartbeat.service
rm -rf /usr/local/lib/example-heartbeat /etc/example-heartbeat
# With DynamicUser=yes the state folder is a link into /var/lib/private.
rm -rf /var/lib/example-heartbeat /var/lib/private/example-heartbeat
systemctl daemon-reload
systemctl reset-failed example-heartbeat.service 2> /dev/null || true
echo "example-heartbeat: uninstalled"
