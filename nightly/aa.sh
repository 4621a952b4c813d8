#!/bin/sh
# The false alarms of this machine: the same code measured twice, and compared. Nothing changes in between, so every row that comes out better
# or worse is one. Then twenty thousand nights are drawn from the processes, without a change and with one: false alarms and power of the
# whole nightly judgement. 872 processes of less than a second, so a quarter of an hour on one GPU, and half of it on two.
#
#   [GPUS=2] nightly/aa.sh [more words for `bench run`, such as --device cuda:1]
#   PARTS=cpu nightly/aa.sh --device cpu        without a GPU: 800 processes, five minutes
#
# Settings, from the environment:
#
#   GPUS      how many GPUs share the series out, each measuring the same ones in both halves (default: 1)
#   PARTS     profiles of nightly/aa.yaml (default: many nights)
#   NAME      the runs' labels begin with it (default: aa- and the time). With the name of a call that was cut off, what it measured whole
#             is not measured again
#   BENCH     the command (default: .venv/bin/bench of this clone where there is one, else bench)
#   BENCH_DB  the database (default: results/bench.db of this clone)
#
# Exit code: 0 no alarm and no more than the limit; 1 there are alarms; else as of `bench run`, `bench compare` and `bench selftest --aa`.
set -eu
cd "$(dirname "$0")/.."
if [ -z "${BENCH:-}" ]; then
    BENCH=bench
    [ ! -x .venv/bin/bench ] || BENCH=.venv/bin/bench
fi
if ! $BENCH --version >/dev/null; then
    echo "aa.sh: '$BENCH' does not start: set BENCH to the command, such as /path/to/.venv/bin/bench" >&2
    exit 2
fi
parts=${PARTS:-many nights} gpus=${GPUS:-1} name=${NAME:-aa-$(date -u +%Y%m%d-%H%M%S)}

# BENCH may be several words, so it is not quoted.
measure() { # `exec` or nothing, the label, words for `bench run`
    how=$1 label=$2
    shift 2
    state=$($BENCH show "$label" 2>/dev/null | sed -n 's/^state *\([a-z]*\).*/\1/p')
    case $state in
    finished) ;;
    "") $how $BENCH run nightly/aa.yaml --label "$label" "$@" >/dev/null ;;
    *) $how $BENCH run --resume "$label" >/dev/null ;;
    esac
}

# Both halves of a part, then the next: where a call is cut off, the parts before are whole.
for part in $parts; do
    for half in 1 2; do
        if [ "$gpus" -eq 1 ]; then
            measure "" "$name-$part-$half-0" --profile "$part" "$@"
            continue
        fi
        at_work=""
        for gpu in $(seq 0 $((gpus - 1))); do
            measure exec "$name-$part-$half-$gpu" --profile "$part" --device "cuda:$gpu" --shard "$((gpu + 1))/$gpus" "$@" &
            at_work="$at_work $!"
        done
        # A shell starts such processes deaf to Ctrl-C.
        trap 'kill -TERM $at_work 2>/dev/null || true' INT TERM
        failed=0
        for process in $at_work; do
            ended=0
            wait "$process" || ended=$?
            # A signal ends the waiting, too; then the process is waited for again.
            while kill -0 "$process" 2>/dev/null; do wait "$process" && ended=0 || ended=$?; done
            [ "$ended" -eq 0 ] || failed=$ended
        done
        trap - INT TERM
        [ "$failed" -eq 0 ] || exit "$failed"
    done
done

code=0 equal=""
for part in $parts; do
    for gpu in $(seq 0 $((gpus - 1))); do
        said=0
        $BENCH compare "$name-$part-1-$gpu" "$name-$part-2-$gpu" || said=$?
        # Trouble (2) is told before an alarm (1), and that before what could not be judged.
        case $said,$code in 2,* | 1,0 | 1,3 | 3,0) code=$said ;; esac
        equal="$equal --aa $name-$part-1-$gpu --aa $name-$part-2-$gpu"
    done
done
said=0
$BENCH selftest $equal || said=$?
[ "$code" -eq 2 ] || [ "$said" -eq 0 ] || code=$said
exit "$code"
