#!/bin/sh
# One night: measures the suites, judges them against the nights before, measures suspects again beside the last good version. Silent where
# nothing is worse; else at most 20 lines. Exit code: 0 nothing is worse, 1 something is, 2 trouble, 3 could not judge, 130 interrupted.
#
#   nightly/night.sh [more words for `bench night`]
#
# Settings, from the environment:
#
#   SUITES    the suites (default: suites/attention.yaml)
#   PROFILE   their profile, such as quick or cpu (default: none, all of it)
#   BUDGET    for all of it, such as 2h (default: as long as it takes); what there is no time for takes turns over the nights
#   PRIORITY  with a budget, what is measured every night, such as pass=forward_backward
#   DEVICE    auto, cuda, cuda:N or cpu (default: auto)
#   FILES     where each suite's judgement is left as text, Markdown, JSON and JUnit (default: reports/night)
#   BENCH     the command (default: .venv/bin/bench of this clone where there is one, else bench)
#   BENCH_DB  the database (default: results/bench.db of this clone)
set -eu
cd "$(dirname "$0")/.."
if [ -z "${BENCH:-}" ]; then
    BENCH=bench
    [ ! -x .venv/bin/bench ] || BENCH=.venv/bin/bench
fi
# A command that is not there, or cannot start, is trouble: its own exit codes (1, 126, 127) would mean something else to who watches.
if ! $BENCH --version >/dev/null; then
    echo "night.sh: '$BENCH' does not start: set BENCH to the command, such as /path/to/.venv/bin/bench" >&2
    exit 2
fi
# Words of these may be several, so they are not quoted.
exec $BENCH night ${SUITES:-suites/attention.yaml} ${PROFILE:+--profile $PROFILE} ${BUDGET:+--budget "$BUDGET"} \
    ${PRIORITY:+--priority "$PRIORITY"} --device "${DEVICE:-auto}" --files "${FILES:-reports/night}" "$@"
