#!/bin/bash
#SBATCH --job-name=marigold
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=USR2@300
#SBATCH --time=04:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#
# Trains Marigold (monocular depth) in as many lives as it takes, and evaluates it.
#
#	sbatch [options] slurm/train_marigold.sh [RUN [PRESET|key=value ...]]
#	bash slurm/train_marigold.sh [RUN [PRESET|key=value ...]]         without SLURM: loops by itself
#
# RUN: the run directory, on a shared file system [runs/marigold-JOB]. Site choices (partition, account, time, GPUs) belong on
# sbatch's command line or in SBATCH_* variables. slurm/submit checks everything first. See nightshift-slurm(7).

: "${NIGHTSHIFT_HOME:=}" # make install puts its place here
notice=${SBATCH_SIGNAL:-USR2@300} notice=${notice##*@} # the N of --signal above
home=${NIGHTSHIFT_HOME:-${SLURM_SUBMIT_DIR:-$(cd "$(dirname "$0")/.." && pwd)}} # $0 is a spooled copy under SLURM
if [ ! -r "$home/slurm/lib.sh" ]; then
	echo "train_marigold.sh: $home/slurm/lib.sh is missing: submit from the Nightshift directory, or set NIGHTSHIFT_HOME" >&2
	exit 66
fi
task=depth
# shellcheck source=slurm/lib.sh
. "$home/slurm/lib.sh"

life_begin marigold "$@"
while :; do
	life_prepare
	life_stage
	life_train
	life_decide
done
