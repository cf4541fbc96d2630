# Host side of provisioning. POSIX sh, with flock, stat, getent, mktemp and sync of any current Linux.
# An open transaction lives in $O: `index` says what was touched and how it was before, numbered
# files hold what was there, `journal` what was done, `revert.sh` puts everything back.
# Exit codes: 40 lock held, 41 a transaction is open, 42 it is not open (put back meanwhile), 43 refused.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin
LC_ALL=C
export PATH LC_ALL
unset CDPATH ENV BASH_ENV
umask 077
cd / || exit 1
V=/var/lib/muster
P=$V/provision
O=$P/open
U=muster-provision-revert
SSHD=$(command -v sshd || echo /usr/sbin/sshd)

m_die() { m_rc=$1; shift; printf 'muster-provision: %s\n' "$*" >&2; exit "$m_rc"; }
m_now() { date -u +%Y-%m-%dT%H:%M:%SZ; }
m_log() { printf '%s %s\n' "$(m_now)" "$*" >>"$O/journal" && m_sync "$O/journal"; }
m_sync() { sync "$1" 2>/dev/null || sync; }
m_sync_all() { sync -f "$P" 2>/dev/null || sync; }
m_tell() { logger -t muster-provision -p auth.notice -- "$*" 2>/dev/null || :; }
# Held until the shell ends. A second call changes nothing: to open fd 9 anew would let go of the lock,
# and the timer that waits for it would put the host back in the middle of a commit.
m_held=
m_lock() {
  if [ -n "$m_held" ]; then return 0; fi
  while :; do
    exec 9>/run/muster-provision.lock || m_die 1 "cannot open /run/muster-provision.lock"
    flock -w "${1:-20}" 9 || m_die 40 "another provisioning holds this host"
    # Who held it before may have taken the file away, and the next one locks a new file: only the
    # file that has the name is the lock.
    m_x=$(stat -Lc %d:%i /proc/self/fd/0 <&9) || m_die 1 "cannot look at /run/muster-provision.lock"
    if [ "$m_x" = "$(stat -Lc %d:%i /run/muster-provision.lock 2>/dev/null)" ]; then break; fi
  done
  m_held=y
}
m_need_open() {
  m_lock
  [ -f "$O/id" ] && [ "$(cat "$O/id")" = "$1" ] || m_die 42 "transaction $1 is not open: it was put back meanwhile"
}
m_scratch() { mktemp -d /run/muster-tmp.XXXXXX; }
# m_stdin: takes all of standard input in before anything is locked: a link that hangs must not hold
# the lock that the timer needs to put the host back
m_stdin() {
  m_w=$(m_scratch) && cat >"$m_w/in" && exec <"$m_w/in" && rm -rf -- "$m_w" || m_die 1 "cannot take the input in"
}
# What a killed script may have left in /run; ten minutes are longer than any script of ours takes.
m_sweep_run() { find /run -maxdepth 1 -name 'muster-tmp.*' -mmin +10 -exec rm -rf {} + 2>/dev/null || :; }
m_tmp() { printf '%s/.%s.muster-new' "${1%/*}" "${1##*/}"; }
m_label() { if command -v restorecon >/dev/null 2>&1; then restorecon -F "$1" 2>/dev/null || :; fi; }
m_exists() { [ -e "$1" ] || [ -L "$1" ]; }
m_sum() { sha256sum <"$1" | cut -d' ' -f1; }
# m_body PATH: the bytes of a file that is no larger than what the shim reads of it; $REVOKED_MAX comes from the caller
m_body() {
  case $1 in */revoked_signers) m_most=$REVOKED_MAX ;; *) m_most=1048576 ;; esac
  if [ -f "$1" ] && [ "$(stat -Lc %s "$1")" -le "$m_most" ]; then printf 'body %s ' "$1"; base64 <"$1" | tr -d '\n'; echo; fi
}
m_known() { [ -f "$1/index" ] && cut -d' ' -f6- "$1/index" | grep -qxF -e "$2"; }

# m_note KIND UID GID MODE PATH: a durable line of the index, made before the change that it undoes
m_note() {
  m_n=$(($(wc -l <"$O/index") + 1))
  if [ "$1" = file ]; then cp -a -- "$5" "$O/$m_n" && m_sync "$O/$m_n" || m_die 1 "cannot save $5"; fi
  printf '%s %s %s %s %s %s\n' "$m_n" "$@" >>"$O/index" && m_sync "$O/index" || m_die 1 "cannot record $5"
}
# m_touch PATH [KIND-WHEN-ABSENT]: save PATH as it is, once
m_touch() {
  m_known "$O" "$1" && return 0
  if ! m_exists "$1"; then m_note "${2:-absent}" 0 0 0 "$1"
  elif [ -d "$1" ] && [ ! -L "$1" ]; then m_note dir $(stat -c '%u %g %a' -- "$1") "$1"
  else m_note file 0 0 0 "$1"; fi
}

m_check_dir() { [ -d "$1" ] && [ ! -L "$1" ] && [ "$(stat -c '%u:%g %a' -- "$1")" = "0:0 $2" ]; }
# m_dir PATH MODE KIND: a folder of root's
m_dir() {
  m_check_dir "$1" "$2" && return 0
  if m_exists "$1" && { [ -L "$1" ] || [ ! -d "$1" ]; }; then m_die 43 "$1 is there and is not a folder: move it away"; fi
  m_touch "$1" "$3"
  [ -d "$1" ] || mkdir -- "$1" || return 1
  chown 0:0 -- "$1" && chmod "$2" -- "$1" && m_label "$1"
}

