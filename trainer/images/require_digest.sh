#!/bin/sh
# require_digest.sh NAME IMAGE: exit code 1 and a sentence on standard error where IMAGE is not named by digest.
#
# A tag moves: the same Dockerfile would build another image tomorrow, and nobody would know from what.
set -eu
LC_ALL=C
digest=${2##*@sha256:}
case $2@${#digest}@$digest in
  *@sha256:*@64@*[!0-9a-f]*) ;;
  *@sha256:*@64@*) exit 0 ;;
esac
echo "$1 is '$2', which names no digest; look one up with \`docker buildx imagetools inspect IMAGE:TAG\` and pass" \
  "--build-arg $1=IMAGE@sha256:DIGEST (docs/images.md)" >&2
exit 1
