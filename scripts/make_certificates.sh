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
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" \
    2>/dev/null
}

# The part of subjectAltName for a name or an address.
alternative() {
  if [[ $1 == *:* || $1 =~ ^[0-9]+(\.[0-9]+){3}$ ]]; then
    echo "IP:$1"
  else
    echo "DNS:$1"
  fi
}

if [[ ! -e $authority.key ]]; then
  new_key "$authority.key"
  openssl req -x509 -new -key "$authority.key" -out "$authority.pem" \
    -days 3650 -subj '/CN=stagecoach authority' \
    -addext 'keyUsage=critical,keyCertSign'
fi

for names in "$@"; do
  first=${names%%,*}
  alternatives='DNS:localhost,IP:127.0.0.1,IP:::1'
  for name in ${names//,/ }; do
    alternatives+=,$(alternative "$name")
  done
  new_key "$directory/$first.key"
  openssl req -new -key "$directory/$first.key" -subj "/CN=$first" |
    openssl x509 -req -CA "$authority.pem" -CAkey "$authority.key" \
      -set_serial "0x$(openssl rand -hex 16)" -days 730 \
      -extfile <(printf 'subjectAltName=%s\n' "$alternatives") \
      -out "$directory/$first.pem" 2>/dev/null
  echo "$directory/$first.pem: $alternatives"
done
