#!/bin/sh
# The false alarms of this machine: two nights of the same code, compared. Nothing changes between them, so every row that comes out better or
# worse is one. On a GPU: 42 cases, more than two hundred series, 2 x 210 processes of about 1.2 s, so about nine minutes in all.
#
#   nightly/aa.sh [more words for `bench run`, such as --profile cpu --device cpu, or --trials 16 for what each run says of itself]
#
# Exit code: 0 no alarm and no more than the limit; 1 there are alarms; as of `bench compare` and `bench selftest --aa`.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${BENCH:-}" ]; then
    BENCH=bench
    [ ! -x .venv/bin/bench ] || BENCH=.venv/bin/bench
fi
name=aa-$(date -u +%Y%m%d-%H%M%S)
# BENCH may be several words, so it is not quoted.
for half in 1 2; do
    $BENCH run nightly/aa.yaml --label "$name-$half" "$@" >/dev/null
done
code=0
$BENCH compare "$name-1" "$name-2" || code=$?
said=0
$BENCH selftest --aa "$name-1" --aa "$name-2" || said=$?
# Trouble (2) is told before an alarm (1), whichever of the two had it.
[ "$code" -eq 2 ] || [ "$said" -eq 0 ] || code=$said
exit "$code"
