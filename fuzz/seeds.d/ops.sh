# shellcheck shell=bash
# Records as journalctl(1) writes them, behind a byte that says where they are cut; signing policies of images (containers-policy.json(5)) behind the name of one, and what bootc prints of a host.
policy() { printf '%s\n%s' "$1" "$2"; }
signed='{"type":"sigstoreSigned","keyPath":"/k","signedIdentity":{"type":"matchRepository"}}'
gpg='{"type":"signedBy","keyType":"GPGKeys","keyPaths":["/a","/b"]}'
any='{"type":"insecureAcceptAnything"}'
scopes="{\"default\":[{\"type\":\"reject\"}],\"transports\":{\"docker\":{\"r.example.com:5000/os\":[$signed],\"*.example.com\":[$gpg],\"\":[$any]},\"dir\":{\"\":[$any]}}}"
digest=$(printf 'an image' | sha256sum | cut -d' ' -f1)
policy r.example.com:5000/os/node:2 "$scopes" | put image_policy good-repository
policy "r.example.com/os@sha256:$digest" "$scopes" | put image_policy good-domain
policy quay.io/a "$scopes" | put image_policy good-transport
policy quay.io/a "{\"default\":[$any,$signed]}" | put image_policy good-default
policy os/node "$scopes" | put image_policy bad-name
policy quay.io/a '{"default":[]}' | put image_policy bad-empty
policy quay.io/a "{\"default\":[$any],\"default\":[$any]}" | put image_policy bad-twice
policy quay.io/a '{"default":[{"type":"signedBy"}]}' | put image_policy bad-keyless
fixtures=$fuzz/../crates/musterd/src/ops/upgrade/bootc
put bootc_status good-staged <"$fixtures/staged.json"
put bootc_status good-no-host <"$fixtures/not-a-host.json"
printf '{"status":{"booted":{"image":null}}}' | put bootc_status good-no-image
printf '{"status":null}' | put bootc_status bad-null
printf 'apiVersion: x\n' | put bootc_status bad-yaml
at() { printf '\004'; cat; }
journal() { # journal MESSAGE
  printf '{"__CURSOR":"s=1;i=2","MESSAGE":%s,"__MONOTONIC_TIMESTAMP":"7","_BOOT_ID":"0a","PRIORITY":"3","_SYSTEMD_UNIT":"kubelet.service","__REALTIME_TIMESTAMP":"1000000000000001"}' "$1"
}
journal '"started"' | at | put journal_record good-text
journal '[98,121,255]' | at | put journal_record good-bytes
journal '["one",[116,119,111]]' | at | put journal_record good-twice
journal 'null' | at | put journal_record good-null
printf '{"__REALTIME_TIMESTAMP":"1","_TRANSPORT":"kernel","UNIT":"x","_SYSTEMD_UNIT":"init.scope"}' | at | put journal_record good-kernel
journal '"\ud83d\ude00 \"__REALTIME_TIMESTAMP\":\"' | at | put journal_record bad-cut
printf '{"MESSAGE":"no time"}' | at | put journal_record bad-time
printf -- '-- No entries --' | at | put journal_record bad-words
