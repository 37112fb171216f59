# Fetches a data set once: copies it, compares it, and only then writes the marker that pods wait for.
set -eu

marker=$FOLDER.complete
listing=${TMPDIR:-/tmp}/listing
problem=${TMPDIR:-/tmp}/problem
child=

say() { printf '%s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# In the background, since a shell that waits in the foreground hears of SIGTERM when the transfer is over.
transfer() {
  "$@" &
  child=$!
  wait "$child"
}
trap 'test -z "$child" || kill "$child" 2>/dev/null; exit 143' TERM

copy() { transfer rclone sync "$@" "$SOURCE" "$FOLDER"; }
compare() { transfer rclone check "$SOURCE" "$FOLDER"; }
flush() { sync -f "$FOLDER" 2>/dev/null || sync; }

if [ -e "$marker" ]; then
  say "$ORIGIN is there already:"
  cat "$marker" >&2
  exit 0
fi

mkdir -p "$FOLDER" || fail "The volume cannot be written to: group 1000 must be allowed to write there."

if ! transfer rclone lsf --max-depth 1 "$SOURCE" >"$listing" 2>"$problem"; then
  cat "$problem" >&2
  if grep -q -E 'AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|invalid_grant|(StatusCode:|Error) 40[13]' "$problem"; then
    fail "The object store does not let $CREDENTIALS read $ORIGIN: check them, and what they may read."
  elif grep -q -E "NoSuchBucket|directory not found|bucket doesn't exist" "$problem"; then
    fail "There is nothing at $ORIGIN: check the bucket and the prefix."
  fi
  fail "$ORIGIN cannot be read: see the line above."
fi
[ -s "$listing" ] || fail "There is nothing at $ORIGIN: check the bucket and the prefix."

copy || fail "The copy of $ORIGIN is not complete: see the lines above. The next pod goes on with the files that are missing."
if ! compare; then
  say "What differs is copied again, now by its content."
  copy --checksum && compare || fail "The copy of $ORIGIN differs from it: see the lines above."
fi

flush # the files, before the marker speaks for them
{
  printf '%s\n' "$ORIGIN"
  date -u '+complete since %Y-%m-%dT%H:%M:%SZ'
  rclone version | head -n 1
} >"$FOLDER.draft"
flush
mv "$FOLDER.draft" "$marker"
flush
say "$ORIGIN is complete."
