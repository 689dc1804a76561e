#!/usr/bin/env bats
# Exact resume: a run cut into shifts, anywhere, equals a run that was not.

load helper

setup_file() {
	export DATA=$BATS_FILE_TMPDIR/rooms ONE=$BATS_FILE_TMPDIR/one
	make-scenes depth -n 12 --seed 1 --size 32x48 "$DATA"
	new_run "$ONE"
	train-step-loop "$ONE" 2>"$BATS_FILE_TMPDIR/one.log"
}

setup() {
	enter_scratch
}

new_run() {
	mkconfig "$1" depth-tiny data.train.rooms.path="$DATA" train.steps=150 schedule.total=150 validate.every=40 picture.every=60 checkpoint.every=25 checkpoint.keep_every=50 "${@:2}"
}

# Everything that a run determines: weights, optimizer state, tables, pictures, the best weights, the end.
same_run() {
	same_files "$1" "$2" log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/step-00000150/model \
		checkpoints/step-00000150/optimizer checkpoints/weights-00000100 checkpoints/best
	diff <(grep -E '^(step|digest)' "$1/done") <(grep -E '^(step|digest)' "$2/done")
}

@test "six shifts ended by a notice give the bits of one" {
	new_run two
	for shift in 1 2 3 4 5; do
		train-step-loop two 2>>log &
		# the notice comes when the shift has done a step more than the last one left
		until [ "$(wc -l <two/log/time.tsv)" -gt $((25 * shift)) ] || ! kill -0 $!; do sleep 0.01; done 2>/dev/null
		kill -USR2 $! 2>/dev/null || true
		wait $! || [ $? = 75 ]
	done
	train_to_end two
	[ "$(grep -c $'\tend\t.*\tnotice$' two/shifts.tsv)" -ge 4 ]
	same_run "$ONE" two
}

@test "shifts killed at counted writes of logs and checkpoints give the bits of one" {
	new_run two
	local count
	for count in 12 60 130 200 300 400; do
		with_fault "write:$count:KILL" train-step-loop two 2>>log && break
	done
	train_to_end two
	[ "$(grep -c $'\tstart\t' two/shifts.tsv)" -ge 5 ]
	same_run "$ONE" two
}

@test "shifts killed inside a save, at each kind of call, give the bits of one" {
	new_run two
	local fault
	for fault in fsync:2:KILL fsync:9:KILL rename:3:KILL rename:9:KILL open:60:KILL unlink:2:KILL; do
		with_fault "$fault" train-step-loop two 2>>log && break
	done
	NIGHTSHIFT_FAULT_PATH='*/pictures/*' with_fault rename:1:KILL train-step-loop two 2>>log || [ $? = 137 ]
	[ -n "$(find two/pictures -name '*.partial')" ]
	train_to_end two
	[ "$(grep -c $'\tlost\t' two/shifts.tsv)" -ge 6 ]
	same_run "$ONE" two
}

@test "a disk that is full or fails in the middle of the run: 73 or 74, a whole checkpoint, and the same bits later" {
	new_run two
	local fault path kind wanted
	for fault in '*/checkpoints/* write:40+:ENOSPC 73' '*/log/* write:12+:ENOSPC 73' '*/checkpoints/* fsync:9+:EIO 74' \
		'*/events.* write:9+:EDQUOT 73' '*/pictures/* write:1+:ENOSPC 73' '*/checkpoints/* rename:3:EIO 74'; do
		read -r path kind wanted <<<"$fault"
		NIGHTSHIFT_FAULT_PATH=$path run_tool "$wanted" with_fault "$kind" train-step-loop two
		echo "$fault: $stderr"
		[ "$(tail -n 1 two/shifts.tsv | cut -f2,9)" = "$(printf 'end\t%s' "$wanted")" ]
		[[ ${stderr_lines[-1]} =~ (No space left on device|Disk quota exceeded|Input/output error)$ ]]
		[ -z "$(find two -name '*.partial')" ]
	done
	[ "$(cut -f2 two/shifts.tsv | grep -c end)" = 6 ]
	train_to_end two
	same_run "$ONE" two
}

@test "a run whose newest checkpoint is damaged goes on from the one before" {
	new_run two
	train_to_end two
	same_run "$ONE" two
	rm two/done
	printf X | dd of=two/checkpoints/step-00000150/optimizer/optimizer.safetensors bs=1 seek=900 conv=notrunc 2>/dev/null
	run_tool 0 train-step-loop two
	[[ $stderr == *step-00000150*optimizer.safetensors* ]]
	same_run "$ONE" two
}

