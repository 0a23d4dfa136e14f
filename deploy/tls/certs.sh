#!/usr/bin/env bash
# Certificates for cellgate with openssl 3, for those who have no CA of their own.
#   certs.sh DIR ca NAME                   a CA: DIR/ca.pem, DIR/ca-key.pem
#   certs.sh DIR server NAME SAN[,SAN...]  of a server: SAN is DNS:name or IP:address
#   certs.sh DIR caller NAME URI[,URI...]  of a caller: URI is cellgate://ROLE/NAME
# Gives DIR/NAME.pem and DIR/NAME-key.pem, in place of those that were there. DAYS is
# how long it is valid (90; a CA ten years).
set -euo pipefail
dir=${1-} kind=${2-} name=${3-} alternatives=${4-}
case $#:$kind in
  3:ca) ;;
  4:server) use=serverAuth ;;
  4:caller) use=clientAuth alternatives=URI:${alternatives//,/,URI:} ;;
  *) sed -n '3,5s/^# *//p' "$0" >&2; exit 2 ;;
esac
# ssl runs openssl, and shows its output only if it fails.
ssl() { local out; out=$(openssl "$@" 2>&1) || { echo "openssl $1: $out" >&2; exit 1; }; }
umask 077
mkdir -p "$dir"

if [ "$kind" = ca ]; then
  [ ! -e "$dir/ca-key.pem" ] || { echo "$dir/ca-key.pem is there already" >&2; exit 1; }
  ssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days "${DAYS-3650}" -subj "/CN=$name" \
    -addext 'basicConstraints=critical,CA:TRUE,pathlen:0' -addext 'keyUsage=critical,keyCertSign,cRLSign' \
    -keyout "$dir/ca-key.pem" -out "$dir/ca.pem"
  exit
fi
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
ssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj "/CN=$name" -keyout "$new/key" -out "$new/request"
printf '%s\n' 'basicConstraints=critical,CA:FALSE' 'keyUsage=critical,digitalSignature' \
  "extendedKeyUsage=$use" "subjectAltName=$alternatives" >"$new/extensions"
ssl x509 -req -in "$new/request" -CA "$dir/ca.pem" -CAkey "$dir/ca-key.pem" -days "${DAYS-90}" \
  -extfile "$new/extensions" -out "$new/cert"
# Each file changes at once; a process that reads a new key beside an old certificate
# keeps what it had until both fit.
cp "$new/key" "$dir/.$name-key" && mv "$dir/.$name-key" "$dir/$name-key.pem"
cp "$new/cert" "$dir/.$name" && mv "$dir/.$name" "$dir/$name.pem"
