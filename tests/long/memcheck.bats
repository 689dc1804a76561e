#!/usr/bin/env bats
# Small runs of both tasks under valgrind and under the sanitizers: training, a cut, a resume, validation, pictures, prediction.

load ../helper

setup() {
	enter_scratch
	# valgrind knows no AVX-512
	depth=(train.steps=4 validate.every=2 picture.every=2 checkpoint.every=2 cpu.isa=avx2 optimizer.ema=0.9)
	clips=(train.steps=4 validate.every=2 picture.every=2 checkpoint.every=2 cpu.isa=avx2 optimizer.nesterov=true batch.micro=4)
}

# Two lives, the second of more steps, then predictions and their scores; PROGRAM ... stands before each program.
lives() { # RUN PROGRAM ...
	local run=$1
	shift
	mkconfig "$run" train.steps=3
	"$@" train-step-loop "$run"
	mkconfig "$run" train.steps=4
	"$@" train-step-loop "$run"
	"$@" predict "$run"
	grep -qx 'step 4' "$run/done"
}

under_valgrind() {
	local program
	program=$(command -v "$1")
	valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$program" "${@:2}"
}

sanitized() {
	"$ROOT/build-address-undefined/bin/$1" "${@:2}"
}

@test "valgrind finds nothing in small runs" {
	command -v valgrind >/dev/null || skip "valgrind is not installed"
	tiny_run depth "${depth[@]}"
	tiny_classify clips "${clips[@]}"
	lives depth under_valgrind
	lives clips under_valgrind
}

@test "the sanitizers find nothing in small runs" {
	[ -x "$ROOT/build-address-undefined/bin/train-step-loop" ] || skip "no sanitized build"
	tiny_run depth "${depth[@]}"
	tiny_classify clips "${clips[@]}"
	lives depth sanitized
	lives clips sanitized
}
