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
if [ ! -r "$home/slurm/lib.sh" ]; then
	echo "stage.sh: $home/slurm/lib.sh is missing: submit from the Nightshift directory, or set NIGHTSHIFT_HOME" >&2
	exit 66
fi
# shellcheck source=slurm/lib.sh
. "$home/slurm/lib.sh"

[ $# -eq 1 ] || { usage >&2 && exit 64; }
life_begin stage "$1"
while :; do
	life_stage
	life_decide_stage
done
