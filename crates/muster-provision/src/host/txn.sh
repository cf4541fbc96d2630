# Transactions: open, put back, keep. Needs lib.sh and account.sh.

# m_back FOLDER N KIND UID GID MODE PATH: put one entry back
m_back() {
  case $3 in
    absent) rm -f -- "$(m_tmp "$7")" "$7" ;;
    absent-dir) if [ -d "$7" ]; then rmdir --ignore-fail-on-non-empty -- "$7"; fi ;;
    absent-tree) rm -rf -- "$7" ;;
    dir) chown "$4:$5" -- "$7" && chmod "$6" -- "$7" ;;
    file)
      m_t=$(m_tmp "$7")
      rm -rf -- "$m_t" && cp -a -- "$1/$2" "$m_t" && m_sync "$m_t" && mv -fT -- "$m_t" "$7" ;;
    account-made) m_drop_account "$7" && m_users_back "$1/users" "$7" ;;
    account-was)
      usermod -s "$(cut -d: -f2 "$1/$2.home")" -d "$(cut -d: -f1 "$1/$2.home")" "$7" && chpasswd -e <"$1/$2.hash" ;;
    *) return 1 ;;
  esac
}

# m_sudo_l ACCOUNT: what sudo lets it do; through a pty where the host demands one even for that
m_sudo_l() {
  sudo -n -l -U "$1" </dev/null 2>/dev/null ||
    { command -v script >/dev/null && script -qec "stty cols 4000; sudo -n -l -U $1" /dev/null </dev/null 2>/dev/null | tr -d '\r'; }
}
# m_granted ACCOUNT: sudo reads our permission
m_granted() {
  m_sudo_l "$1" | grep -q 'NOPASSWD: /usr/bin/muster-shim ""' ||
    m_die 43 "sudo does not see the permission of $1: does /etc/sudoers read /etc/sudoers.d, and does a later line take it back?"
}
# m_fleet ACCOUNT: the fleet's login gets an answer from the shim that took the place of its own
m_fleet() {
  m_c=$(printf 'kpssh-envelope: 1\nphase: probe\n' |
    setpriv --reuid "$(id -u "$1")" --regid "$(id -g "$1")" --init-groups -- /opt/kpssh/kpssh-shim 2>&1) ||
    m_die 43 "as $1, /opt/kpssh/kpssh-shim does not answer a probe: $(printf '%s' "$m_c" | tail -n 1)"
}

m_unit() { for m_u in ssh sshd; do if systemctl is-active --quiet "$m_u.$1" 2>/dev/null; then echo "$m_u.$1"; return 0; fi; done; return 1; }
# sshd reads its files anew; it listens again within the second that is waited here
m_reload() {
  if [ -d /run/systemd/system ]; then
    if m_r=$(m_unit service); then
      systemctl reload "$m_r" || return 1
      sleep 1
      systemctl is-active --quiet "$m_r"
      return
    fi
    # Behind a socket unit each start reads the files.
    if m_unit socket >/dev/null; then return 0; fi
  fi
  for m_f in /run/sshd.pid /var/run/sshd.pid; do
    if [ -s "$m_f" ] && grep -aq sshd "/proc/$(cat "$m_f")/cmdline" 2>/dev/null; then
      kill -HUP "$(cat "$m_f")" || return 1
      sleep 1
      return 0
    fi
  done
  echo "muster-provision: sshd is not running: its next start reads the files" >&2
}

m_disarm() {
  if [ -d /run/systemd/system ]; then
    systemctl stop "$U.timer" 2>/dev/null
    systemctl reset-failed "$U.timer" "$U.service" 2>/dev/null
  fi
  if [ -s "$O/timer" ]; then
    read -r m_p m_q <"$O/timer"
    if [ "$(cut -d' ' -f22 "/proc/$m_p/stat" 2>/dev/null)" = "$m_q" ]; then kill -KILL "-$m_p" 2>/dev/null || kill -KILL "$m_p" 2>/dev/null; fi
    rm -f -- "$O/timer"
  fi
  return 0
}
# m_arm SECONDS: whatever happens to the connection, the host puts itself back unless it is told not to
m_arm() {
  m_disarm
  m_id=$(cat "$O/id")
  if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null 2>&1; then
    systemd-run --quiet --unit="$U" --description="Muster: put the host back unless provisioning is confirmed" \
      --on-active="$1" --timer-property=AccuracySec=1s /bin/sh "$O/revert.sh" timer "$m_id" </dev/null 9>&- && return 0
  fi
  setsid /bin/sh -c 'sleep "$1"; exec /bin/sh "$2" timer "$3"' muster-revert "$1" "$O/revert.sh" "$m_id" </dev/null >/dev/null 2>&1 9>&- &
  m_p=$!
  sleep 0.1
  printf '%s %s\n' "$m_p" "$(cut -d' ' -f22 "/proc/$m_p/stat")" >"$O/timer"
}

