#!/usr/bin/env bats
# Every network over clips against vectors of other software, and small ones in double precision. Some minutes.
# seconds: 300

load ../helper

# passes ARGUMENT: the test program says neither "not ok" nor ends badly.
passes() {
	cd "$ROOT" || return
	build/tests/resnet3d "$1" >"$BATS_TEST_TMPDIR/log" || {
		grep -v '^ok' "$BATS_TEST_TMPDIR/log"
		return 1
	}
	[ "$(grep -c '^ok' "$BATS_TEST_TMPDIR/log")" -gt 40 ]
}

@test "3D ResNets of all families and options in single precision" {
	passes --all
}

@test "small 3D ResNets in double precision, fifty times as near" {
	passes --exact
}