m_check_mode() { [ -f "$1" ] && [ ! -L "$1" ] && [ "$(stat -c '%u:%g %a' -- "$1")" = "0:0 $2" ]; }
m_check_file() { m_check_mode "$1" "$2" && [ "$(m_sum "$1")" = "$3" ]; }
# m_file PATH MODE [SHA256] < bytes: written beside, flushed, renamed over
m_file() {
  if [ -d "$1" ] && [ ! -L "$1" ]; then m_die 43 "$1 is a folder: move it away"; fi
  m_touch "$1"
  m_t=$(m_tmp "$1")
  rm -f -- "$m_t" && cat >"$m_t" || return 1
  if [ -n "${3:-}" ] && [ "$(m_sum "$m_t")" != "$3" ]; then rm -f -- "$m_t"; m_die 1 "$1 arrived damaged"; fi
  chown 0:0 -- "$m_t" && chmod "$2" -- "$m_t" && m_sync "$m_t" && mv -fT -- "$m_t" "$1" && m_label "$1" && m_sync "${1%/*}"
}
m_check_once() { m_check_mode "$1" "$2"; }
# m_once PATH MODE < bytes: content is written only where there is none; then only the mode is kept
m_once() {
  if [ -f "$1" ] && [ ! -L "$1" ]; then m_touch "$1"; chown 0:0 -- "$1" && chmod "$2" -- "$1"; else m_file "$1" "$2"; fi
}

# sshd for tests of its configuration: gives it what it lacks where it has never run
m_sshd() {
  m_k=
  while :; do
    { m_e=$("$SSHD" ${m_k:+-h "$m_k/key"} "$@" 2>&1 >&3); m_s=$?; } 3>&1
    if [ $m_s = 0 ]; then break; fi
    case $m_e in
      *"rivilege separation directory"*) [ ! -d /run/sshd ] && mkdir -m 0755 /run/sshd && continue ;;
      *"no hostkeys available"*)
        [ -z "$m_k" ] && m_k=$(m_scratch) && ssh-keygen -q -t ed25519 -N '' -f "$m_k/key" </dev/null && continue ;;
    esac
    printf '%s\n' "$m_e" | tr -d '\r' >&2
    break
  done
  if [ -n "$m_k" ]; then rm -rf -- "$m_k"; fi
  return $m_s
}
# m_valid visudo|sshd FILE
m_valid() {
  case $1 in
    visudo) visudo -cf "$2" >&2 ;;
    sshd) m_sshd -t -f "$2" ;;
  esac
}
# m_adapt visudo|sshd < template > text: every `=` line, and each `?` line that the tool takes
m_adapt() {
  m_w=$(m_scratch) || return 1
  cat >"$m_w/template"
  sed 's/^.//' "$m_w/template" >"$m_w/text"
  if ! m_valid "$1" "$m_w/text" 2>/dev/null; then
    : >"$m_w/text"
    while IFS= read -r m_l; do
      m_x=${m_l#?}
      if [ "${m_l%"$m_x"}" = '?' ]; then
        { if [ "$1" = sshd ]; then echo 'Match User root'; fi; printf '%s\n' "$m_x"; } >"$m_w/one"
        m_valid "$1" "$m_w/one" 2>/dev/null || continue
      fi
      printf '%s\n' "$m_x" >>"$m_w/text"
    done <"$m_w/template"
    m_valid "$1" "$m_w/text" || { rm -rf -- "$m_w"; return 1; }
  fi
  cat "$m_w/text"
  rm -rf -- "$m_w"
}
# m_check_adaptive TOOL PATH MODE < template
m_check_adaptive() { m_check_mode "$2" "$3" && m_adapt "$1" | cmp -s - "$2"; }
m_adaptive() {
  m_a=$(m_adapt "$1") || m_die 1 "$1 does not take the text of $2"
  printf '%s\n' "$m_a" | m_file "$2" "$3"
}

m_sshd_T() { m_sshd -T -C "user=$1,host=localhost,addr=127.0.0.1,laddr=127.0.0.1,lport=22" ${2:+-f "$2"}; }
m_check_pinned() {
  m_c=$(m_sshd_T "$1" "${4:-}") || return 1
  printf '%s\n' "$m_c" | grep -qxF "forcecommand $2" && printf '%s\n' "$m_c" | grep -qxF "authorizedkeysfile $3"
}
# m_pin ACCOUNT COMMAND KEYS DROP-IN: where sshd does not read its drop-in folder, make it read ours
m_pin() {
  m_check_pinned "$1" "$2" "$3" && return 0
  m_f=/etc/ssh/sshd_config
  [ -f "$m_f" ] && [ ! -L "$m_f" ] || m_die 43 "$m_f is not a plain file: make sshd include $4 by hand"
  m_w=$(m_scratch) || return 1
  { printf 'Include %s\n' "$4"; cat "$m_f"; } >"$m_w/new"
  if ! m_check_pinned "$1" "$2" "$3" "$m_w/new" 2>/dev/null; then
    # No Include (before 8.2): the block itself, before the first Match, else at the end.
    awk -v d="$4" 'function block(l) { print "# BEGIN muster"; while ((getline l <d) > 0) print l; print "# END muster"; done = 1 }
      !done && tolower($1) == "match" { block() } { print } END { if (!done) block() }' "$m_f" >"$m_w/new"
    m_check_pinned "$1" "$2" "$3" "$m_w/new" || { rm -rf -- "$m_w"; m_die 43 "sshd does not pin $1 although told so: look for an earlier Match in $m_f"; }
  fi
  m_touch "$m_f"
  m_t=$(m_tmp "$m_f")
  cp -a -- "$m_f" "$m_t" && cat "$m_w/new" >"$m_t" && m_sync "$m_t" && mv -fT -- "$m_t" "$m_f" && m_label "$m_f"
  m_s=$?
  rm -rf -- "$m_w"
  return $m_s
}
