# The pool login and the way back. Needs lib.sh.
m_shadow() { getent shadow "$1" | cut -d: -f2; }
# m_check_account NAME HOME: exactly ours: password `*`, /bin/sh, root's home, its own group alone
m_check_account() {
  m_p=$(getent passwd "$1") || return 1
  [ "$(printf '%s' "$m_p" | cut -d: -f6-7)" = "$2:/bin/sh" ] && [ "$(id -u "$1")" != 0 ] &&
    [ "$(m_shadow "$1")" = '*' ] && [ "$(id -Gn "$1")" = "$1" ]
}
m_made_account() { [ -f "$1/index" ] && grep -q "^[0-9]* account-made 0 0 0 $2\$" "$1/index"; }
m_account() {
  m_check_account "$1" "$2" && return 0
  if getent passwd "$1" >/dev/null; then
    m_made_account "$P/baseline" "$1" || m_made_account "$O" "$1" ||
      m_die 43 "account $1 is there and was not made here: choose another name or remove it"
    m_note account-was 0 0 0 "$1"
    getent shadow "$1" | cut -d: -f1,2 >"$O/$m_n.hash"
    getent passwd "$1" | cut -d: -f6,7 >"$O/$m_n.home"
    usermod -s /bin/sh -d "$2" -p '*' -G '' "$1" || return 1
    return 0
  fi
  if getent group "$1" >/dev/null; then m_die 43 "group $1 is there without an account: choose another name or remove it"; fi
  mkdir -p "$O/users"
  for m_f in passwd shadow group gshadow subuid subgid; do
    for m_x in "$m_f" "$m_f-"; do if [ -e "/etc/$m_x" ]; then cp -a -- "/etc/$m_x" "$O/users/$m_x" || return 1; fi; done
  done
  m_note account-made 0 0 0 "$1"
  useradd --system --user-group --home-dir "$2" --no-create-home --shell /bin/sh --password '*' --comment 'Muster pool login' "$1" </dev/null
}
m_kill_user() {
  m_u=$(id -u "$1" 2>/dev/null) || return 0
  [ "$m_u" -gt 0 ] || return 1
  m_i=0
  while [ $m_i -lt 50 ]; do
    m_l=
    for m_d in /proc/[0-9]*; do
      # A process that has ended and waits for its parent is no process of anybody.
      if [ "$(stat -c %u "$m_d" 2>/dev/null)" = "$m_u" ] && ! grep -q '^State:.Z' "$m_d/status" 2>/dev/null; then
        kill -KILL "${m_d#/proc/}" 2>/dev/null
        m_l=y
      fi
    done
    [ -n "$m_l" ] || return 0
    sleep 0.1
    m_i=$((m_i + 1))
  done
  return 1
}
m_drop_account() {
  getent passwd "$1" >/dev/null || return 0
  m_kill_user "$1" || m_die 1 "processes of account $1 do not end"
  userdel "$1" 2>/dev/null
  if getent group "$1" >/dev/null; then groupdel "$1" 2>/dev/null || :; fi
  if getent passwd "$1" >/dev/null; then m_die 1 "userdel did not remove account $1"; fi
}
# The tools keep a copy of the last state beside each file. Within a transaction, where the files are
# again what they were, the copies become what they were; else our account is taken out of them.
m_users_back() {
  m_s=y
  for m_f in passwd shadow group gshadow subuid subgid; do
    if m_exists "$1/$m_f" || m_exists "/etc/$m_f"; then cmp -s "$1/$m_f" "/etc/$m_f" || m_s=n; fi
  done
  for m_f in passwd shadow group gshadow subuid subgid; do
    if [ $m_s = n ]; then
      if [ -f "/etc/$m_f-" ]; then sed -i "/^$2:/d" "/etc/$m_f-"; fi
      continue
    fi
    if [ -e "$1/$m_f-" ]; then cp -a -- "$1/$m_f-" "/etc/$m_f-"; else rm -f -- "/etc/$m_f-"; fi
    if [ -e "$1/$m_f" ]; then chown --reference="$1/$m_f" "/etc/$m_f" && chmod --reference="$1/$m_f" "/etc/$m_f"; fi
  done
}
