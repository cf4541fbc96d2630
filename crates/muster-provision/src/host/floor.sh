# Floors by root's hand. Needs lib.sh.
# m_floors_put OLD-SUM EVENT PROFILE BEFORE AFTER < text: only while nothing runs, only over what was read
m_floors_put() {
  m_s=/var/lib/muster/shim
  m_check_dir "$m_s" 700 || m_die 43 "$m_s is not a folder of root's alone: provision the host"
  if [ ! -d /run/muster ]; then mkdir -m 0755 /run/muster; fi
  if [ ! -d /run/muster/shim ]; then mkdir -m 0700 /run/muster/shim; fi
  exec 8>>/run/muster/shim/lock || m_die 1 "cannot open /run/muster/shim/lock"
  flock -n 8 || m_die 43 "a run is in progress on this host: wait for it (probe says which)"
  m_c=absent
  if [ -e "$m_s/floors" ]; then m_c=$(m_sum "$m_s/floors"); fi
  [ "$m_c" = "$1" ] || m_die 43 "the floors changed meanwhile: look again"
  m_t=$(m_tmp "$m_s/floors")
  cat >"$m_t" && chmod 0600 "$m_t" && m_sync "$m_t" || m_die 1 "cannot write $m_t"
  # Written down before it counts.
  m_b=$(cat /proc/sys/kernel/random/boot_id)
  m_by=$(printf '%s' "${SUDO_USER:-root}" | tr -cd 'A-Za-z0-9._@-')
  printf '{"event":"%s","run":null,"time":"%s","boot":"%s","profile":"%s","floor_before":%s,"floor_after":%s,"by":"%s"}\n' \
    "$2" "$(m_now)" "$m_b" "$3" "$4" "$5" "$m_by" >>"$m_s/runs.log" && chmod 0600 "$m_s/runs.log" && m_sync "$m_s/runs.log" ||
    m_die 1 "cannot write $m_s/runs.log"
  m_m="$2: profile $3 from $4 to $5, by $m_by"
  printf 'MESSAGE=%s\nPRIORITY=4\nSYSLOG_IDENTIFIER=muster-shim\nMUSTER_EVENT=%s\nMUSTER_PROFILE=%s\nMUSTER_FLOOR_BEFORE=%s\nMUSTER_FLOOR_AFTER=%s\nMUSTER_BY=%s\n' \
    "$m_m" "$2" "$3" "$4" "$5" "$m_by" | logger --journald 2>/dev/null || logger -t muster-shim -p auth.warning -- "$m_m"
  mv -fT -- "$m_t" "$m_s/floors" && m_sync "$m_s"
}
