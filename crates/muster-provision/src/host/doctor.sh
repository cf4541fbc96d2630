# Evidence for the doctor. Reads only. `$1` the pool login, `$2` the address that controllers come
# from, `$3` the name they come by, `$4` the login of a drop-in fleet or `-`. Needs the library.
m_say() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n\r' '  ')"; }
m_each() { while IFS= read -r m_l; do m_say "$1" "$m_l"; done; }
# Path, and every folder above it.
m_stat() {
  m_f=$1
  while :; do
    if m_exists "$m_f"; then m_say path "$m_f $(stat -c '%F|%u|%g|%a|%s' -- "$m_f" | tr ' ' -)"; else m_say path "$m_f absent"; fi
    [ "$m_f" != / ] || break
    m_f=${m_f%/*}
    m_f=${m_f:-/}
  done
}
m_login() {
  m_say account "$1 $(getent passwd "$1")"
  m_say account-password "$1 $(m_h=$(m_shadow "$1"); case $m_h in '*') echo star ;; '') echo empty ;; '!'*) echo locked ;; *) echo set ;; esac)"
  m_say account-expires "$1 $(getent shadow "$1" | cut -d: -f8)"
  m_say account-groups "$1 $(id -Gn "$1" 2>/dev/null)"
  m_sshd -T -C "user=$1,host=$m_name,addr=$m_addr,laddr=127.0.0.1,lport=22" 2>/dev/null | while IFS= read -r m_l; do m_say sshd "$1 $m_l"; done
  m_sudo_l "$1" | while IFS= read -r m_l; do m_say sudo "$1 $m_l"; done
}
m_user=$1
m_addr=$2
m_name=$3
m_fleet=$4
m_say format muster-doctor-1
m_say uid "$(id -u)"
if [ -r /etc/os-release ]; then m_say os "$(. /etc/os-release; printf '%s' "${PRETTY_NAME:-$NAME}")"; fi
m_say host-name "$(uname -n)"
m_say machine-id "$(sha256sum </etc/machine-id 2>/dev/null | cut -c1-32)"
for m_f in /etc/ssh/ssh_host_*_key.pub; do if [ -r "$m_f" ]; then m_say host-key "$(ssh-keygen -lf "$m_f" | cut -d' ' -f2)"; fi; done
m_say ssh-version "$(ssh -V 2>&1)"
m_say sudo-version "$(sudo -V 2>/dev/null | head -n 1)"
m_say sshd-valid "$(m_e=$(m_sshd -t 2>&1) && echo yes || printf 'no %s' "$m_e")"
for m_f in /run/sshd.pid /var/run/sshd.pid; do
  if [ -s "$m_f" ]; then m_say sshd-listener "$(tr '\0' ' ' <"/proc/$(cat "$m_f")/cmdline" 2>/dev/null)"; break; fi
done
m_login "$m_user"
if [ "$m_fleet" != - ]; then m_login "$m_fleet"; fi
m_say now "$(date -u +%s)"
m_say synchronised "$(timedatectl show -p NTPSynchronized --value 2>/dev/null)"
m_say shim-sum "$(if [ -f /usr/bin/muster-shim ]; then m_sum /usr/bin/muster-shim; fi)"
m_say kpssh-sum "$(if [ -f /opt/kpssh/kpssh-shim ]; then m_sum /opt/kpssh/kpssh-shim; fi)"
m_home=$(getent passwd "$m_user" | cut -d: -f6)
if [ -d "$m_home" ]; then
  find "$m_home" -mindepth 1 -maxdepth 2 -printf '%P\n' 2>/dev/null | head -n 20 | m_each in-home
  m_stat "$m_home"
fi
if [ "$m_fleet" != - ]; then
  m_home=$(getent passwd "$m_fleet" | cut -d: -f6)
  if [ -n "$m_home" ]; then m_stat "$m_home/.ssh/authorized_keys"; fi
fi
for m_p in /etc/muster/allowed_signers /etc/muster/revoked_signers /etc/muster/shim.toml "/etc/muster/authorized_keys.d/$m_user" \
  /usr/bin/muster-shim /etc/sudoers.d/muster-shim /etc/ssh/sshd_config.d/00-muster.conf /var/lib/muster/shim/floors \
  /var/lib/muster/shim/runs.log /opt/kpssh/kpssh-shim /etc/kpssh/allowed_signers /run/muster/shim/lock; do m_stat "$m_p"; done
for m_p in /etc/muster/allowed_signers /etc/muster/revoked_signers /etc/muster/shim.toml "/etc/muster/authorized_keys.d/$m_user" \
  /var/lib/muster/shim/floors /etc/kpssh/allowed_signers; do m_body "$m_p"; done
# The whole road: the login, sudo, the shim. A probe is unsigned, takes no lock and writes nothing.
if [ -f /usr/bin/muster-shim ] && [ "$(stat -c %u /usr/bin/muster-shim)" = 0 ] && m_u=$(id -u "$m_user" 2>/dev/null); then
  m_c=$(printf 'muster-envelope: 2\nphase: probe\n' |
    timeout 20 setpriv --reuid "$m_u" --regid "$(id -g "$m_user")" --init-groups -- env -i PATH=/usr/bin:/bin /usr/bin/muster-shim 2>&1)
  m_say probe-exit "$?"
  printf 'body probe %s\n' "$(printf '%s' "$m_c" | head -c 65536 | base64 | tr -d '\n')"
fi
m_say provision-open "$(if [ -f "$O/id" ]; then cat "$O/id"; fi)"
m_say provision-record "$(if [ -f "$P/manifest" ]; then sed -n 's/^account: //p' "$P/manifest"; fi)"
m_say proc "$([ -r /proc/self/environ ] && echo yes || echo no)"
m_say end .
