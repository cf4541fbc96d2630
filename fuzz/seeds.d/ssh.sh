# Seeds for what muster-ssh reads. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154

# --- what a server sends before it has proven who it is: a real sshd's own bytes
mkdir -p /run/sshd 2>/dev/null || true
for key in ed25519 p384 rsa; do
  cp "$key.pub" host.pub
  ssh-keygen -q -s ca -h -I "host $key" -n host.example.net,10.0.0.5 -z 7 -V 20200101000000Z:20380101000000Z host.pub
  cp host-cert.pub "host-$key-cert.pub"
  blob "host-$key-cert.pub" | put host_certificate "good-$key"
done
handshake() { # NAME, then options of sshd
  rm -f stream
  ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
    -o "ProxyCommand=sh -c '/usr/sbin/sshd -i -f /dev/null -o UsePAM=no ${*:2} 2>/dev/null | tee stream'" host true ||
    true
  head -c 4000 stream | put ssh_handshake "$1"
}
for key in ed25519 p384 rsa; do
  handshake "good-$key" "-o HostKey=$work/$key -o KexAlgorithms=curve25519-sha256"
done
handshake good-certificate "-o HostKey=$work/rsa -o HostCertificate=$work/host-rsa-cert.pub -o KexAlgorithms=curve25519-sha256"
handshake good-default "-o HostKey=$work/ed25519"
head -c 600 "$corpus/ssh_handshake/seed-good-ed25519" | put ssh_handshake bad-cut
printf 'SSH-1.5-old\r\n' | put ssh_handshake bad-version
printf 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n' | put ssh_handshake bad-http
printf 'SSH-2.0-x\r\n\377\377\377\377\024' | put ssh_handshake bad-giant
{ printf 'Hello\r\nSSH-2.0-x\r\n'; printf '%s' "0000001c04010000000b000000044279652e000000000102030405060708" | unhex; } |
  put ssh_handshake bad-parting

cp ed25519.pub host.pub
ssh-keygen -q -s ca -I user -n host.example.net -V always:forever host.pub
blob host-cert.pub | put host_certificate bad-user
ssh-keygen -q -s ca -h -I nobody -V always:forever host.pub
blob host-cert.pub | put host_certificate bad-nobody
ssh-keygen -q -s ca -h -I other -n other.example.net -V always:forever host.pub
blob host-cert.pub | put host_certificate bad-other-name
ssh-keygen -q -s ca -h -I old -n host.example.net -V 20100101000000Z:20110101000000Z host.pub
blob host-cert.pub | put host_certificate bad-expired
ssh-keygen -q -s small -t ssh-rsa -h -I sha1 -n host.example.net -V always:forever host.pub 2>/dev/null &&
  blob host-cert.pub | put host_certificate bad-sha1
blob host-ed25519-cert.pub | head -c 150 | put host_certificate bad-short

# --- what an operator has at hand
{
  echo '# a comment'
  for key in $kinds; do echo "edge-$key,10.0.0.5 $(cat "$key.pub")"; done
  echo "[edge-1]:2222,[::1]:22 $(cat p256.pub)"
  echo "@cert-authority *.example.net,!bad.example.net $(cat ca.pub)"
  echo "@revoked * $(cat small.pub)"
  echo "edge-? $(cut -d' ' -f1,2 ed25519.pub)"
} >known_hosts
put known_hosts good <known_hosts
put known_hosts good-empty </dev/null
ssh-keygen -q -H -f known_hosts 2>/dev/null
put known_hosts good-hashed <known_hosts
echo "edge-1 2048 65537 12345" | put known_hosts bad-protocol-1
echo "@trusted edge-1 $(cat ed25519.pub)" | put known_hosts bad-marker
echo "!edge-1 $(cat ed25519.pub)" | put known_hosts bad-nobody
echo "|2|YQ==|YQ== $(cat ed25519.pub)" | put known_hosts bad-hash
echo "edge-1 ssh-rsa $(cut -d' ' -f2 ed25519.pub)" | put known_hosts bad-kind
for key in $kinds; do
  put host_key_text "good-line-$key" <"$key.pub"
  ssh-keygen -l -f "$key.pub" | put host_key_text "good-listing-$key"
done
ssh-keygen -l -f rsa.pub | cut -d' ' -f2 | put host_key_text good-fingerprint
ssh-keygen -l -E md5 -f rsa.pub | put host_key_text bad-md5
put host_key_text bad-certificate <host-cert.pub
echo 'ssh-ed25519' | put host_key_text bad-one-word
n=0
for a in 10.0.0.5 ::1 '[::1]' fe80::1%eth0 edge-1.example.net Edge_1; do
  n=$((n + 1))
  printf '%s' "$a" | put address "good-$n"
done
for a in '' '[::1' 10.0.0.5:22 -oProxyCommand=x 'a b' 10.0.0.5%eth0; do
  n=$((n + 1))
  printf '%s' "$a" | put address "bad-$n"
done
for key in ed25519 p256 p384 p521 rsa; do
  put ssh_key_file "good-$key" <"$key"
done
ssh-keygen -q -t ed25519 -N passphrase -Z aes256-ctr -a 1 -C locked -f locked-login
put ssh_key_file good-locked <locked-login
head -n 3 rsa | put ssh_key_file bad-short
ssh-keygen -q -t rsa -b 2048 -m PEM -N '' -f pem
put ssh_key_file bad-pem <pem

# --- an agent's answers
eval "$(ssh-agent -s -a "$work/agent")" >/dev/null
for key in ed25519 p256 rsa; do ssh-add -q "$key"; done
ask() { # hexadecimal of a request -> the answer's body
  python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
body = bytes.fromhex(sys.argv[2]); s.sendall(len(body).to_bytes(4, "big") + body)
n = int.from_bytes(s.recv(4), "big"); out = b""
while len(out) < n: out += s.recv(n - len(out))
sys.stdout.buffer.write(out)' "$work/agent" "$1"
}
ask 0b | put agent_answer good-list
for key in ed25519 p256 rsa; do
  flags=00000000
  [ $key = rsa ] && flags=00000004
  ask "0d$(blob "$key.pub" | str)$(text 'to sign')$flags" | put agent_answer "good-signature-$key"
done
printf '\5' | put agent_answer bad-failure
ask 0b | head -c 90 | put agent_answer bad-short
printf '\14\377\377\377\377' | put agent_answer bad-count
kill "$SSH_AGENT_PID"
