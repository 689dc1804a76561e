# Random kills: NIGHTSHIFT_SEED=N repeats a failure's choices (its times depend on the machine all the same).
# seconds: 600

load ../helper

setup_file() {
	export SEED=${NIGHTSHIFT_SEED:-$RANDOM} ONE=$BATS_FILE_TMPDIR/one
	cd "$BATS_FILE_TMPDIR"
	new_run one
	train-step-loop one
	eval_run one
}

setup() {
	enter_scratch
	echo "seed $SEED"
	RANDOM=$SEED
	ln -s "$BATS_FILE_TMPDIR/DIR" DIR
}

new_run() {
	tiny_run "$1" train.steps=200 schedule.total=200 validate.every=50 picture.every=70 checkpoint.every=20 \
		checkpoint.keep_every=50
}

eval_run() {
	eval=$ROOT/bin/eval
	"$eval" "$1" >"$1/scores"
}

# killed_at_random COMMAND ...: starts it, kills it 0.02 to 1.5 seconds later if it still runs.
killed_at_random() {
	"$@" 2>>log &
	sleep "$(awk -v r=$RANDOM 'BEGIN { print 0.02 + r / 32768 * 1.48 }')"
	kill -KILL $! 2>/dev/null || true
	wait $! 2>/dev/null
}

@test "ten runs killed at random moments until they are done give the bits of one" {
	local round kills
	for round in 1 2 3 4 5 6 7 8 9 10; do
		new_run two
		for kills in $(seq 60); do
			killed_at_random train-step-loop two && break
		done
		train-step-loop two
		echo "round $round: $kills shifts"
		same_files "$ONE" two log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/step-00000200/model \
			checkpoints/step-00000200/optimizer checkpoints/weights-00000150 checkpoints/best
		left=$(find two/checkpoints two/pictures two/log -name '*.partial' -o -name '*.dead')
		echo "left behind: $left"
		[ -z "$left" ]
		rm -rf two
	done
}

@test "an evaluation killed at random moments gives the rows of one that was not" {
	cp -R "$ONE" two
	for round in 1 2 3 4 5 6 7 8; do
		rm -rf two/predictions two/eval
		for kills in 1 2 3; do
			killed_at_random predict two || true
		done
		eval_run two
		diff <(grep -v '^#' "$ONE/scores") <(grep -v '^#' two/scores)
	done
}
