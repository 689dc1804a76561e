#!/usr/bin/env bats
# The demo run itself: it learns, and in seven shifts that end badly it gives the bits of one. Some minutes.

load ../helper

setup_file() {
	export NIGHTSHIFT_DEMO_DATA=$BATS_FILE_TMPDIR/rooms ONE=$BATS_FILE_TMPDIR/one
	make-scenes depth -n 400 --seed 1 "$NIGHTSHIFT_DEMO_DATA/train"
	make-scenes depth -n 40 --seed 2 "$NIGHTSHIFT_DEMO_DATA/val"
	mkconfig "$ONE" depth-demo
	train-step-loop "$ONE" 2>"$BATS_FILE_TMPDIR/one.log"
}

setup() {
	enter_scratch
}

mean_of() { # COLUMN, rows on stdin
	column "$1" /dev/stdin | awk '{ sum += $1 } END { print sum / NR }'
}

@test "the demo beats the best constant of each image by far, with one sampling step and with four" {
	constant=$("$ROOT/bin/eval" --task depth --layout plain --truth "$NIGHTSHIFT_DEMO_DATA/val" --min 0.1 --max 20 --constant |
		mean_of abs_relative_difference)
	one=$("$ROOT/bin/eval" "$ONE" 2>/dev/null | mean_of abs_relative_difference)
	cp -r "$ONE" four
	mkconfig four predict.steps=4
	four=$("$ROOT/bin/eval" four 2>/dev/null | mean_of abs_relative_difference)
	echo "constant $constant, one step $one, four steps $four"
	awk -v c="$constant" -v one="$one" -v four="$four" 'BEGIN { exit !(one <= 0.62 * c && four <= 0.70 * c) }'
}

@test "the demo in seven shifts, ended by notices, by kill -9 at steps and inside saves, gives the bits of one" {
	local status fault step
	mkconfig two depth-demo
	# before each: how far it shall get; then how it ends
	for step in 60 180 300; do
		train-step-loop two 2>>log &
		until [ "$(tail -n 1 two/log/time.tsv 2>/dev/null | cut -f1)" -ge $step ] 2>/dev/null; do sleep 0.1; done
		kill -USR2 $!
		wait $! || [ $? = 75 ]
		train-step-loop two 2>>log &
		until [ "$(tail -n 1 two/log/time.tsv | cut -f1)" -ge $((step + 40)) ]; do sleep 0.1; done
		kill -9 $!
		wait $! || [ $? = 137 ]
	done
	for fault in fsync:5:KILL rename:4:KILL; do
		NIGHTSHIFT_FAULT_PATH='*/checkpoints/*' with_fault $fault train-step-loop two 2>>log || [ $? = 137 ]
	done
	status=0
	train-step-loop two 2>>log || status=$?
	[ "$status" = 0 ]
	[ "$(grep -c $'\tstart\t' two/shifts.tsv)" -ge 7 ]
	same_files "$ONE" two log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/step-00001000/model \
		checkpoints/step-00001000/optimizer checkpoints/best
	diff <(grep -E '^(step|digest)' "$ONE/done") <(grep -E '^(step|digest)' two/done)
}
