#!/usr/bin/env bats
# Leaving in time: the user's stop file, clocks, notices, and what is refused.
# seconds: 120

load helper

setup() {
	enter_scratch
	make-scenes depth -n 6 --seed 1 --size 32x48 rooms
	mkconfig run depth-tiny data.train.rooms.path=rooms train.steps=100000 schedule.total=100000 validate.every=0 picture.every=0 \
		checkpoint.every=0
}

started() {
	until grep -q start run/shifts.tsv 2>/dev/null && [ -s run/log/train.log ]; do sleep 0.02; done
}

@test "RUN/stop ends the shift with 75, reason stopped; requeued lives obey it, a start by hand removes it" {
	train-step-loop run 2>log &
	started
	touch run/stop
	wait $! || [ $? = 75 ]
	grep -q $'\tend\t.*\t75\tstopped' run/shifts.tsv
	NIGHTSHIFT_JOB=bash-x NIGHTSHIFT_RESTART=1 run_tool 75 train-step-loop run
	[ -e run/stop ]
	run_tool 75 train-step-loop --exit-after 12s run
	[ ! -e run/stop ]
}

@test "--exit-after leaves with 75 and a checkpoint of where it was" {
	run_tool 75 train-step-loop --exit-after 13s run
	local step
	step=$(awk -F'\t' '$2 == "end" { print $8 }' run/shifts.tsv)
	[ "$step" -gt 0 ]
	[ -d "run/checkpoints/step-$(printf %08d "$step")" ]
	[ "$(tail -n 1 run/log/step.tsv | cut -f1)" = "$step" ]
}

@test "TERM ends the shift like USR2" {
	train-step-loop run 2>log &
	started
	kill -TERM $!
	wait $! || [ $? = 75 ]
	grep -q $'\tend\t.*\t75\tnotice' run/shifts.tsv
	[[ $(tail -n 1 run/log/train.log) == *$'\tshift 1\tleft at step '*' (notice), saved; run it again to go on' ]]
	[ -n "$(ls run/checkpoints)" ]
}

@test "INT ends the shift with 75 and a checkpoint, reason interrupted; where it is ignored it stays so" {
	train-step-loop run 2>log & # Bash starts this with INT ignored
	started
	kill -INT $!
	sleep 0.3
	kill -0 $!
	kill -USR2 $!
	wait $! || [ $? = 75 ]
	env --default-signal=INT train-step-loop run 2>log &
	until grep -q $'^2\tstart' run/shifts.tsv && [ "$(tail -n 1 run/log/time.tsv | cut -f2)" = 2 ]; do sleep 0.02; done
	kill -INT $!
	wait $! || [ $? = 75 ]
	grep -q 'once more stops at once' log
	grep -q $'^2\tend\t.*\t75\tinterrupted' run/shifts.tsv
	[ -d "run/checkpoints/step-$(printf %08d "$(awk -F'\t' '$1 == 2 && $2 == "end" { print $8 }' run/shifts.tsv)")" ]
}

@test "Ctrl-C stops the batch script under plain bash, too" {
	setsid env --default-signal=INT NIGHTSHIFT_CODE=rooms bash "$ROOT/slurm/train_marigold.sh" run 2>log &
	started
	kill -INT -- "-$!"
	wait $! || [ $? = 75 ]
	[ "$(tail -n 1 run/shifts.tsv | cut -f2,9,10)" = $'hold\t75\tinterrupted; start it again to go on' ]
	[ "$(grep -c $'\tstart\t' run/shifts.tsv)" = 1 ]
}

@test "a second trainer on the same run is refused with 69, the first is untouched" {
	train-step-loop run 2>log &
	local first=$!
	started
	run_tool 69 train-step-loop run
	one_error "$(hostname)" "process $first" "wait for its end or stop it"
	kill -USR2 $first
	wait $first || [ $? = 75 ]
	[ "$(grep -c $'\tstart\t' run/shifts.tsv)" = 1 ]
}

@test "taking over fences the first trainer, which stops with 70" {
	train-step-loop run 2>log &
	local first=$! status=0
	started
	train-step-loop --take-over --exit-after 20s run 2>log2 &
	wait $first || status=$?
	[ "$status" = 70 ]
	kill -USR2 $!
	wait $! || [ $? = 75 ]
	[ "$(awk -F'\t' '$2 == "end" { print $1 }' run/shifts.tsv)" = 2 ]
}

