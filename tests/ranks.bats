#!/usr/bin/env bats
# Several processes under mpirun train one run: the bits of one process, whatever happens to them.
# seconds: 60

load helper

# One thread a rank: 8 micro-batches a step are shared by 1, 2 or 4 ranks.
setup_file() {
	export DATA=$BATS_FILE_TMPDIR/rooms ONE=$BATS_FILE_TMPDIR/one
	command -v mpirun >/dev/null || skip "mpirun is not installed"
	[ -e "$ROOT/build/nightshift-mpi.so" ] || skip "built without MPI"
	make-scenes depth -n 10 --seed 1 --size 32x48 "$DATA"
	new_run "$ONE"
	train-step-loop "$ONE" 2>"$BATS_FILE_TMPDIR/one.log"
}

setup() {
	enter_scratch
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

new_run() { # RUN [key=value ...]: the words given count, not those here for the same keys
	local word words=(batch.size=8 batch.micro=1 train.steps=60 schedule.total=60 validate.every=20 picture.every=30 picture.count=3
		checkpoint.every=15 checkpoint.keep_every=30 parallel.timeout=30)
	for word in "${@:2}"; do
		words=("${words[@]/#"${word%%=*}"=*/}")
	done
	mkconfig "$1" depth-tiny data.train.rooms.path="$DATA" $(printf '%s\n' "${words[@]}") "${@:2}"
}

# ranks N COMMAND ...: a command in N processes on this machine. Open MPI runs each beside a daemon of its own.
ranks() {
	local count=$1
	shift
	timeout -k 5 90 mpirun --oversubscribe --bind-to none --mca btl self,vader -np "$count" "$@" 3>&- 4>&-
}

# Everything that a run determines.
same_run() {
	same_files "$1" "$2" log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/step-00000060/model \
		checkpoints/step-00000060/optimizer checkpoints/weights-00000030 checkpoints/best
	diff <(grep -E '^(step|digest)' "$1/done") <(grep -E '^(step|digest)' "$2/done")
}

# Waits until a run has logged so many steps (in all of its shifts).
until_steps() { # RUN COUNT
	until [ "$(wc -l <"$1/log/time.tsv")" -gt "$2" ]; do sleep 0.02; done 2>/dev/null
}

# The process of a rank, by the number that mpirun gave it.
process_of() { # RANK RUN
	local process
	for process in $(pgrep -f "^train-step-loop .*$2\$"); do
		! grep -qzx "OMPI_COMM_WORLD_RANK=$1" "/proc/$process/environ" 2>/dev/null || echo "$process"
	done
}

@test "2 and 4 ranks give the bits of one, and write together what one does" {
	local count
	for count in 2 4; do
		new_run "run$count"
		ranks "$count" train-step-loop "run$count" 2>"log$count" || { cat "log$count"; return 1; }
		same_run "$ONE" "run$count"
		[ "$(grep -c "step 60: rooms" "log$count")" = 1 ]
		[ "$(column world "run$count/shifts.tsv" | sort -u)" = "$count" ]
	done
}

@test "the exchange of gradients starts before the last operation of the backward pass" {
	new_run run train.steps=10
	ranks 2 train-step-loop run 2>log
	[ "$(column early run/log/time.tsv | sort -n | head -n 1)" -ge 2 ]
	[ "$(column early "$ONE/log/time.tsv" | sort -u)" = 0 ]
}

@test "over TCP as over shared memory" {
	new_run run
	timeout 90 mpirun --oversubscribe --mca btl self,tcp --mca btl_tcp_if_include lo -np 2 train-step-loop run 2>log 3>&-
	same_run "$ONE" run
}

@test "a run saved by 2 ranks goes on with 1 and with 4, and has the bits of one" {
	new_run run
	ranks 2 train-step-loop run 2>log &
	until_steps run 10
	kill -USR2 "$(process_of 1 run)" # a notice to any rank is one to all
	wait $! || [ $? = 75 ]
	train-step-loop run 2>>log &
	until_steps run 30
	kill -USR2 $!
	wait $! || [ $? = 75 ]
	ranks 4 train-step-loop run 2>>log
	grep -q $'\tend\t.*\t75\tnotice' run/shifts.tsv
	same_run "$ONE" run
}

@test "a killed rank ends the others with 1, reason peer lost; the run goes on exactly" {
	local victim
	new_run run
	for victim in 1 0; do
		ranks 2 train-step-loop run 2>>log &
		until_steps run $((17 + 20 * (1 - victim)))
		kill -KILL "$(process_of $victim run)"
		never wait $!
	done
	[ "$(grep -c $'\tend\t.*\t1\tpeer lost' run/shifts.tsv)" = 2 ]
	grep -q "rank 1 (process [0-9]* on .*) is gone" log
	ranks 2 train-step-loop run 2>>log
	same_run "$ONE" run
}

@test "a stopped rank is lost after parallel.timeout: nobody hangs" {
	local begin process
	new_run run parallel.timeout=5
	ranks 4 train-step-loop run 2>log &
	until_steps run 16
	process=$(process_of 2 run)
	begin=$SECONDS
	kill -STOP "$process"
	never wait $!
	[ $((SECONDS - begin)) -le 20 ]
	kill -CONT "$process" 2>/dev/null || true
	[ "$(grep -c $'\tend\t.*\t1\tpeer lost' run/shifts.tsv)" = 1 ]
	grep -q "silent for 5 s" log
	ranks 4 train-step-loop run 2>>log
	same_run "$ONE" run
}

@test "a damaged file that one of the ranks reads: all take the checkpoint before" {
	new_run run train.steps=30
	ranks 2 train-step-loop run 2>log
	mkconfig run train.steps=60
	printf X | dd of=run/checkpoints/step-00000030/optimizer/optimizer.safetensors bs=1 seek=900 conv=notrunc 2>/dev/null
	ranks 2 train-step-loop run 2>log
	[ "$(grep -c 'optimizer.safetensors.* passed over' log)" = 1 ]
	same_run "$ONE" run
}

@test "an error of one rank ends all with its status, in one line that names it" {
	cp -r "$DATA" rooms
	head -c 100 "$DATA/rgb/00003.png" >rooms/rgb/00003.png
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" batch.size=8 batch.micro=1 train.steps=60 validate.every=0 picture.every=0
	run_tool 65 ranks 4 train-step-loop run
	[ "$(grep -c '^train-step-loop: .*00003.png' <<<"$stderr")" = 1 ]
	[ "$(grep -c $'\tend\t.*\t65\t' run/shifts.tsv)" = 1 ]
	mkconfig hot depth-tiny data.train.rooms.path="$DATA" batch.size=8 batch.micro=1 optimizer.lr=100 optimizer.clip=0 train.steps=200 \
		schedule.warmup=0 validate.every=0 picture.every=0 checkpoint.every=0
	run_tool 70 ranks 2 train-step-loop hot
	grep -q $'\tend\t.*\t70\tnot finite' hot/shifts.tsv
}

@test "micro-batches that ranks cannot share are refused, those that change the last bits are one warning" {
	new_run run
	run_tool 78 ranks 3 train-step-loop run
	[ "$(grep -c 'train-step-loop: .*8 micro-batches of a step .* 3 ranks' <<<"$stderr")" = 1 ]
	new_run run6 batch.size=6 train.steps=2 validate.every=0 picture.every=0
	run_tool 0 ranks 2 train-step-loop run6
	[ "$(grep -c 'warning: 3 micro-batches a rank' <<<"$stderr")" = 1 ]
}

@test "sums in any order, parallel.exact=false, are close" {
	new_run run parallel.exact=false train.steps=10 validate.every=0 picture.every=0
	ranks 4 train-step-loop run 2>log
	paste <(column loss "$ONE/log/step.tsv") <(column loss run/log/step.tsv) | head -n 10 |
		awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4 * $1) exit 1 }'
}

