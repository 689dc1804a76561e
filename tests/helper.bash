# shellcheck shell=bash disable=SC2154 # Bats sets status, output and stderr
# What the Bats files share. First lines of each file:
#
#	load helper
#	setup() { enter_scratch; }
#
# $ROOT is the source tree, its bin/ stands first in PATH. Each test runs in an empty directory of its own, which Bats
# removes. Use `run_tool` instead of `run`: it keeps stdout and stderr apart.

ROOT=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
export NIGHTSHIFT_HOME=$ROOT
export PATH="$ROOT/bin:$PATH"
export LC_ALL=C TZ=UTC0
# A test must see what a user without SLURM sees, wherever it is started.
for variable in "${!SLURM_@}" "${!SBATCH_@}" "${!NIGHTSHIFT_FAULT@}" "${!OMPI_@}" "${!PMI_@}" RANK WORLD_SIZE; do
	unset "$variable"
done

bats_require_minimum_version 1.5.0

enter_scratch() {
	cd "$BATS_TEST_TMPDIR" || return 1
}

# run_tool STATUS COMMAND [WORD ...]: runs it; fails, showing everything, unless it exits with STATUS.
# Afterwards $output is stdout, $stderr is stderr, ${lines[@]} and ${stderr_lines[@]} their lines.
run_tool() {
	local wanted=$1
	shift
	run --separate-stderr "$@"
	if [ "$status" -ne "$wanted" ]; then
		printf '%s: status %s where %s was expected\n' "$*" "$status" "$wanted"
		printf 'stdout: %s\n' "$output"
		printf 'stderr: %s\n' "$stderr"
		return 1
	fi
}

# one_error PATTERN ...: stderr of the last run_tool is one line "program: ..." that holds every pattern (extended
# regular expressions), without a control character.
one_error() {
	local pattern
	if [ "${#stderr_lines[@]}" -ne 1 ]; then
		printf 'one line on stderr expected, got %s:\n%s\n' "${#stderr_lines[@]}" "$stderr"
		return 1
	fi
	for pattern in '^[a-z0-9-]+: ' "$@"; do
		if ! [[ $stderr =~ $pattern ]]; then
			printf "stderr does not hold '%s': %s\n" "$pattern" "$stderr"
			return 1
		fi
	done
	! [[ $stderr =~ [[:cntrl:]] ]]
}

# Bats does not see a failure of "! COMMAND", but in the last line of a test: this it sees.
never() {
	if "$@"; then
		return 1
	fi
}

# with_fault SPEC COMMAND ...: runs the command under tests/shim/faults.c; the way of the result is the caller's.
with_fault() {
	local spec=$1
	shift
	LD_PRELOAD=$ROOT/build/tests/faults.so NIGHTSHIFT_FAULT=$spec "$@"
}

# column NAME FILE: the values of one column of a table whose first line is the header "#a<TAB>b...".
column() {
	awk -F'\t' -v name="$1" 'NR == 1 { sub(/^#/, ""); for (i = 1; i <= NF; i++) if ($i == name) at = i
		if (!at) exit 1; next } !/^#/ { print $at }' "$2"
}

# same_files A B FILE ...: the named files (or directories) below both are byte-equal.
same_files() {
	local a=$1 b=$2 file
	shift 2
	for file in "$@"; do
		diff -r -q "$a/$file" "$b/$file" || return 1
	done
}

# train_to_end RUN: shifts until the run is done; each ends as it likes, but for the errors that no shift may end with.
train_to_end() {
	local status
	for _ in $(seq 40); do
		status=0
		train-step-loop "$1" 2>>log || status=$?
		[ "$status" = 0 ] && return
		[ "$status" = 75 ] || { cat log; return 1; }
	done
	return 1
}

# tiny_data DIR [COUNT]: rooms of 32x48 pixels with exact depth.
tiny_data() {
	make-scenes depth -n "${2:-12}" --seed 1 --size 32x48 "$1"
}

# tiny_run RUN [key=value ...]: a run of the smallest model on rooms in ./DIR (made where they are not there), 12 steps
# of a fraction of a second; nothing is trained yet.
tiny_run() {
	local run=$1
	shift
	[ -d DIR ] || tiny_data DIR
	mkconfig "$run" depth-tiny data.train.rooms.path="$PWD/DIR" "$@"
}

# tiny_clips DIR [COUNT]: labelled clips; half of each class is for validation.
tiny_clips() {
	make-scenes clips -n "${2:-40}" --seed 1 --size 32x48 --frames 12 --validation 2 "$1"
}

# tiny_classify RUN [key=value ...]: a run of the smallest classifier on clips in ./CLIPS (made where they are not there).
tiny_classify() {
	local run=$1
	shift
	[ -d CLIPS ] || tiny_clips CLIPS
	mkconfig "$run" classify-tiny data.train.clips.path="$PWD/CLIPS" "$@"
}
