#!/bin/bash
# Certificates for a cluster that uses TLS: an authority, and one for each
# machine or person, who are named by host names or addresses. More may be added
# later: an authority that is there already is kept.
#
#   scripts/make_certificates.sh DIRECTORY NAME[,NAME...] ...
#
# Each word makes DIRECTORY/FIRST-NAME.pem and .key, good for all its names and
# for this machine (localhost), for two years; DIRECTORY/authority.pem is for
# everybody, and DIRECTORY/authority.key for nobody but this script. For example
#
#   scripts/make_certificates.sh certificates head,10.0.0.1 10.0.0.2 alice
#   stagecoach-coordinator --listen 10.0.0.1:7070 \
#     --tls-authority authority.pem --tls-certificate head.pem --tls-key head.key
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
  print_usage "${BASH_SOURCE[0]}"
  exit 0
fi
if [[ $# -lt 2 ]]; then
  print_usage "${BASH_SOURCE[0]}" >&2
  exit 2
fi
command -v openssl >/dev/null || {
  echo 'make_certificates: no openssl; run scripts/setup.sh' >&2
  exit 1
}
directory=$1
shift
umask 077
mkdir -p "$directory"
authority=$directory/authority

new_key() {
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"
}

# The part of subjectAltName for a name or an address.
alternative() {
  if [[ $1 == *:* || $1 =~ ^[0-9]+(\.[0-9]+){3}$ ]]; then
    echo "IP:$1"
  else
    echo "DNS:$1"
  fi
}

# Key and certificate appear together, or not at all.
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
publish() {
  mv "$new/key" "$1.key"
  mv "$new/pem" "$1.pem"
}

if [[ ! -e $authority.key ]]; then
  new_key "$new/key"
  openssl req -x509 -new -key "$new/key" -out "$new/pem" \
    -days 3650 -subj '/CN=stagecoach authority' \
    -addext 'keyUsage=critical,keyCertSign'
  publish "$authority"
fi

for names in "$@"; do
  first=${names%%,*}
  if [[ $first == authority ]]; then
    echo 'make_certificates: "authority" is the name of the authority' >&2
    exit 2
  fi
  alternatives='DNS:localhost,IP:127.0.0.1,IP:::1'
  for name in ${names//,/ }; do
    alternatives+=,$(alternative "$name")
  done
  new_key "$new/key"
  openssl req -new -key "$new/key" -subj "/CN=$first" -out "$new/request"
  printf 'subjectAltName=%s\n' "$alternatives" >"$new/extensions"
  if ! openssl x509 -req -in "$new/request" -CA "$authority.pem" \
    -CAkey "$authority.key" -set_serial "0x$(openssl rand -hex 16)" -days 730 \
    -extfile "$new/extensions" -out "$new/pem" 2>"$new/errors"; then
    cat "$new/errors" >&2
    echo "make_certificates: no certificate for $names" >&2
    exit 1
  fi
  publish "$directory/$first"
  echo "$directory/$first.pem: $alternatives"
done
