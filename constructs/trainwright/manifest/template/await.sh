# Waits until each data set is there as a whole: its marker, an argument each, is written last.
set -eu

waited=0
for marker in "$@"; do
  until [ -e "$marker" ]; do
    if [ "$waited" -ge "$BUDGET_SECONDS" ]; then
      printf '%s\n' "The data is not complete after $BUDGET_SECONDS s of waiting for $marker." \
        "Look at the Jobs that fetch it: kubectl describe jobs --namespace $NAMESPACE --selector $SELECTOR" >&2
      exit 1
    fi
    [ "$waited" -gt 0 ] || printf '%s\n' "waiting for $marker" >&2
    sleep 5
    waited=$((waited + 5))
  done
done
