#!/usr/bin/env bash
# A night as a Slurm job on one node. Submit it from the clone. With NEXT it submits the following one before it begins, so that one call
# starts a series:
#
#   export OPTIONS="--gpus=1 --time=03:00:00 --mail-type=FAIL"
#   NEXT=now+24hours sbatch $OPTIONS nightly/slurm.sh
#
# The job fails where something is worse, so Slurm's mail is the alarm; its log holds at most 20 lines. Settings as in nightly/night.sh, and:
#
#   NEXT      when the following night begins, in Slurm's words (default: none; such as now+24hours, tomorrow or 03:00)
#   OPTIONS   the words of sbatch for it, which a job does not hand on by itself: without --gpus the next night would be one of the CPU
#
# A night that is cut off by its time limit is told by the next one. Always the same kind of node, please (--constraint, --nodelist): times of
# two kinds of GPU are never compared, and those of two GPUs of one kind only where they differ by more than GPUs do.
#SBATCH --job-name=bench-night
#SBATCH --output=bench-night-%j.log
#SBATCH --signal=B:TERM@60
set -euo pipefail

clone=${SLURM_SUBMIT_DIR:?submit this with sbatch, from the clone}
cd "$clone"
if [ -n "${NEXT:-}" ]; then
    : "${OPTIONS?NEXT is set, so OPTIONS must say how the following night is submitted, such as --gpus=1 --time=03:00:00}"
    # Several words, so it is not quoted.
    sbatch --parsable $OPTIONS --begin="$NEXT" --dependency="afterany:$SLURM_JOB_ID" nightly/slurm.sh >/dev/null
fi
# bench takes the place of this shell, so that the signal before the time limit reaches it.
exec nightly/night.sh
