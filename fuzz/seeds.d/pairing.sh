# Seeds for pairing: codes as people type them, bodies of both sides, and exchanges. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154

printf 'K7QM-93XF' | put pairing_code good-shown
printf ' k7 qm-93-Xf\r\n' | put pairing_code good-typed
printf '00000000' | put pairing_code good-zeros
printf 'K7QM-93X' | put pairing_code bad-short
printf 'K7QM-93XO' | put pairing_code bad-letter
printf 'K7QM–93XF' | put pairing_code bad-dash

# Shares that are points of the group: those of the crate's own fixed exchange.
ours=$(printf 7accc0e6097ed48bb82d6e24d607b6a9e3924d767cead805cfefc2c7f27de21b | unhex | b64)
theirs=$(printf c674d735ec13d8dc329dfeafb59de06c09d8f417200d20f753827d2ba626d015 | unhex | b64)
bytes() { head -c "$1" /dev/zero | tr '\0' "$2" | b64; }
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=operator -keyout ca.key -out ca.pem 2>/dev/null
json() { awk '{printf "%s\\n", $0}' "$1"; }
started='{"session":"'$(bytes 16 '\1')'","share":"'$theirs'"}'
printf '{"step":1,"share":"%s"}' "$ours" | put pairing_message good-start
printf '%s' "$started" | put pairing_message good-started
printf '{"step":2,"session":"%s","confirm":"%s","operatorCA":"%s","document":"muster:\\n  role: \\"init\\"\\n","acknowledge":false}' \
  "$(bytes 16 '\1')" "$(bytes 32 '\2')" "$(json ca.pem)" | put pairing_message good-confirm
printf '{"open":true,"operatorCA":"%s"}' "$(json ca.pem)" | put pairing_message good-open
printf '{"enrolled":true,"operatorCA":"SHA256:abc","warnings":["w"],"confirm":"%s"}' "$(bytes 32 '\3')" |
  put pairing_message good-enrolled
printf '{"reason":"would-bootstrap","error":"say so","confirm":"%s"}' "$(bytes 32 '\3')" | put pairing_message good-refused
printf '{"code":"K7QM-93XF","operatorCA":"x"}' | put pairing_message bad-one-step
printf '{"step":2,"share":"%s"}' "$ours" | put pairing_message bad-mixed
printf '{"step":1,"share":"%s"}' "$(bytes 31 '\1')" | put pairing_message bad-length
printf '{"step":1,"step":1,"share":"%s"}' "$ours" | put pairing_message bad-doubled
printf '{"enrolled":true,"reason":"x","operatorCA":"y"}' | put pairing_message bad-both
printf '["K7QM-93XF"]' | put pairing_message bad-list

printf 'begin 1 K7QM-93XF\nprove 0\n' | put pairing_exchange good-right
printf 'begin 1 00000000\nprove 0\nwait 1000\nbegin 1 k7qm93xf\nprove 1\n' | put pairing_exchange good-after-a-slip
{
  printf 'begin 1 00000000\nbegin 2 11111111\nprove 0\nprove 1\nprove 0\nwait 1000\n'
  printf 'begin 3 K7QM-93XF\nswap 2\nwait 2000\nbegin 3 K7QM-93XF\nbegin 3 K7QM-93XF\nbegin 3 K7QM-93XF\nprove 3\ncross 4 5\n'
  printf 'wait 8000\nbegin 4 K7QM-93XF\nfull\nprove 6\nroom\nbegin 4 K7QM-93XF\nprove 7\n'
} | put pairing_exchange good-many
{ for n in 0 1 2 3 4; do printf 'begin 1 00000000\nprove %s\nwait 8000\n' $n; done; printf 'begin 1 K7QM-93XF\nprove 5\n'; } |
  put pairing_exchange bad-locked
{ printf 'begin 1 K7QM-93XF\nwait 10000\nprove 0\n'; } | put pairing_exchange bad-late
{ for n in 1 2 3 4 5 6 7 8 9; do printf 'begin %s K7QM-93XF\nbegin %s 00000000\n' $n $n; done; printf 'prove 0\nprove 1\n'; } |
  put pairing_exchange bad-crowd
{
  printf 'body {"step":1,"share":"%s"}\n' "$ours"
  printf 'body {"step":2,"session":"%s","confirm":"%s","operatorCA":"CA"}\n' "$(bytes 16 '\1')" "$(bytes 32 '\2')"
  printf 'body {"step":1,"share":"%s"}\n' "$(bytes 32 '\0')"
} | put pairing_exchange bad-stranger
{
  printf 'impostor\n%s\n{"enrolled":true,"operatorCA":"SHA256:abc","confirm":"%s"}\n' "$started" "$(bytes 32 '\2')"
  printf 'impostor\n{"session":"%s","share":"%s"}\n{"reason":"x","error":"y","confirm":"%s"}\n' \
    "$(bytes 16 '\1')" "$ours" "$(bytes 32 '\2')"
} | put pairing_exchange bad-impostor
