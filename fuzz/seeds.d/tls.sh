# Seeds for the certificates of the node API, made by openssl. Sourced by seeds.sh.
# shellcheck shell=bash disable=SC2154

mkdir -p x509
: >x509/index
echo 1000 >x509/serial
echo 01 >x509/number
cat >x509/conf <<'C'
[ca]
default_ca = all
[all]
database = x509/index
serial = x509/serial
crlnumber = x509/number
new_certs_dir = x509
default_md = sha256
default_crl_days = 9000
policy = any
copy_extensions = none
unique_subject = no
[any]
organizationName = optional
commonName = supplied
[client]
basicConstraints = CA:FALSE
keyUsage = digitalSignature
extendedKeyUsage = clientAuth
[server]
basicConstraints = CA:FALSE
extendedKeyUsage = serverAuth
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = keyCertSign,cRLSign
C
authority() { # NAME KEY-OPTIONS...
  openssl req -x509 -nodes -days 9000 -subj "/CN=$1" -addext keyUsage=keyCertSign,cRLSign -keyout "x509/$1.key" -out "x509/$1.pem" "${@:2}" 2>/dev/null
}
issue() { # AUTHORITY SECTION SUBJECT FROM TO, the certificate's DER on standard output
  openssl req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj "$3" -keyout x509/new.key -out x509/new.csr 2>/dev/null
  openssl ca -batch -notext -config x509/conf -cert "x509/$1.pem" -keyfile "x509/$1.key" -extensions "$2" -in x509/new.csr \
    -startdate "$4" -enddate "$5" -out x509/new.pem 2>/dev/null
  openssl x509 -in x509/new.pem -outform DER
}
list() { openssl ca -gencrl -config x509/conf -cert "x509/$1.pem" -keyfile "x509/$1.key" 2>/dev/null | openssl crl -outform DER; }
der() { openssl x509 -in "x509/$1.pem" -outform DER; }
between() { # FILE..., %% on a line between them
  cat "$1"
  shift
  for one in "$@"; do printf '\n%%%%\n'; cat "$one"; done
}
authority p256 -newkey ec -pkeyopt ec_paramgen_curve:P-256
authority rsa -newkey rsa:2048
authority ed25519 -newkey ed25519
ever='20200101000000Z 20491231235959Z'
for kind in p256 rsa ed25519; do
  der $kind >x509/ca.der
  # shellcheck disable=SC2086
  issue $kind client '/O=muster:admin/CN=alice' $ever >x509/client.der
  list $kind >x509/crl.der
  between x509/ca.der x509/client.der x509/crl.der | put client_certificate "good-$kind"
  put operator_ca "good-$kind" <"x509/$kind.pem"
done
openssl ca -config x509/conf -cert x509/ed25519.pem -keyfile x509/ed25519.key -revoke x509/new.pem 2>/dev/null
list ed25519 >x509/crl.der
between x509/ca.der x509/client.der x509/crl.der | put client_certificate good-revoked
between x509/ca.der x509/client.der | put client_certificate good-no-list
der p256 >x509/other.der
between x509/other.der x509/client.der | put client_certificate bad-other-authority
# shellcheck disable=SC2086
issue ed25519 server '/CN=edge-1' $ever >x509/client.der
between x509/ca.der x509/client.der | put client_certificate bad-purpose
issue ed25519 client '/CN=old' 20100101000000Z 20110101000000Z >x509/client.der
between x509/ca.der x509/client.der | put client_certificate bad-ended
# shellcheck disable=SC2086
issue ed25519 authority '/CN=between' $ever >x509/client.der
between x509/ca.der x509/client.der | put client_certificate bad-authority
between x509/client.der x509/ca.der | put client_certificate bad-turned
cat x509/p256.pem x509/p256.key | put operator_ca bad-key
cat x509/p256.pem x509/rsa.pem | put operator_ca bad-two
openssl x509 -in x509/new.pem | sed 's/A/B/' | put operator_ca bad-bytes
# shellcheck disable=SC2086
issue p256 client '/CN=alice' $ever | openssl x509 -inform DER | put operator_ca bad-client
openssl x509 -in x509/p256.pem -noout -fingerprint -sha256 | put operator_ca bad-fingerprint
printf 'SHA256:%s' "$(der p256 | openssl dgst -sha256 -binary | b64 | tr -d =)" | put operator_ca bad-our-fingerprint
