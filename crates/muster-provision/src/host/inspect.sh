# What there is before anything is done. Reads only. `$1` is the pool login, `$2` the
# login of a drop-in fleet or `-`, the rest are paths.
m_say() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n\r' '  ')"; }
m_say format muster-inspect-1
m_say uid "$(id -u)"
m_say sudo-user "${SUDO_USER:-}"
m_say arch "$(uname -m)"
if [ -r /etc/os-release ]; then m_say os "$(. /etc/os-release; printf '%s' "${PRETTY_NAME:-$NAME}")"; fi
m_say systemd "$([ -d /run/systemd/system ] && echo yes || echo no)"
for m_x in flock stat getent mktemp sha256sum base64 cp mv awk sed grep sort cmp setsid setpriv head useradd userdel usermod chpasswd visudo sudo bash "$SSHD"; do
  command -v "$m_x" >/dev/null || m_say missing "${m_x##*/}"
done
m_say sshd-version "$(ssh -V 2>&1)"
m_say sudo-version "$(sudo -V 2>/dev/null | head -n 1)"
m_say sshd-valid "$(m_e=$(m_sshd -t 2>&1) && echo yes || printf 'no %s' "$m_e")"
m_say account "$(getent passwd "$1")"
m_say account-password "$(m_h=$(m_shadow "$1"); case $m_h in '*') echo star ;; '') echo empty ;; '!'*) echo locked ;; *) echo set ;; esac)"
m_say account-groups "$(id -Gn "$1" 2>/dev/null)"
m_say free-var "$(df -Pk /var/lib | awk 'END { print $4 }')"
m_say free-usr "$(df -Pk /usr/bin | awk 'END { print $4 }')"
if [ -f "$O/id" ]; then m_say open "$(cat "$O/id") $(cat "$O/digest")"; fi
if [ -f "$P/manifest" ]; then
  m_say manifest-account "$(sed -n 's/^account: //p' "$P/manifest")"
  m_say manifest-digest "$(sed -n 's/^digest: //p' "$P/manifest")"
fi
if [ -f "$P/baseline/index" ]; then while read -r m_i m_k m_1 m_2 m_3 m_4; do m_say baseline "$m_k $m_4"; done <"$P/baseline/index"; fi
m_say run "$( (m_idle) 2>&1 && echo none)"
m_say state-dir "$([ -d /var/lib/muster/shim ] && echo yes || echo no)"
if [ "$2" != - ]; then m_say fleet "$(getent passwd "$2")"; fi
shift 2
for m_f in "$@"; do
  if m_exists "$m_f"; then
    m_say file "$m_f $(stat -c '%F|%u|%g|%a|%s' -- "$m_f" | tr ' ' -)"
    m_body "$m_f"
  else
    m_say file "$m_f absent"
  fi
done
m_say end .
