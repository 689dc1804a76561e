# A file that is replaced is the old one or the new one, whatever call fails on the way (lib/base/files.h).

load helper

setup() {
	enter_scratch
	export NIGHTSHIFT_DEMO_DATA=$PWD
	cp "$ROOT/slurm/presets/depth-tiny.cfg" preset.cfg
	mkconfig run preset.cfg train.steps=10
	cp -R run before
	mkconfig run train.steps=20
	cp -R run after
	reset
}

reset() {
	rm -rf run
	cp -R before run
}

# config.cfg is one of the two whole files, and no temporary one is left.
whole() {
	cmp -s run/config.cfg before/config.cfg || cmp -s run/config.cfg after/config.cfg
}

# How many calls of a kind the change makes.
calls() {
	NIGHTSHIFT_FAULT_COUNT=counts NIGHTSHIFT_FAULT_PATH=${pattern:-*config*} LD_PRELOAD=$ROOT/build/tests/faults.so \
		mkconfig run train.steps=20
	reset
	awk -v kind="$1" '$1 == kind { print $2 }' counts
}

# each_call KIND WHAT STATUS: the fault at each call of the kind; every one must be noticed.
each_call() {
	local kind=$1 what=$2 wanted=$3 count number status
	count=$(calls "$kind")
	[ "$count" -gt 0 ]
	for ((number = 1; number <= count; number++)); do
		status=0
		NIGHTSHIFT_FAULT_PATH=${pattern:-*config*} with_fault "$kind:$number:$what" mkconfig run train.steps=20 2>message || status=$?
		echo "$kind $number of $count: status $status: $(cat message)"
		[ "$status" -eq "$wanted" ]
		whole
		[ "$wanted" -eq 137 ] || [ -z "$(find run -name '*.partial')" ]
		# And what was left does not stand in the way of doing it again.
		mkconfig run train.steps=20
		cmp run/config.cfg after/config.cfg
		reset
	done
}

@test "no space at each write" {
	each_call write ENOSPC 73
}

@test "input/output error at each fsync" {
	each_call fsync EIO 74
}

@test "no permission at each rename" {
	each_call rename EACCES 77
}

@test "error at each close" {
	pattern='*.partial' # to close what was only read cannot lose anything
	each_call close EDQUOT 73
}

@test "killed before each write, fsync and rename" {
	for kind in write fsync rename; do
		each_call "$kind" KILL 137
	done
}

@test "killed in the middle of each write" {
	each_call write torn 137
}

@test "short writes change nothing" {
	with_fault write:1+:short mkconfig run train.steps=20
	cmp run/config.cfg after/config.cfg
}
