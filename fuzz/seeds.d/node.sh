# shellcheck shell=bash
# What a node answers, behind one byte: how long the pieces are. The signature of a request is openssl's.
{ printf '\003'; printf '{"progress":"layer 1 of 2"}\n{"staged":{"image":"registry.example/os","digest":"sha256:aa"}}\n'; } |
  put node_answer good-stage
{ printf '\377'; printf '{"time":"2026-11-29T00:00:00.000001Z","unit":"kubelet.service","priority":6,"message":"m \\u0000 \303\251"}\n{"ti'; } |
  put node_answer good-record
{ printf 'x'; printf '{"error":"this needs the role muster:admin","reason":"role","needs":"muster:admin","held":"muster:operator"}'; } |
  put node_answer good-fault
{ printf 'x'; printf '{"nonce":"00112233445566778899aabbccddeeff","seconds":60,"required":false}'; } | put node_answer good-nonce
printf 'x<html>\n[1,2]\n{}\n' | put node_answer bad-other
put node_answer bad-empty </dev/null
openssl ecparam -name prime256v1 -genkey -noout -out node-client.key 2>/dev/null
signature=$(openssl dgst -sha256 -sign node-client.key message | hex)
nonce=$(printf '%032d' 7)
printf '1 %s 0403 %s' "$nonce" "$signature" | put proof_header good-p256
printf '1 %s 403 %s' "$nonce" "$signature" | put proof_header bad-scheme
printf '1  %s 0403 %s' "$nonce" "$signature" | put proof_header bad-two-spaces
printf '1 %s 0403 %s' "${nonce}F" "$signature" | put proof_header bad-nonce

print=SHA256:$(openssl dgst -sha256 -binary message | base64 -w0 | tr -d =)
printf '# pins\nedge-1 192.0.2.7:7443 %s\n[2001:db8::1]:8443 [2001:db8::1]:8443 %s\n' "$print" "$print" | put node_pins good
put node_pins good-empty </dev/null
printf 'edge-1 192.0.2.7:7443\n' | put node_pins bad-short
printf 'edge-1 192.0.2.7:7443 %s x\n' "$print" | put node_pins bad-long
printf '%s 7:%s\n' "$print" "$(sha256sum <message | cut -d' ' -f1)" | put audit_heads good
put audit_heads good-empty </dev/null
printf '%s 07:%s\n' "$print" "$(sha256sum <message | cut -d' ' -f1)" | put audit_heads bad-number
printf '%s\n' "$print" | put audit_heads bad-short
put contexts good <<'Y'
muster-contexts: 1
contexts:
  lab:
    inventory: lab/inventory.yaml
    client: ~/lab/pki/clients/alice.pem
  prod: {client: /etc/c.pem, key: /etc/c.key, authority: ca.pem}
Y
printf 'contexts: {}\n' | put contexts good-none
printf 'contexts: {a: {clent: x}}\n' | put contexts bad-key
printf 'contexts: {a/b: {}}\n' | put contexts bad-name
kept() { # kept TYPE.pub SIGNATURE-HEX: one byte of length, the key, the signature
  printf '%b' "\\x$(printf '%02x' "$(blob "$1" | wc -c)")"
  blob "$1"
  unhex <<<"$2"
}
kept ed25519.pub "$(text ssh-ed25519)$(printf '%0128d' 7 | unhex | str)" | put client_key good-ed25519
kept p256.pub "$(text ecdsa-sha2-nistp256)$(printf '00000001070000000203e8' | unhex | str)" | put client_key good-p256
kept p384.pub '' | put client_key good-p384
kept p521.pub '' | put client_key bad-p521
{ printf '\377'; blob rsa.pub; } | put client_key bad-rsa
