# shellcheck shell=bash
# Request lines of the node API, and frames between the daemon's processes (crates/musterd/src/wire.rs says their form).
lines() { while IFS='|' read -r name line; do printf '%s' "$line" | put request_line "$name"; done; }
lines <<'LINES'
good-node|GET /v1/node
good-logs|GET /v1/logs?unit=kubelet&lines=50&since=1h30m&follow=true
good-restart|POST /v1/services/kubelet.service/restart
good-undo|POST /v1/lifecycle/cordon?undo=true
good-key|DELETE /v1/access/ssh?fingerprint=SHA256:a%2Bb/c
good-token|GET /v1/join-token?role=worker&expiry=1h
good-audit|GET /v1/audit?after=17&follow=false
good-server|GET /v1/kubeconfig?server=https://10.0.0.5:6443
good-enroll|POST /v1/enroll
bad-slashes|GET //v1/node
bad-percent|GET /v1/%6eode
bad-dots|GET /v1/x/../node
bad-parameter|GET /v1/node;x=1
bad-absolute|GET http://node/v1/node
bad-twice|GET /v1/logs?unit=a&unit=b
bad-unknown|GET /v1/node?debug=true
bad-method|PATCH /v1/node
LINES
frame() { # frame KIND < content
  local h
  h=$(hex)
  printf '%02x%08x%s' "$1" $((${#h} / 2)) "$h" | unhex
}
said() { printf '%s' "$1" | frame 1; }
call='{"is":"call","handle":"00112233445566778899aabbccddeeff","ask":{"op":"logs","unit":"kubelet","follow":true},"request":"GET /v1/logs?unit=kubelet&follow=true"}'
said '{"is":"link","version":1}' | put frames good-link
{ said "$call" && frame 3 </dev/null; } | put frames good-call
{ said '{"is":"enroll","address":"10.0.0.1"}' && printf '{"step":1}' | frame 2 && frame 3 </dev/null; } | put frames good-enroll
{ said '{"status":200,"content":"application/json","audit":"7:00","no_store":false}' && printf '{}' | frame 2 && frame 3 </dev/null; } | put frames good-reply
said '{"is":"open","id":1,"address":"::1","proof":{"certificate":"AA==","message":"AA==","scheme":1027,"signature":"AA=="}}' | put frames good-open
said '{"is":"serve","certificate":"AA==","key":"AA==","listen":"[::]:7443","authority":"AA=="}' | put frames good-serve
said '{"is":"not-opened","id":1,"fault":{"status":401,"fault":{"error":"it was revoked","reason":"revoked"}}}' | put frames good-not-opened
said '{"is":"drop","handle":"00"}' | put frames good-drop
{ said '{"url":"https://h/ca.pem","max":262144,"seconds":30,"bearer":"t"}' && printf 'PEM' | frame 2 && frame 3 </dev/null; } | put frames good-fetch
{ said '{"is":"begun"}' && said '{"is":"got"}' && printf 'text' | frame 2 && frame 3 </dev/null; } | put frames good-fetched
{ said '{"is":"begun"}' && said '{"is":"failed","why":{"why":"status","code":503}}'; } | put frames good-not-fetched
said '{"is":"failed","why":{"why":"because"}}' | put frames bad-why
said '{"is":"exec","line":"id"}' | put frames bad-unknown
said "${call/logs/exec}" | put frames bad-operation
printf '\001\100\000\000\000' | put frames bad-long
printf '\011\000\000\000\000' | put frames bad-kind
said "$call" | head -c 40 | put frames bad-cut
