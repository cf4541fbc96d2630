# Seeds for what provisioning reads from hosts, and for what it writes. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154

doctor() { # the answer of a host that was provisioned; sshd's part is a real sshd's
  printf 'motd of a chatty login\nformat muster-doctor-1\nuid 0\nos Debian GNU/Linux 12 (bookworm)\nhost-name edge-1\n'
  printf 'machine-id 0123456789abcdef0123456789abcdef\nhost-key %s\n' "$(ssh-keygen -l -f ed25519.pub | cut -d' ' -f2)"
  printf 'ssh-version %s\nsudo-version Sudo version 1.9.13p3\nsshd-valid yes\nsshd-listener /usr/sbin/sshd -D\n' "$(ssh -V 2>&1)"
  printf 'account muster muster:*:996:996::/var/lib/muster/home:/bin/sh\naccount-password muster star\naccount-expires muster \n'
  printf 'account-groups muster muster\n'
  /usr/sbin/sshd -T -f /dev/null -o ForceCommand=/usr/bin/muster-shim -o PermitTTY=no -o DisableForwarding=yes \
    -o AuthorizedKeysFile=/etc/muster/authorized_keys.d/%u -o ExposeAuthInfo=yes -o PermitUserRC=no -o ClientAliveInterval=3 \
    -o HostKey="$work/ed25519" -C user=root,host=h,addr=10.0.0.9 | grep -v "$work" | sed 's/^/sshd muster /'
  sed 's/^/sudo muster /' <<'S'
Matching Defaults entries for muster on edge-1:
    env_reset, mail_badpass, secure_path=/usr/local/sbin\:/usr/local/bin, use_pty
Runas and Command-specific defaults for muster:
    Defaults!/usr/bin/muster-shim !log_input, !log_output, !use_pty, !requiretty, env_keep+="SSH_USER_AUTH SSH_CONNECTION"
User muster may run the following commands on edge-1:
    (root) NOPASSWD: /usr/bin/muster-shim ""
S
  printf 'now 1800000000\nsynchronised yes\nshim-sum %064d\nkpssh-sum \nin-home .bashrc\n' 0
  for p in / /usr /usr/bin /etc /etc/muster; do echo "path $p directory|0|0|755|4096"; done
  printf 'path /usr/bin/muster-shim regular-file|0|0|755|1500000\npath /opt/kpssh/kpssh-shim absent\n'
  printf 'path /etc/muster/allowed_signers regular-file|0|0|644|200\nbody /etc/muster/allowed_signers %s\n' "$(b64 <login-keys)"
  printf 'body /etc/muster/shim.toml %s\n' "$(printf 'host = "edge-1"\n[profiles.x]\nmin-epoch = 7\n' | b64)"
  printf 'provision-open \nprovision-record muster\nproc yes\nend .\n'
}
echo "muster namespaces=\"muster-intent\" $(cat ed25519.pub)" >login-keys
doctor | put doctor_answer good
printf 'format muster-doctor-1\nend .\n' | put doctor_answer good-silent
doctor | sed '/^end/d' | put doctor_answer bad-cut
doctor | sed 's/|755|/|999|/' | put doctor_answer bad-mode
doctor | sed 's/^uid 0/uid zero/' | put doctor_answer bad-uid
put doctor_answer bad-empty </dev/null

inspect() {
  printf 'format muster-inspect-1\nuid 0\nsudo-user debian\narch x86_64\nos Debian GNU/Linux 12\nsystemd yes\nmissing visudo\n'
  printf 'sshd-version OpenSSH_9.2p1\nsudo-version Sudo version 1.9.13p3\nsshd-valid yes\n'
  printf 'free-kib 1000000 1000000\nend .\n'
}
inspect | put provision_facts good
inspect | sed '/^end/d' | put provision_facts bad-cut
inspect | sed 's/^uid 0/uid -1/' | put provision_facts bad-uid

put host_spec good-least <<S
profile tls-bootstrap 7
S
put host_spec good-whole <<S
host edge-2.example.net
pool edge
pool lab.2
profile a 1
profile tls-bootstrap 4294967295
signer muster $(cat p256.pub)
signer muster cert-authority,namespaces="muster-intent" $(cat ca.pub)
needed 3
longest 86400
step 1
env HTTPS_PROXY=http://proxy:3128
env no_proxy=a "quoted" \\ back, slash
key $(cat p384.pub)
from 10.0.0.0/8,!10.1.2.3,2001:db8::/32
phases probe join
revoked $(ssh-keygen -l -f rsa.pub | cut -d' ' -f2)
S
put host_spec good-migration <<S
one
deadline join 60
deadline install 3600
S
for name in PATH TZ BASH_ENV LD_PRELOAD POSIXLY_CORRECT MUSTER_X; do
  printf 'profile x 1\nenv %s=1\n' "$name" | put host_spec "bad-env-$name"
done
printf 'profile x 1\nneeded 2\n' | put host_spec bad-threshold
printf 'one\nneeded 2\n' | put host_spec bad-one
put host_spec bad-nothing </dev/null

for key in $kinds; do
  put controller_key "good-$key" <"$key.pub"
done
put controller_key bad-small <small.pub
echo "restrict $(cat ed25519.pub)" | put controller_key bad-options
printf 'ssh-ed25519 AAAA x\ty\n' | put controller_key bad-control
cut -d' ' -f1,2 ed25519.pub | put controller_key good-bare
echo "$(cut -d' ' -f1,2 ed25519.pub) a comment with \"quotes\" and, commas" | put controller_key good-comment

m=muster0123456789abcdef
root() { printf '%b' "$1"; printf '%s' "$2"; printf '\n%%%%\n%s' "${3:-}"; }
root '\0' "noise
$m begin
what the script said

$m end 0
" "$m begin
warned" | put root_answer good
root '\1' "$m begin

$m end 3
" | put root_answer good-failed
root '\1' '' 'sudo: a password is required' | put root_answer bad-password
root '\1' '' 'Sorry, try again.' | put root_answer bad-wrong
root '\377' "$m begin
and then the connection" | put root_answer bad-lost
root '\0' "$m begin

$m end x
" | put root_answer bad-end