# m_sweep: what a begin or an end that was cut short left behind
m_sweep() {
  m_sweep_run
  rm -rf -- "$P"/closed.*
  if [ -f "$P/new/made" ]; then m_v=y; else m_v=; fi
  rm -rf -- "$P/new"
  if [ -d "$P" ]; then rmdir --ignore-fail-on-non-empty "$P"; fi
  if [ -n "$m_v" ]; then rmdir --ignore-fail-on-non-empty "$V"; fi
}
# m_begin ID DIGEST SECONDS < revert.sh
m_begin() {
  m_lock
  if [ -e "$O" ]; then m_die 41 "a provisioning was not finished"; fi
  m_sweep
  m_v=dir
  if ! m_exists "$V"; then
    m_v=absent-dir
    mkdir -m 0755 "$V" "$P" && mkdir "$P/new" && : >"$P/new/made" || m_die 1 "cannot make $P"
  fi
  if [ -L "$V" ] || [ "$(stat -c %u "$V")" != 0 ]; then m_die 43 "$V is not a folder of root's"; fi
  m_b=n
  if [ -d "$P/baseline" ]; then m_b=y; fi
  mkdir -p "$P/new" && chmod 0700 "$P" && cat >"$P/new/revert.sh" || m_die 1 "cannot make $P"
  if [ -f "$P/manifest" ]; then cp -a "$P/manifest" "$P/new/manifest" || m_die 1 "cannot save $P/manifest"; fi
  printf '%s\n' "$1" >"$P/new/id"
  printf '%s\n' "$2" >"$P/new/digest"
  printf '%s\n' "$m_b" >"$P/new/had-baseline"
  if [ $m_v = dir ]; then printf '1 dir %s %s\n' "$(stat -c '%u %g %a' "$V")" "$V"; else printf '1 absent-dir 0 0 0 %s\n' "$V"; fi >"$P/new/index"
  printf '%s begin\n' "$(m_now)" >"$P/new/journal"
  m_sync_all
  mv -T "$P/new" "$O" || m_die 1 "cannot open the transaction"
  m_arm "$3" || m_die 1 "cannot set the timer that puts the host back"
}
# m_revert WHY [ID]: put everything of the open transaction back; harmless when repeated
m_revert() {
  # The timer has nobody who would try again.
  if [ "$1" = timer ]; then m_lock 3600; else m_lock 60; fi
  m_sweep_run
  if [ ! -f "$O/id" ]; then
    if [ "$1" = timer ]; then exit 0; fi
    m_sweep
    rm -f /run/muster-provision.lock
    m_die 42 "no transaction is open"
  fi
  if [ -n "${2:-}" ] && [ "$(cat "$O/id")" != "$2" ]; then m_die 42 "transaction $2 is not open"; fi
  m_log "revert $1"
  if [ "$1" != timer ]; then m_disarm; fi
  m_bad=
  sort -rn "$O/index" >"$O/todo"
  while read -r m_i m_k m_1 m_2 m_3 m_4; do
    (m_back "$O" "$m_i" "$m_k" "$m_1" "$m_2" "$m_3" "$m_4") </dev/null || m_bad="$m_bad $m_4"
  done <"$O/todo"
  if grep -q ' reload$' "$O/journal"; then m_sshd -t && m_reload || m_bad="$m_bad sshd"; fi
  if [ -n "$m_bad" ]; then m_tell "not put back:$m_bad"; m_die 1 "not put back:$m_bad"; fi
  if [ -f "$O/manifest" ]; then cp -a "$O/manifest" "$P/manifest"; else rm -f -- "$P/manifest"; fi
  m_had=$(cat "$O/had-baseline")
  m_gone=$(grep -c '^1 absent-dir ' "$O/index")
  mv -T "$O" "$P/closed.$$" && rm -rf -- "$P/closed.$$"
  if [ "$m_had" = n ]; then
    rm -rf -- "$P"
    if [ "$m_gone" = 1 ]; then rmdir --ignore-fail-on-non-empty "$V"; fi
  fi
  rm -f /run/muster-provision.lock
  m_tell "put back ($1)"
}
# m_commit ID < manifest: what was saved becomes the baseline that unprovision goes back to
m_commit() {
  m_need_open "$1"
  mkdir -p "$P/baseline" && touch "$P/baseline/index"
  while read -r m_i m_k m_1 m_2 m_3 m_4; do
    if m_known "$P/baseline" "$m_4" || [ "$m_k" = account-was ]; then continue; fi
    m_j=$(($(sort -n "$P/baseline/index" | tail -n 1 | cut -d' ' -f1) + 1))
    if [ "$m_k" = file ]; then cp -a -- "$O/$m_i" "$P/baseline/$m_j" || m_die 1 "cannot keep the copy of $m_4"; fi
    printf '%s %s %s %s %s %s\n' "$m_j" "$m_k" "$m_1" "$m_2" "$m_3" "$m_4" >>"$P/baseline/index"
  done <"$O/index"
  cat >"$P/manifest.new" && m_sync_all || m_die 1 "cannot write the manifest"
  if [ ! -s "$P/manifest.new" ]; then
    # A part of a plan: the manifest of the whole stays, with the last transaction named.
    sed "s/^transaction: .*/transaction: $1/" "$P/manifest" >"$P/manifest.new" || m_die 1 "cannot write the manifest"
  fi
  mv -T "$P/manifest.new" "$P/manifest" || m_die 1 "cannot write the manifest"
  m_shut
  # Only now: a revert before this point still needs what the retired files were.
  if [ -f "$P/closed.$$/retired" ]; then
    awk 'NR == FNR { r[$0] = 1; next } !($6 in r)' "$P/closed.$$/retired" "$P/baseline/index" >"$P/baseline/index.new" &&
      mv -T "$P/baseline/index.new" "$P/baseline/index"
  fi
  rm -rf -- "$P/closed.$$"
  rm -f /run/muster-provision.lock
}
# m_kept ID: whether that transaction ended well
m_kept() { m_lock; [ ! -e "$O" ] && grep -qxF "transaction: $1" "$P/manifest"; }
# m_close ID: what was done stays
m_close() {
  m_need_open "$1"
  m_shut
  rm -rf -- "$P/closed.$$"
  rm -f /run/muster-provision.lock
}
# m_shut: the timer is stopped and the open transaction is a closed one
m_shut() {
  m_disarm
  mv -T "$O" "$P/closed.$$" || m_die 1 "cannot close the transaction"
}
# m_retire PATH: a file goes back to what it was before the first provisioning
m_retire() {
  m_l=$(awk -v p="$1" '$6 == p' "$P/baseline/index") || return 1
  [ -n "$m_l" ] || return 0
  m_touch "$1"
  # Six words, none of which holds a blank.
  m_back "$P/baseline" $m_l && printf '%s\n' "$1" >>"$O/retired"
}
# m_idle: holds the shim's lock, so that no run starts; refuses while one is there
m_idle() {
  if [ -e /run/muster/shim/lock ]; then
    exec 8<>/run/muster/shim/lock || m_die 1 "cannot open /run/muster/shim/lock"
    flock -n 8 || m_die 43 "a run is in progress on this host: wait for it (probe says which)"
  fi
  [ -s /run/muster/shim/run ] || return 0
  for m_i in $(grep -oE '[0-9a-f]{32}' /run/muster/shim/run); do
    if grep -lqs "MUSTER_RUN_ID=$m_i" /proc/[0-9]*/environ; then m_die 43 "processes of an interrupted run are still there (run $m_i): run a phase or end them first"; fi
  done
}
# m_purge: after the login is shut, everything else that we made
m_purge() {
  m_lock
  m_idle
  [ -f "$P/baseline/index" ] || return 0
  m_list=$(sort -rn "$P/baseline/index")
  m_bad=
  while read -r m_i m_k m_1 m_2 m_3 m_4; do
    if [ "$m_k" = file ] || [ "$m_k" = absent ] || [ "$m_4" = "$V" ]; then continue; fi
    (m_back "$P/baseline" "$m_i" "$m_k" "$m_1" "$m_2" "$m_3" "$m_4") </dev/null || m_bad="$m_bad $m_4"
  done <<M
$m_list
M
  if [ -n "$m_bad" ]; then m_die 1 "not put back:$m_bad"; fi
  rm -rf -- /run/muster/shim
  if [ -d /run/muster ]; then rmdir --ignore-fail-on-non-empty /run/muster; fi
  rm -rf -- "$P"
  m_l=$(printf '%s\n' "$m_list" | awk -v p="$V" '$6 == p')
  if [ -n "$m_l" ]; then m_back / $m_l; fi
  rm -f /run/muster-provision.lock
}
