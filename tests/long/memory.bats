#!/usr/bin/env bats
# What --dry-run says a run will need, against what it takes: the growth of the resident set of a run of more than 1 GiB beyond that of
# the smallest one.

load ../helper

setup() {
	enter_scratch
	make-scenes depth -n 12 --seed 1 --size 96x128 rooms
}

# trained RUN [key=value ...]: two steps, with a save behind the first.
trained() {
	mkconfig "$1" depth-tiny data.train.rooms.path="$PWD/rooms" 'data.test=()' train.steps=2 validate.every=0 picture.every=0 checkpoint.every=1 \
		model.context_width=64 batch.micro=16 batch.size=16 "${@:2}"
	train-step-loop "$1" 2>>log
}

needed() { # RUN ITEM
	train-step-loop --dry-run "$1" | awk -F'\t' -v item="$2" '$1 == item { printf "%d", $2 }'
}

# close_to GROWTH PREDICTED: within 2 % or 32 MiB, whichever is more.
close_to() {
	echo "grown by $1, predicted $2"
	awk -v grown="$1" -v predicted="$2" 'BEGIN {
		room = predicted * 0.02; if (room < 33554432) room = 33554432
		exit !(grown - predicted <= room && predicted - grown <= room)
	}'
}

@test "a run of more than 1 GiB takes the memory that was predicted, and within a budget less, to the same bits" {
	local resident=(0 0 0) step budget
	trained small
	trained plain model.widths=256,512 model.heads=8,16
	budget=$(($(needed plain memory_bytes) - $(needed plain activations_bytes) / 3))
	trained tight model.widths=256,512 model.heads=8,16 memory=$budget
	[ "$(needed plain device_bytes)" -gt $((1 << 30)) ]
	for step in 1 2; do
		resident[$step]=$(awk -F'\t' -v step=$step '$1 == step { print $7 }' small/log/time.tsv)
	done
	for run in plain tight; do
		# Behind the first step the device's share is there, behind a save the copy that it was written from, too.
		close_to $(($(awk -F'\t' '$1 == 1 { print $7 }' $run/log/time.tsv) - resident[1])) \
			$(($(needed $run device_bytes) - $(needed small device_bytes)))
		close_to $(($(awk -F'\t' '$1 == 2 { print $7 }' $run/log/time.tsv) - resident[2])) \
			$(($(needed $run memory_bytes) - $(needed small memory_bytes)))
	done
	[ "$(needed tight memory_bytes)" -le "$budget" ]
	[ "$(needed tight activations_bytes)" -lt "$(needed plain activations_bytes)" ]
	same_files plain tight log/step.tsv checkpoints/step-00000002/model checkpoints/step-00000002/optimizer
}
