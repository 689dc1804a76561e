#!/bin/bash
#SBATCH --job-name=eval
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=USR2@120
#SBATCH --time=04:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#
# Scores a run that is done: RUN/eval/DATASET.tsv, and a summary in the job's output. Cut short, it goes on in the next life.
#
#	sbatch [options] slurm/eval.sh RUN
#	bash slurm/eval.sh RUN

: "${NIGHTSHIFT_HOME:=}" # make install puts its place here
home=${NIGHTSHIFT_HOME:-${SLURM_SUBMIT_DIR:-$(cd "$(dirname "$0")/.." && pwd)}} # $0 is a spooled copy under SLURM
if [ ! -r "$home/slurm/lib.sh" ]; then
	echo "eval.sh: $home/slurm/lib.sh is missing: submit from the Nightshift directory, or set NIGHTSHIFT_HOME" >&2
	exit 66
fi
# shellcheck source=slurm/lib.sh
. "$home/slurm/lib.sh"

[ $# -eq 1 ] || { usage >&2 && exit 64; }
NIGHTSHIFT_EVALUATE=yes # an exported "no" is meant for the training, and this is the other job
life_begin eval "$1"
while :; do
	life_stage
	life_decide_eval
done
