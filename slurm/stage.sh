#!/bin/bash
#SBATCH --job-name=stage
#SBATCH --output=%x-%j.out
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=USR2@120
#SBATCH --time=04:00:00
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
#
# Brings the data of a run to the scratch of its node, before the training comes to the same node (--nodelist, or a partition of one)
# or where scratch is shared. The training stages too, and finds what is there.
#
#	sbatch [options] slurm/stage.sh RUN
#	bash slurm/stage.sh RUN

: "${NIGHTSHIFT_HOME:=}" # make install puts its place here
home=${NIGHTSHIFT_HOME:-${SLURM_SUBMIT_DIR:-$(cd "$(dirname "$0")/.." && pwd)}} # $0 is a spooled copy under SLURM
if [ $# -ne 1 ] || [ ! -r "$home/slurm/lib.sh" ]; then
	echo "usage: stage.sh RUN, from the Nightshift directory or with NIGHTSHIFT_HOME set ($home/slurm/lib.sh is wanted)" >&2
	exit 64
fi
# shellcheck source=slurm/lib.sh
. "$home/slurm/lib.sh"

life_begin stage "$1"
while :; do
	life_stage
	life_decide_stage
done
