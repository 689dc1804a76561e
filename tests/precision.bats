#!/usr/bin/env bats
# Products in bfloat16: where the processor has it, exact and said; elsewhere refused, never imitated.

load helper

setup_file() {
	tiny_data "$BATS_FILE_TMPDIR/DIR"
	mkconfig "$BATS_FILE_TMPDIR/probe" depth-tiny data.train.rooms.path="$BATS_FILE_TMPDIR/DIR" precision=bf16
	HAS_BF16=$(train-step-loop --dry-run "$BATS_FILE_TMPDIR/probe" 2>/dev/null | awk -F'\t' '$1 == "precision" { print $2 }')
	export HAS_BF16
}

setup() {
	enter_scratch
	ln -s "$BATS_FILE_TMPDIR/DIR" DIR
}

needs_bf16() {
	[ -n "$HAS_BF16" ] || skip "this processor has no bfloat16"
}

short_run() {
	tiny_run "$1" train.steps=40 schedule.total=40 validate.every=20 picture.every=40 checkpoint.every=10 "${@:2}"
}

@test "a run in bf16 records its unit, and its numbers are near those of float32, not the same" {
	needs_bf16
	short_run half precision=bf16
	short_run single precision=f32
	train-step-loop half 2>log
	train-step-loop single 2>log
	grep -qx "precision = \"$HAS_BF16\";" half/platform.cfg
	grep -qx 'precision = "f32";' single/platform.cfg
	never cmp -s half/log/step.tsv single/log/step.tsv
	paste <(column loss half/log/step.tsv) <(column loss single/log/step.tsv) | awk '
		{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.05 * $2) exit 1; n++ }
		END { if (n != 40) exit 1 }'
}

@test "auto is float32" {
	tiny_run auto train.steps=2 schedule.total=40
	train-step-loop auto 2>log
	grep -qx 'precision = "f32";' auto/platform.cfg
}

@test "a run in bf16 cut by kills, on other numbers of threads, gives the bits of one" {
	needs_bf16
	short_run one precision=bf16 cpu.threads=1
	short_run two precision=bf16 cpu.threads=3
	train-step-loop one 2>log
	local count
	for count in 15 40 90; do
		with_fault "write:$count:KILL" train-step-loop two 2>>log || [ $? = 137 ]
	done
	train-step-loop two 2>>log
	[ "$(grep -c $'\tstart\t' two/shifts.tsv)" -ge 3 ]
	same_files one two log/step.tsv log/val.tsv pictures checkpoints/step-00000040/model checkpoints/step-00000040/optimizer
}

@test "bf16 is refused in one line where the instruction set rules it out, or the processor lacks it" {
	short_run run precision=bf16 cpu.isa=plain
	local wanted=69
	[ -z "$HAS_BF16" ] || wanted=78
	run_tool "$wanted" train-step-loop run
	one_error 'precision = "bf16"' 'choose'
	[ ! -e run/platform.cfg ]
	run_tool 78 mkconfig other depth-tiny precision=bf16-amx-plain
	one_error 'precision' 'bf16-amx'
}

@test "a later shift without bf16 goes on in float32 with a warning, or is refused with --same-bits" {
	tiny_run run train.steps=2 schedule.total=40 validate.every=2 picture.every=2
	train-step-loop run 2>log
	sed -i 's/^precision = .*/precision = "bf16-amx";/; s/^isa = .*/isa = "plain";/' run/platform.cfg
	mkconfig run train.steps=4
	run_tool 69 train-step-loop --same-bits run
	one_error "not the first shift's precision" 'same-bits'
	run_tool 0 train-step-loop run
	[[ $stderr == *"not the first shift's precision; products are float32 here, not bf16-amx"* ]]
	grep -q 'precision' run/shifts.tsv
}
