#!/usr/bin/env bash
# The demo: renders rooms, trains the small depth model on them through the same script that sbatch runs, predicts and
# scores the held-out rooms, and says where to look. One to three minutes on two cores; a second run goes on or only scores.
# usage: slurm/demo.sh [DIR]        DIR defaults to demo/ in the source tree
set -eu

home=$(cd "$(dirname "$0")/.." && pwd)
export NIGHTSHIFT_HOME=$home PATH="$home/bin:$PATH"
dir=${1:-$home/demo}
run=$dir/run
export NIGHTSHIFT_DEMO_DATA=$dir/rooms
start=$SECONDS

say() {
	printf '\n== %s\n' "$*"
}

say "rendering 400 rooms to train on and 40 held out"
make-scenes depth -n 400 --seed 1 "$NIGHTSHIFT_DEMO_DATA/train"
make-scenes depth -n 40 --seed 2 "$NIGHTSHIFT_DEMO_DATA/val"

say "training (RUN is $run)"
began=$SECONDS
bash "$home/slurm/train_marigold.sh" "$run" depth-demo
trained=$((SECONDS - began))

say "scoring the 40 held-out rooms"
# one row: what, AbsRel, delta1
score() {
	printf '%-44s %8s %8s\n' "$1" "$2" "$3"
}
mean() { # NAME of the column, rows on stdin
	awk -F'\t' -v name="$1" '/^#dataset/ { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
		/^#/ { next } { sum += $at; n++ } END { printf "%.3f", sum / n }'
}
both() { # TITLE, rows on stdin
	local rows
	rows=$(cat)
	score "$1" "$(mean abs_relative_difference <<<"$rows")" "$(mean delta1_acc <<<"$rows")"
}
table() {
	score "" AbsRel delta1
	eval --task depth --layout plain --truth "$NIGHTSHIFT_DEMO_DATA/val" --min 0.1 --max 20 --constant |
		both "the best constant of each image"
	for steps in 4 1; do
		mkconfig "$run" predict.steps=$steps
		eval "$run" 2>/dev/null | both "this model, $steps sampling step(s)"
	done
}
eval() { # not the shell's own
	"$home/bin/eval" "$@"
}
table

say "the worst three rooms"
eval "$run" | sort -t$'\t' -k3,3g | tail -n 3 | cut -f1-3

picture=$(find "$run/pictures" -name '*.png' | sort | tail -n 1)
cat <<END

Trained in $trained s, $((SECONDS - start)) s in all.
Look at       $picture   (image, prediction, truth)
              $run/predictions/rooms-val/rgb/*.colour.png
Losses        $run/log/step.tsv       curves: tensorboard --logdir $run
Score again   bin/eval $run | sort -t\$'\\t' -k3,3g | tail
END
