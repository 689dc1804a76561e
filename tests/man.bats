# The examples of the man pages run: lines "$ command" of the EXAMPLES section, "> " going on with the line before.
#
# They find a directory with DIR (a small depth dataset), RUN (a run on it, trained to step 8 of 12), CLASSIFIER (a trained
# run of the other task), a clip, results of clips with their annotation, and a sbatch that runs its script at once. Every
# command must succeed.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	mkdir prepared commands
	cd prepared
	tiny_run RUN train.steps=8
	train-step-loop RUN
	mkconfig RUN train.steps=12
	tiny_classify CLASSIFIER
	train-step-loop CLASSIFIER
	predict CLASSIFIER
	cp CLASSIFIER/predictions/clips-val/results.json .
	cp CLIPS/annotation.json .
	cp -R CLIPS/growing/clip-00006 clip.mp4 # frames do as well
	cat >"$BATS_FILE_TMPDIR/commands/sbatch" <<-'END'
		#!/bin/bash
		# The options that come before the script are for the scheduler.
		while [[ ${1-} == -* ]]; do shift; done
		exec bash "$@"
	END
	chmod +x "$BATS_FILE_TMPDIR/commands/sbatch"
}

setup() {
	command -v mandoc || skip "mandoc is not installed"
	enter_scratch
	cp -R "$BATS_FILE_TMPDIR/prepared/." .
	# The run's data are where they were; the tree stands here under the names that the examples use.
	ln -s "$ROOT/slurm" slurm
	ln -s "$ROOT/bin" bin
	PATH=$BATS_FILE_TMPDIR/commands:$PATH
}

# The commands of a page, as a script.
commands_of() {
	mandoc -T ascii -O width=300 "$1" | sed 's/.\x08//g' | awk '
		/^[A-Z]/ { inside = /^EXAMPLES/ }
		inside && /^ +\$ / { sub(/^ +\$ /, ""); print; going = 1; next }
		inside && going && /^ +> / { sub(/^ +> /, ""); print; next }
		{ going = 0 }'
}

examples() {
	commands_of "$ROOT/man/$1" >script
	[ -s script ]
	cat script
	run bash -ex script
	echo "$output"
	[ "$status" -eq 0 ]
}

@test "convert-weights.1" {
	examples convert-weights.1
}

@test "eval.1" {
	examples eval.1
}

@test "make-annotation.1" {
	examples make-annotation.1
}

@test "make-scenes.1" {
	examples make-scenes.1
}

@test "mkconfig.1" {
	examples mkconfig.1
}

@test "nightshift.7" {
	examples nightshift.7
}

@test "nightshift-run.5" {
	examples nightshift-run.5
}

@test "nightshift-slurm.7" {
	examples nightshift-slurm.7
}

@test "predict.1" {
	examples predict.1
}

@test "report.1" {
	examples report.1
}

@test "snapshot-code.1" {
	examples snapshot-code.1
}

@test "stage-data.1" {
	examples stage-data.1
}

@test "train-step-loop.1" {
	examples train-step-loop.1
}

@test "every program has a page, and every page with examples a test here" {
	for program in "$ROOT"/bin/*.c; do
		[ -f "$ROOT/man/$(basename "$program" .c).1" ]
	done
	for page in "$ROOT"/man/*; do
		[ -z "$(commands_of "$page")" ] || grep -q "examples $(basename "$page")$" "$BATS_TEST_FILENAME"
	done
}
