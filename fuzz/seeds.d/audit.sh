# shellcheck shell=bash
# Chains of audit records; the hashes are those of sha256sum(1).
record() { # record MEMBERS: appends one to the file chain
  local prev seq
  seq=$(($(wc -l <chain) + 1))
  prev=$(tail -n 1 chain | tr -d '\n' | sha256sum | cut -d' ' -f1)
  [ "$seq" -gt 1 ] || prev=$(printf '%064d' 0)
  printf '{"seq":%d,"prev":"%s",%s}\n' "$seq" "$prev" "$1" >>chain
}
: >chain
record '"event":"claimed","who":"alice"'
record '"event":"call","op":"node.read","decision":"allowed"'
record '"event":"call","op":"node.reset","decision":"denied"'
put audit_chain good-whole <chain
tail -n 2 chain | put audit_chain good-second-file
{ cat chain; printf '{"seq":4,"pre'; } | put audit_chain good-torn
sed 2d chain | put audit_chain bad-taken-out
sed 's/alice/mallory/' chain | put audit_chain bad-changed
printf 'words\n' | put audit_chain bad-words
put audit_chain bad-empty </dev/null
