# Seeds for what the shim reads on a host. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154

put shim_toml good-empty </dev/null
printf 'host = "edge-1"\npools = ["edge"]\n[profiles.tls-bootstrap]\nmin-epoch = 7\n' | put shim_toml good-plain
{
  printf 'host = "edge-1"\npools = ["edge", "lab.2"]\nenvelope-1 = true\nsigners-needed = 2\nrevoked-signers = "optional"\n'
  printf 'max-deadline = 900\nepoch-max-step = 10\n[profiles.tls-bootstrap]\nmin-epoch = 7\n[profiles.other]\n'
  printf '[envelope1]\non-disconnect = "finish"\ndeadline = { install = 3600, join = 60 }\nnamespace = "ns"\nprincipal = "p"\n'
  printf '[environment]\nHTTPS_PROXY = "http://proxy:3128"\nno_proxy = ""\n'
  printf '[keys."%s"]\nphases = ["probe", "join"]\n' "$(ssh-keygen -l -f ed25519.pub | cut -d' ' -f2)"
} | put shim_toml good-whole
printf 'host = "Edge"\n' | put shim_toml bad-host
printf 'signers-needed = 9\n' | put shim_toml bad-range
printf 'signer-needed = 2\n' | put shim_toml bad-key
printf '[environment]\nBASH_ENV = "/tmp/x"\n' | put shim_toml bad-environment
printf '"a\\u0007b" = 1\n' | put shim_toml bad-control
{ printf 'x = '; for _ in $(seq 1000); do printf '{x='; done; } | put shim_toml bad-deep-braces
printf 'x = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[' | put shim_toml bad-deep

printf 'muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\n' | put shim_floors good-empty
printf 'muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 7\nfloor: tls-bootstrap 4294967295\n' | put shim_floors good
printf 'muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 07\n' | put shim_floors bad-number
printf 'muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: b 1\nfloor: a 1\n' | put shim_floors bad-order
printf 'muster-floors: 1\n' | put shim_floors bad-short
put shim_floors bad-empty </dev/null

record() { # GROUP
  printf 'muster-run: 1\nrun: 0123456789abcdef0123456789abcdef\nboot: %s\nshim: %s\ngroup: %s\nphase: join\nsince: 2026-11-29T00:00:00Z\n' \
    "$(cat /proc/sys/kernel/random/boot_id)" "$$ 123456" "$1"
  printf 'envelope: 2\nprofile: tls-bootstrap\nepoch: 7\nintent: %s\nscript: %s\n' \
    "$(printf intent | sha256sum | cut -c1-64)" "$(printf script | sha256sum | cut -c1-64)"
}
record - | put shim_run_record good
record /sys/fs/cgroup/system.slice/ssh.service/muster-run-0123456789abcdef0123456789abcdef | put shim_run_record good-group
record - | head -n 5 | put shim_run_record bad-short
record - | sed 's/phase: join/phase: dance/' | put shim_run_record bad-phase
record - | sed 's/^envelope: .*/envelope: 1/; s/^\(profile\|epoch\|intent\): .*/\1: -/' | put shim_run_record good-envelope-1
record - | sed 's/^epoch: .*/epoch: 4294967296/' | put shim_run_record bad-epoch
record - | sed 's/^intent: ..../intent: /' | put shim_run_record bad-digest

for key in $kinds; do
  echo "publickey $(cut -d' ' -f1,2 "$key.pub")" | put shim_user_auth "good-$key"
done
{
  echo "publickey $(cut -d' ' -f1,2 ed25519.pub)"
  echo "publickey $(cut -d' ' -f1,2 rsa.pub)"
  echo password
} | put shim_user_auth good-two-factors
cp ed25519.pub login.pub
ssh-keygen -q -s ca -I login -n muster login.pub
echo "publickey $(cut -d' ' -f1,2 login-cert.pub)" | put shim_user_auth good-certificate
echo password | put shim_user_auth bad-password
{
  echo "publickey $(cut -d' ' -f1,2 ed25519.pub)"
  echo "publickey ssh-dss AAAA"
} | put shim_user_auth bad-one-of-two
put shim_user_auth bad-empty </dev/null

row='   1: 0100000A:0016 0200000A:C350 01 00000024:00000000 01:00000AB3 00000005     0        0 1 4'
{ printf '10.0.0.2 50000 10.0.0.1 22\n%s\n' "$row"; cat /proc/self/stat; } | put shim_kernel_lines good-v4
{ printf 'fe80::1%%eth0 50000 fe80::2%%eth0 22\n'; sed -n 2p /proc/self/net/tcp; cat /proc/$$/stat; } | put shim_kernel_lines good-v6
printf '10.0.0.2 50000 10.0.0.1 22\n%s\n12 (a) b (c) S 3 12 11 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9\n' "$row" |
  put shim_kernel_lines good-odd-name
printf '10.0.0.2 70000 10.0.0.1 22\n\n\n' | put shim_kernel_lines bad-port
printf '::1 1 ::1 2\n\n12 (a S 3\n' | put shim_kernel_lines bad-stat

# Whole envelopes, as they are for the two readers; on a host that trusts nobody only a probe is answered.
for version in 1 2; do
  for seed in "$corpus/envelope_$version"/seed-*; do
    name=${seed##*/seed-}
    case $name in
      *probe) put shim_decide "good-$version-probe" <"$seed" ;;
      *) put shim_decide "bad-$version-$name" <"$seed" ;;
    esac
  done
done
