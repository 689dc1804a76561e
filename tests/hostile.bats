# What tired users and broken surroundings do to a run: nothing is lost, half-written or guessed.
# seconds: 60

load helper

setup() {
	enter_scratch
}

@test "an empty word (a variable that is not set) is refused, not taken for the current directory" {
	for program in "$ROOT"/bin/*.c; do
		run_tool 64 "${program%.c}" ""
		one_error 'word 1 of the command line is empty'
	done
	[ ! -e config.cfg ]
}

@test "closed standard streams never become files of the run" {
	tiny_run run train.steps=5
	tiny_run other train.steps=5
	run_tool 0 train-step-loop other
	for closed in '0<&-' '1>&-' '2>&-' '0<&- 1>&- 2>&-'; do
		rm -rf run/done
		tiny_run "run$closed" train.steps=5
		(eval "exec $closed"; exec train-step-loop "run$closed")
		same_files "run$closed" other log/step.tsv log/val.tsv checkpoints/step-00000005/model
	done
	(exec 1>&- 2>err; exec "$ROOT/bin/eval" other) || [ $? = 74 ]
	grep -q 'eval: standard output: Bad file descriptor' err
}

@test "training and predicting go on when nobody reads their messages any more" {
	tiny_run run train.steps=5
	{
		train-step-loop run
		echo $? >status
		predict run
		echo $? >>status
	} 2>&1 | true
	[ "$(cat status)" = $'0\n0' ]
	[ -e run/done ]
}
