#!/usr/bin/env bash
# The demo: renders data, trains a small model on them through the same script that sbatch runs, predicts and scores what was held
# out, and says where to look. A second run goes on or only scores.
# usage: slurm/demo.sh [depth|classify|all] [DIR]        depth; DIR defaults to demo/ in the source tree
#
#	depth       rooms and their depth: one to three minutes on two cores
#	classify    clips and what happens in them: about four
set -eu

home=$(cd "$(dirname "$0")/.." && pwd)
export NIGHTSHIFT_HOME=$home PATH="$home/bin:$PATH"
case ${1:-depth} in
depth | classify) tasks=("${1:-depth}") ;;
all) tasks=(depth classify) ;;
*) set -- depth "$@" && tasks=(depth) ;; # a directory alone
esac
dir=${2:-$home/demo}
start=$SECONDS

say() {
	printf '\n== %s\n' "$*"
}

eval() { # not the shell's own
	"$home/bin/eval" "$@"
}

# NAME of the column, rows on stdin
mean() {
	awk -F'\t' -v name="$1" '/^#dataset/ { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
		/^#/ { next } { sum += $at; n++ } END { printf "%.3f", sum / n }'
}

# SCRIPT RUN PRESET: sets trained
train() {
	local began=$SECONDS
	say "training (RUN is $2)"
	bash "$home/slurm/$1" "$2" "$3"
	trained=$((SECONDS - began))
}

# the newest of RUN's pictures
newest_picture() {
	find "$1/pictures" -name '*.png' | sort | tail -n 1
}

# ---- depth ----

demo_depth() {
	local run=$dir/run steps
	export NIGHTSHIFT_DEMO_DATA=$dir/rooms
	say "rendering 400 rooms to train on and 40 held out"
	make-scenes depth -n 400 --seed 1 "$NIGHTSHIFT_DEMO_DATA/train"
	make-scenes depth -n 40 --seed 2 "$NIGHTSHIFT_DEMO_DATA/val"
	train train_marigold.sh "$run" depth-demo
	say "scoring the 40 held-out rooms"
	depth_row "" AbsRel delta1
	eval --task depth --layout plain --truth "$NIGHTSHIFT_DEMO_DATA/val" --min 0.1 --max 20 --constant |
		depth_means "the best constant of each image"
	for steps in 4 1; do
		mkconfig "$run" predict.steps=$steps
		eval "$run" 2>/dev/null | depth_means "this model, $steps sampling step(s)"
	done
	say "the worst three rooms"
	eval "$run" | sort -t$'\t' -k3,3g | tail -n 3 | cut -f1-3
	cat <<-END

		Trained in $trained s, $((SECONDS - start)) s in all.
		All of it     $(report "$run")   (a page for any browser)
		Look at       $(newest_picture "$run")   (image, prediction, truth)
		              $run/predictions/rooms-val/rgb/*.colour.png
		Losses        $run/log/step.tsv       curves: tensorboard --logdir $run
		Score again   bin/eval $run | sort -t\$'\\t' -k3,3g | tail
	END
}

depth_row() { # what, AbsRel, delta1
	printf '%-44s %8s %8s\n' "$1" "$2" "$3"
}

depth_means() { # TITLE, rows on stdin
	local rows
	rows=$(cat)
	depth_row "$1" "$(mean abs_relative_difference <<<"$rows")" "$(mean delta1_acc <<<"$rows")"
}

# ---- classify ----

demo_classify() {
	local run=$dir/classify-run rows clip
	export NIGHTSHIFT_DEMO_DATA=$dir/clips
	say "rendering clips of ten classes, every fifth held out"
	make-scenes clips -n 1200 --seed 1 "$NIGHTSHIFT_DEMO_DATA"
	train train_resnet3d.sh "$run" classify-demo
	say "scoring the held-out clips"
	rows=$(eval "$run")
	printf '%-44s %8s %8s\n' "" top-1 top-5 "chance" 0.100 0.500 "this model" "$(mean top1 <<<"$rows")" "$(mean top5 <<<"$rows")"
	say "what is taken for what (the mistakes)"
	eval --confusion "$run" | awk -F'\t' '!/^#/ && $2 != $3 { print; n++ } END { if (!n) print "none" }' | cut -f2-
	clip=$(find "$NIGHTSHIFT_DEMO_DATA/turning-clockwise" -mindepth 1 -maxdepth 1 | sort | tail -n 1)
	say "one video in, its best classes out: predict --video --top 3 RUN $clip"
	predict --video --top 3 "$run" "$clip" | cut -f4-
	cat <<-END

		Trained in $trained s, $((SECONDS - start)) s in all.
		All of it     $(report "$run")   (a page for any browser)
		Look at       $(newest_picture "$run")   (frames, truth, best classes)
		Results       $run/predictions/clips-val/results.tsv and results.json
		Losses        $run/log/step.tsv, accuracy $run/log/epoch.tsv, validation $run/log/val.tsv
		Score again   bin/eval --summary $run
	END
}

for task in "${tasks[@]}"; do
	"demo_$task"
done
[ "${tasks[*]}" != depth ] || echo "Classification of videos: make demo TASK=classify"