@test "no (tag, step) stands twice in the event files of a run in shifts" {
	new_run two
	local lines
	for lines in 40 80 120; do
		train-step-loop two 2>>log &
		until [ "$(wc -l <two/log/time.tsv)" -gt $lines ] || ! kill -0 $!; do sleep 0.01; done 2>/dev/null
		kill -USR2 $! 2>/dev/null || true
		wait $! || [ $? = 75 ]
		with_fault write:120:KILL train-step-loop two 2>>log || true
	done
	train_to_end two
	[ "$(grep -c $'\tlost\t' two/shifts.tsv)" -ge 1 ]
	[ "$(find two -name 'events.out.tfevents.*' | wc -l)" -ge 2 ]
	"$ROOT/build/tests/tools/event-list" two/events.out.tfevents.* >events
	[ "$(cut -f1,2 events | sort | uniq -d | wc -l)" = 0 ]
	[ "$(grep -c 'train/loss' events)" = 150 ]
}

@test "a checkpoint is written while training goes on" {
	mkconfig run depth-tiny data.train.rooms.path="$DATA" train.steps=80 schedule.total=80 validate.every=0 picture.every=0 checkpoint.every=40
	NIGHTSHIFT_FAULT_PATH='*optimizer*' with_fault fsync:1:slow train-step-loop run 2>log
	# Its optimizer state was on disk three seconds late; so many steps cannot have been done since.
	awk -F'\t' -v written="$(stat -c %.3Y run/checkpoints/step-00000040)" '$1 == 70 { early = $3 < written - 1 } END { exit !early }' run/log/time.tsv
	grep -qx 'step 80' run/done
}

@test "no space for a checkpoint that is written beside the training: 73, nothing half, and the bits of one" {
	new_run two
	NIGHTSHIFT_FAULT_PATH='*optimizer*' with_fault write:2:ENOSPC train-step-loop two 2>log && false || [ $? = 73 ]
	grep -q $'\tend\t.*\t73\t' two/shifts.tsv
	[ -z "$(ls -A two/checkpoints)" ]
	train_to_end two
	same_run "$ONE" two
}

# Twenty epochs of two and a half steps; the rate follows the validation at their ends.
by_epochs() {
	mkconfig "$1" depth-tiny data.train.rooms.path="$DATA" train.epochs=20 schedule.name=plateau schedule.metric=abs_relative_difference schedule.patience=0 schedule.gamma=0.5 \
		schedule.threshold=0.005 validate.every=0 picture.every=0 picture.epochs=9 checkpoint.every=0 checkpoint.epochs=3 \
		checkpoint.keep_every=0 checkpoint.keep_epochs=10 optimizer.name=adamw optimizer.weight_decay=0.1 \
		optimizer.decay_vectors=false optimizer.ema=0.9 batch.size=5 batch.micro=5
}

@test "a run by epochs whose rate follows the validation: killed and ended anywhere, the bits of one" {
	by_epochs one
	train-step-loop one 2>log
	column epoch one/log/epoch.tsv >epochs
	diff epochs <(seq 20)
	[ "$(column step one/log/epoch.tsv | tr '\n' ' ')" = "$(awk 'BEGIN { for (e = 1; e <= 20; e++) printf "%d ", (12 * e + 4) / 5 }')" ]
	# The rate is cut behind some epochs, as a plateau of no patience says from the metrics that were logged.
	awk -F'\t' 'BEGIN { rate = 0.001; best = 1e300 }
		$3 == "abs_relative_difference" { if ($4 < best * 0.995) best = $4; else rate *= 0.5; printf "%.15g\n", rate }' one/log/val.tsv >rates
	[ "$(sort -u rates | wc -l)" -ge 3 ]
	diff <(sed '$d' rates) <(column lr one/log/epoch.tsv | sed 1d)
	diff <(column step one/log/val.tsv | uniq) <(column step one/log/epoch.tsv)
	[ -d one/checkpoints/weights-00000024 ]
	[ -d one/pictures/step-00000044 ]
	grep -qx 'epoch 20' one/done

	by_epochs two
	local fault rows
	for fault in write:30:KILL rename:4:KILL write:90:KILL fsync:5:KILL write:160:KILL; do
		with_fault "$fault" train-step-loop two 2>>log && break
		rows=$(wc -l <two/log/time.tsv)
		train-step-loop two 2>>log &
		until [ "$(wc -l <two/log/time.tsv)" -gt $((rows + 2)) ] || ! kill -0 $!; do sleep 0.01; done 2>/dev/null
		kill -USR2 $! 2>/dev/null || true
		wait $! || [ $? = 75 ]
	done
	train_to_end two
	[ "$(grep -c $'\tstart\t' two/shifts.tsv)" -ge 4 ]
	same_files one two log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/step-00000048/model \
		checkpoints/step-00000048/optimizer checkpoints/weights-00000024 checkpoints/best

	# What is saved as the model is the average, which validation has looked at.
	"$ROOT/bin/eval" --summary one 2>>log >summary
	[ "$(column abs_relative_difference summary)" = "$(awk -F'\t' '$3 == "abs_relative_difference" { value = $4 } END { print value }' one/log/val.tsv)" ]
	# More epochs go on where the run has ended.
	mkconfig two train.epochs=21
	train-step-loop two 2>>log
	grep -qx 'epoch 21' two/done
	grep -qx 'step 51' two/done
}
