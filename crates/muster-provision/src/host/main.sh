m_fetch() {
  if command -v curl >/dev/null; then curl -fsSL --retry 3 -- "$1"
  elif command -v wget >/dev/null; then wget -qO- -- "$1"
  else m_die 1 "neither curl nor wget is here to fetch $1"; fi
}
m_name() { printf '%s' "$1" | tr - _; }
m_todo() { for m_s in $STEPS; do if ! "c_$(m_name "$m_s")" 2>/dev/null; then echo "$m_s"; fi; done; }
m_end() {
  m_code=$?
  trap - EXIT
  if [ -n "${ID:-}" ]; then
    echo "muster-provision: putting everything back" >&2
    (m_revert failed "$ID") || m_code=1
  fi
  exit "$m_code"
}
m_open_one() {
  if [ -f "$O/id" ]; then
    echo "muster-provision: an earlier provisioning did not end; it is put back first" >&2
    (m_revert next-run) || exit 1
  fi
  ID=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
  trap m_end EXIT
  trap 'exit 1' HUP INT TERM
  { m_lib; printf 'm_revert "$@"\nexit $?\n'; } | (m_begin "$ID" "$1" 600) || exit 1
}
m_main() {
  [ "$(id -u)" = 0 ] || m_die 1 "root is needed"
  for m_x in flock sha256sum base64 useradd visudo sudo bash "$SSHD"; do command -v "$m_x" >/dev/null || m_die 1 "${m_x##*/} is not here: install it"; done
  m_sshd -t || m_die 43 "sshd -t already refuses the configuration as it is: mend it first"
  m_list=$(m_todo)
  if [ -z "$m_list" ]; then echo "muster-provision: nothing to do"; return 0; fi
  m_open_one "$DIGEST"
  for m_s in $m_list; do
    echo "muster-provision: $m_s"
    "i_$(m_name "$m_s")" | (m_need_open "$ID" && m_log "step $m_s" && "a_$(m_name "$m_s")" && m_log "done $m_s") || m_die 1 "step $m_s failed"
  done
  m_list=$(m_todo)
  [ -z "$m_list" ] || m_die 1 "carried out, and still not so: $m_list"
  m_granted "$ACCOUNT" || exit 1
  m_sshd -t || m_die 1 "sshd -t refuses the configuration"
  m_log reload
  m_reload || m_die 1 "sshd did not reload"
  m_manifest | (m_commit "$ID") || exit 1
  ID=
  echo "muster-provision: done. The login was not proven from here: prove it with \`muster host probe\` before you leave."
}
m_undo() {
  [ "$(id -u)" = 0 ] || m_die 1 "root is needed"
  [ -f "$P/baseline/index" ] || m_die 43 "nothing is recorded in $P"
  m_open_one unprovision
  for m_p in $(sort -rn "$P/baseline/index" | awk '$2 == "file" || $2 == "absent" { print $6 }'); do
    (m_need_open "$ID" && m_idle && m_log "step retire" && m_retire "$m_p") || m_die 1 "$m_p is not put back"
  done
  m_sshd -t || m_die 1 "sshd -t refuses the configuration"
  m_log reload
  m_reload || m_die 1 "sshd did not reload"
  (m_close "$ID") || exit 1
  ID=
  m_purge
  echo "muster-provision: undone"
}
case "${1:-}" in
  '') m_main ;;
  --check)
    [ "$(id -u)" = 0 ] || m_die 1 "root is needed"
    m_list=$(m_todo)
    [ -z "$m_list" ] || { echo "$m_list" | sed 's/^/to do: /'; exit 2; } ;;
  --undo) m_undo ;;
  *) m_die 1 "no argument, --check or --undo is known, not $1" ;;
esac