@test "a finished run says so and trains nothing; more steps go on" {
	mkconfig run2 depth-tiny data.train.rooms.path=rooms
	run_tool 0 train-step-loop run2
	cp -r run2/log before
	run_tool 0 train-step-loop run2
	[[ $stderr == *"12 steps are done"* ]]
	diff -r before run2/log
	mkconfig run2 train.steps=14
	run_tool 0 train-step-loop run2
	[ "$(tail -n 1 run2/log/step.tsv | cut -f1)" = 14 ]
	grep -qx 'step 14' run2/done
}

@test "a loss that is not finite ends the shift with 70, names the samples and saves nothing" {
	mkconfig run3 depth-tiny data.train.rooms.path=rooms optimizer.lr=100 optimizer.clip=0 train.steps=200 schedule.warmup=0 \
		validate.every=0 picture.every=0 checkpoint.every=0
	run_tool 70 train-step-loop run3
	[[ $stderr == *"not finite"*rooms/rgb/* ]]
	grep -q $'\tend\t.*\t70\tnot finite' run3/shifts.tsv
	[ -z "$(ls run3/checkpoints 2>/dev/null)" ]
}

@test "the dry run tells needs and fit, names missing files, and leaves nothing behind" {
	run_tool 0 train-step-loop --dry-run run
	for item in parameters flops_per_step device_bytes checkpoint_bytes run_bytes notice memory_bytes fits; do
		[[ $output == *"$item"$'\t'* ]]
	done
	[ ! -e run/shifts.tsv ]
	[ -z "$(find run -name '*probe*')" ]
	# The largest tensors, the largest first; none is larger than what the device holds of its kind.
	grep -E $'^(parameter|input|activation|gradient) (train|predict):[^\t]*\t[0-9]+\tB$' <<<"$output" >largest
	[ "$(wc -l <largest)" = 10 ]
	cut -f2 largest | sort -c -n -r
	awk -F'\t' '{ value[$1] = $2 } $1 ~ /^activation / && $2 > value["activations_bytes"] { exit 1 }' <<<"$output"
	mkconfig listed depth-tiny data.train.rooms.path=rooms data.train.rooms.list=rooms/list.txt "data.val=()" "data.vis=()" "data.test=()"
	rm rooms/rgb/00003.png
	run_tool 66 train-step-loop --dry-run listed
	one_error 00003
}

@test "a run that needs more memory than there is does not begin" {
	mkconfig run memory='1 MiB'
	run_tool 69 train-step-loop run
	one_error 'needs [0-9.]+ [MG]iB of memory, here are 1.0 MiB'
	[ ! -e run/shifts/1 ]
	run_tool 69 train-step-loop --dry-run run
	[[ $output == *fits$'\t'no* ]]
}

@test "a run that would need more memory than it may computes results again, to the same bits" {
	measured() { train-step-loop --dry-run "$1" | awk -F'\t' -v item="$2" '$1 == item { printf "%d", $2 }'; }
	tiny_run plain
	tiny_run tight
	mkconfig tight memory=$(($(measured plain memory_bytes) - $(measured plain activations_bytes) / 4))
	[ "$(measured tight activations_bytes)" -lt "$(measured plain activations_bytes)" ]
	train-step-loop plain
	train-step-loop tight
	same_files plain tight log/step.tsv checkpoints/step-00000012/model checkpoints/step-00000012/optimizer
}

@test "without clipping and micro-batches gradients need no memory of their own, and shifts change no bit" {
	tiny_run one optimizer.clip=0 'batch.size=${batch.micro}'
	tiny_run two optimizer.clip=0 'batch.size=${batch.micro}'
	train-step-loop --dry-run one | grep -q $'^gradients_bytes\t0\t'
	train-step-loop one
	mkconfig two train.steps=5
	train-step-loop two
	mkconfig two train.steps=12
	train-step-loop two
	same_files one two log/step.tsv checkpoints/step-00000012/model checkpoints/step-00000012/optimizer
}

@test "several ranks that this build cannot join are refused with one line" {
	OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 run_tool 69 train-step-loop run
	one_error
}
