#!/usr/bin/env bash
# One suite on many nodes: an array whose tasks each measure one shard, on one GPU or several, and go on where they were cut off.
#
#   sbatch --array=1-8 --gpus=1 slurm/array.sh suites/attention.yaml --profile quick
#
# A task that has several GPUs (--gpus=4) uses them all with --gpus all among the words that follow the script.
#
# The array must start at 1. Everything after the script goes to `bench run`. Settings, from the environment:
#
#   FLEET     name of the whole (default: the array's job id). Runs are labelled FLEET-SHARD-of-SHARDS.
#   SHARDS    how many there are (default: the size of the array). Needed when only some are submitted again.
#   BENCH_DB  postgresql+psycopg://... : all shards write there. Without it each writes shards/FLEET/SHARD.db, and at the end:
#                 bench db merge shards/FLEET/*.db
#   BENCH     the command (default: bench).
#
# Every trial is committed before the next begins, so a task that dies, is preempted, or meets its time limit loses one trial at most. A
# task that Slurm requeues goes on by itself. To see which shards lack rows, and to measure what they lack:
#
#   python slurm/missing.py FLEET SHARDS
#   FLEET=... SHARDS=... sbatch --array=$(python slurm/missing.py FLEET SHARDS) --gpus=1 slurm/array.sh <the same words>
#
# All shards must see the same suite and the same commit: a plan is the same on every machine by its seed, which follows from FLEET.
#SBATCH --job-name=bench
#SBATCH --output=bench-%A_%a.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail

: "${SLURM_ARRAY_JOB_ID:?submit this with sbatch --array=1-N}"
fleet=${FLEET:-$SLURM_ARRAY_JOB_ID}
shards=${SHARDS:-$SLURM_ARRAY_TASK_COUNT}
shard=$SLURM_ARRAY_TASK_ID
bench=${BENCH:-bench}
label=$fleet-$shard-of-$shards

if [ "$shard" -lt 1 ] || [ "$shard" -gt "$shards" ]; then
    echo "shard $shard of $shards: the array starts at 1, and SHARDS says how many there are in all" >&2
    exit 2
fi
if [ -z "${BENCH_DB:-}" ]; then
    mkdir -p "shards/$fleet"
    export BENCH_DB=shards/$fleet/$shard.db
fi

# bench takes the place of this shell, so that the signal before the time limit reaches it: it ends its trial and says how far it came.
if $bench show "$label" >/dev/null 2>&1; then
    exec $bench run --resume "$label"
fi
seed=$(printf %s "$fleet" | cksum | cut -d ' ' -f 1)
exec $bench run "$@" --shard "$shard/$shards" --seed "$((seed % 2147483648))" --label "$label"
