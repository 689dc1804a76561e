#!/bin/bash
# Three jobs that wait for each other: stage the data, train, score. Each requeues itself until its part is done; one that fails
# takes the later ones out of the queue.
#
#	slurm/pipeline.sh [TASK] RUN [PRESET|key=value ...] [-- SBATCH-OPTION ...]
#
# TASK: depth (where none is named) or classify.
# Checks the run first as slurm/submit does. The options behind -- are given to all three; a place for the training is best named by
# --nodelist, so that it finds what was staged. Prints "#job part run".

: "${NIGHTSHIFT_HOME:=}" # make install puts its place here
home=${NIGHTSHIFT_HOME:-$(cd "$(dirname "$0")/.." && pwd)}
export NIGHTSHIFT_HOME=$home
usage='usage: slurm/pipeline.sh [depth|classify] RUN [PRESET|key=value ...] [-- SBATCH-OPTION ...]'
case ${1:-} in
-h | --help) echo "$usage" && exit 0 ;;
'' | -*) echo "$usage" >&2 && exit 64 ;;
esac

task=depth script=train_marigold.sh
case $1 in
depth) shift ;;
classify) task=$1 script=train_resnet3d.sh && shift ;;
esac
[ $# -gt 0 ] || { echo "$usage" >&2 && exit 64; }
"$home/slurm/submit" --check "$task" "$@" || exit
run=$(realpath -m "$1")
while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
[ $# -eq 0 ] || shift

# PART SCRIPT [DEPENDENCY]: submits one job with the options of the caller and sets id.
part() {
	id=$(sbatch --parsable "${options[@]}" ${3:+--dependency=afterok:"$3" --kill-on-invalid-dep=yes} "$home/slurm/$2" "$run") ||
		{ echo "pipeline.sh: sbatch refused the $1 job" >&2 && exit 69; }
	id=${id%%;*}
	printf '%s\t%s\t%s\n' "$id" "$1" "$run"
}
options=(--export=ALL "$@")
printf '#job\tpart\trun\n'
part stage stage.sh
NIGHTSHIFT_EVALUATE=no part train "$script" "$id"
part eval eval.sh "$id"