@test "one process needs no MPI" {
	never grep -q mpi <(ldd "$ROOT/bin/train-step-loop")
	new_run run train.steps=2 validate.every=0 picture.every=0
	strace -f -e trace=openat -o calls train-step-loop run 2>log
	never grep -q 'libmpi\|nightshift-mpi' calls
}

@test "epochs, a plateau and running averages: 1, 2 and 4 ranks, killed on the way, have the same bits" {
	local words=(train.epochs=12 schedule.name=plateau schedule.metric=abs_relative_difference schedule.patience=0 schedule.threshold=0.01
		schedule.gamma=0.5 validate.every=0 picture.every=0 picture.epochs=5 checkpoint.every=0 checkpoint.epochs=2
		checkpoint.keep_every=0 checkpoint.keep_epochs=5 optimizer.name=adamw optimizer.weight_decay=0.1 optimizer.ema=0.9)
	local files=(log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/step-00000015/model checkpoints/step-00000015/optimizer
		checkpoints/best)
	new_run alone "${words[@]}"
	train-step-loop alone 2>log
	[ "$(column lr alone/log/epoch.tsv | sort -u | wc -l)" -ge 3 ]
	new_run two "${words[@]}"
	ranks 2 train-step-loop two 2>>log &
	until_steps two 7
	kill -KILL "$(process_of 1 two)"
	never wait $!
	ranks 2 train-step-loop two 2>>log
	same_files alone two "${files[@]}"
	new_run four "${words[@]}"
	ranks 4 train-step-loop four 2>>log
	same_files alone four "${files[@]}"
}

@test "batch norm over the samples of a step or of a rank: one micro-batch a rank, or 78; shifts change no bit" {
	tiny_clips CLIPS
	local words=(clip.crop=center clip.time_crop=center batch.size=8 train.steps=8 checkpoint.every=3 validate.every=4 picture.every=0 parallel.timeout=30) extent
	tiny_classify whole "${words[@]}" batch.micro=8
	train-step-loop whole 2>log
	for extent in step rank; do
		tiny_classify "$extent" "${words[@]}" batch.micro=4 batch.norm=$extent
		run_tool 78 train-step-loop "$extent"
		one_error "one micro-batch a rank .* has 2, there is 1"
		ranks 2 train-step-loop "$extent" 2>>log
		tiny_classify "$extent-cut" "${words[@]}" batch.micro=4 batch.norm=$extent
		ranks 2 train-step-loop "$extent-cut" 2>>log &
		until_steps "$extent-cut" 4
		kill -KILL "$(process_of 1 "$extent-cut")"
		never wait $!
		ranks 2 train-step-loop "$extent-cut" 2>>log
		same_files "$extent" "$extent-cut" log/step.tsv log/val.tsv checkpoints/step-00000008/model checkpoints/step-00000008/optimizer
	done
	# Over all samples of the step: the losses of one process that has them in one micro-batch; over each rank's alone they are others.
	difference() {
		paste <(column loss whole/log/step.tsv) <(column loss "$1/log/step.tsv") | head -n 3 |
			awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d } END { print most }'
	}
	awk -v step="$(difference step)" -v rank="$(difference rank)" 'BEGIN { exit !(step < 2e-5 && rank > 1e-2) }'
}
