# make-scenes: synthetic rooms and clips.

load helper

setup() {
	enter_scratch
}

@test "a dataset of the plain layout, and nothing on stdout" {
	run_tool 0 make-scenes depth -n 3 --size 24x32 DIR
	[ -z "$output" ]
	[ "$(ls DIR DIR/rgb DIR/depth | tr '\n' ' ')" = "DIR: depth list.txt rgb scenes.txt  DIR/depth: 00000.png 00001.png 00002.png  DIR/rgb: 00000.png 00001.png 00002.png " ]
	[ "$(cat DIR/list.txt)" = "rgb/00000.png depth/00000.png
rgb/00001.png depth/00001.png
rgb/00002.png depth/00002.png" ]
	grep -x 'seed 1' DIR/scenes.txt
	grep -x 'size 24x32' DIR/scenes.txt
}

@test "a scene depends on seed and number alone" {
	make-scenes depth -n 5 --size 24x32 a
	make-scenes depth -n 2 --first 3 --size 24x32 b
	make-scenes depth -n 5 --size 24x32 --seed 2 c
	same_files a b rgb/00003.png rgb/00004.png depth/00003.png depth/00004.png
	run ! cmp -s a/rgb/00000.png c/rgb/00000.png
	run ! cmp -s a/rgb/00000.png a/rgb/00001.png
}

@test "a second call goes on where the first ended, and extends" {
	make-scenes depth -n 4 --size 24x32 a
	make-scenes depth -n 2 --size 24x32 b
	touch -d 2001-01-01 b/rgb/00000.png
	rm b/depth/00001.png
	run_tool 0 make-scenes depth -n 4 --size 24x32 b
	[[ $stderr == *"4 scenes in b, 3 of them new" ]]
	same_files a b rgb depth list.txt
	[ "$(date -r b/rgb/00000.png +%Y)" = 2001 ]
}

@test "another seed or size in the same directory is refused" {
	make-scenes depth -n 1 --size 24x32 DIR
	run_tool 65 make-scenes depth -n 1 --size 24x32 --seed 9 DIR
	one_error 'DIR holds scenes of another kind, seed or size'
	run_tool 65 make-scenes depth -n 1 --size 32x24 DIR
	one_error 'DIR holds scenes'
	[ "$(ls DIR/rgb)" = 00000.png ]
}

@test "TERM and USR2: 75, whole files, and the same command goes on" {
	make-scenes depth -n 30 --size 96x128 whole
	for signal in TERM USR2; do
		make-scenes depth -n 30 --size 96x128 "$signal" 2>message &
		while ! [ -e "$signal/rgb/00000.png" ]; do sleep 0.01; done
		kill -"$signal" $!
		status=0
		wait $! || status=$?
		[ "$status" -eq 75 ]
		grep 'stopped before scene' message
		[ "$(wc -l <message)" -eq 1 ]
		[ ! -e "$signal/list.txt" ]
		make-scenes depth -n 30 --size 96x128 "$signal"
		same_files whole "$signal" rgb depth list.txt
	done
}

@test "a failing write leaves no part of a file" {
	for what in ENOSPC:73 EIO:74 EDQUOT:73; do
		rm -rf DIR
		make-scenes depth -n 1 --size 24x32 DIR
		NIGHTSHIFT_FAULT_PATH='*/depth/*' run_tool "${what#*:}" with_fault "write:1+:${what%:*}" \
			make-scenes depth -n 3 --size 24x32 DIR
		one_error 'DIR/depth/0000[12].png'
		[ "$(ls -A DIR/depth)" = 00000.png ]
		make-scenes depth -n 3 --size 24x32 DIR
	done
}

@test "a killed process leaves whole files, and the next call completes them" {
	make-scenes depth -n 3 --size 24x32 whole
	for at in 1 2 4 6; do
		rm -rf DIR
		with_fault "rename:$at:KILL" make-scenes depth -n 3 --size 24x32 DIR || true
		make-scenes depth -n 3 --size 24x32 DIR
		for file in rgb/00002.png depth/00000.png list.txt; do cmp "whole/$file" "DIR/$file"; done
	done
}

@test "wrong command lines" {
	run_tool 64 make-scenes DIR
	one_error 'the kind of scenes comes first'
	run_tool 64 make-scenes depth
	one_error 'DIR is missing'
	run_tool 64 make-scenes depth a b
	one_error 'more than one DIR'
	for size in 96 96x 7x96 96x128x3 x 9999x9999 -96x128; do
		run_tool 64 make-scenes depth --size="$size" DIR
		one_error "--size $size: must be height x width"
	done
	run_tool 64 make-scenes depth -n 0 DIR
	run_tool 64 make-scenes depth --seed -1 DIR
	run_tool 64 make-scenes depth --first -1 DIR
	[ ! -e DIR ]
}

@test "a directory that cannot be written" {
	echo text >file
	run_tool 73 make-scenes depth -n 1 file/DIR
	one_error 'file'
	[ "$(id -u)" -ne 0 ] || skip "root may write anywhere"
	mkdir closed
	chmod 500 closed
	run_tool 77 make-scenes depth -n 1 closed/DIR
	one_error 'closed/DIR'
}

# clips

@test "clips: frame directories of each class, an annotation, and nothing on stdout" {
	run_tool 0 make-scenes clips -n 12 --size 16x24 --frames 3 DIR
	[ -z "$output" ]
	[[ $stderr == *"12 scenes in DIR, 12 of them new" ]]
	[ "$(cd DIR && ls -d */ | wc -l)" -eq 10 ]
	[ "$(ls DIR/moving-right)" = "clip-00000
clip-00010" ]
	[ "$(ls -A DIR/moving-right/clip-00010)" = "image_00001.png
image_00002.png
image_00003.png" ]
	[ "$(cat DIR/scenes.txt)" = "format 1
scenes clips
seed 1
size 16x24
frames 3" ]
	# IHDR: width, height, 8 bits, RGB.
	[ "$(od -An -tx1 -j16 -N10 DIR/moving-left/clip-00001/image_00001.png | tr -d ' ')" = 00000018000000100802 ]
}

# What a strict JSON reader makes of the annotation: "id subset label begin end" a line.
annotated() {
	jq -r '.database | to_entries[] | [.key, .value.subset, .value.annotations.label, .value.annotations.segment[]] | join(" ")' "$1"
}

@test "clips: the annotation is the original's form, and every K-th round is held out" {
	command -v jq >/dev/null || skip "needs jq"
	make-scenes clips -n 40 --size 8x8 --frames 2 --validation 2 DIR
	[ "$(jq -r '.labels[]' DIR/annotation.json | tr '\n' ' ')" = "moving-right moving-left moving-down moving-up turning-clockwise turning-counterclockwise growing shrinking appearing vanishing " ]
	annotated DIR/annotation.json >rows
	[ "$(wc -l <rows)" -eq 40 ]
	[ "$(sed -n '1p;11p;40p' rows)" = "clip-00000 training moving-right 1 3
clip-00010 validation moving-right 1 3
clip-00039 validation vanishing 1 3" ]
	# As many of each class in each part, and each where its label says.
	[ "$(awk '{ print $2, $3 }' rows | sort | uniq -c | awk '{ print $1 }' | sort -u)" = 2 ]
	while read -r id _ label _ end; do
		[ "$(find "DIR/$label/$id" -name 'image_*' | wc -l)" -eq $((end - 1)) ]
	done <rows
	make-scenes clips -n 40 --size 8x8 --frames 2 --validation 0 DIR
	annotated DIR/annotation.json >rows
	[ "$(awk '{ print $2 }' rows | sort -u)" = training ]
	make-scenes clips -n 40 --size 8x8 --frames 2 DIR
	[ "$(annotated DIR/annotation.json | grep -c validation)" -eq 0 ]
	make-scenes clips -n 50 --size 8x8 --frames 2 DIR
	[ "$(annotated DIR/annotation.json | grep -c validation)" -eq 10 ]
}

@test "clips: a clip depends on seed and number alone; a second call extends" {
	make-scenes clips -n 23 --size 12x8 --frames 2 a
	make-scenes clips -n 3 --first 20 --size 12x8 --frames 2 b
	make-scenes clips -n 23 --size 12x8 --frames 2 --seed 2 c
	same_files a b moving-down/clip-00022
	run ! cmp -s a/growing/clip-00006/image_00001.png c/growing/clip-00006/image_00001.png
	run ! cmp -s a/growing/clip-00006/image_00001.png a/growing/clip-00016/image_00001.png
	run_tool 0 make-scenes clips -n 23 --size 12x8 --frames 2 b
	[[ $stderr == *"23 scenes in b, 20 of them new" ]]
	diff -r a b
}

@test "clips: other frames, size, seed or kind in the same directory are refused" {
	make-scenes clips -n 1 --size 8x8 --frames 2 DIR
	for other in "--frames 3 --size 8x8" "--frames 2 --size 8x9" "--frames 2 --size 8x8 --seed 2"; do
		# shellcheck disable=SC2086
		run_tool 65 make-scenes clips -n 1 $other DIR
		one_error 'DIR holds scenes of another kind, seed or size'
	done
	run_tool 65 make-scenes depth -n 1 --size 8x8 DIR
	one_error 'DIR holds scenes of another kind'
	[ ! -e DIR/rgb ]
	make-scenes depth -n 1 --size 8x8 rooms
	run_tool 65 make-scenes clips -n 1 --size 8x8 rooms
	[ "$(ls rooms)" = "depth
list.txt
rgb
scenes.txt" ]
}

@test "clips: a killed or failing process leaves whole clips, and the next call completes them" {
	make-scenes clips -n 4 --size 8x8 --frames 3 whole
	for at in 1 2 4 5; do
		rm -rf DIR
		with_fault "rename:$at:KILL" make-scenes clips -n 4 --size 8x8 --frames 3 DIR || true
		while read -r clip; do diff -r "$clip" "whole/${clip#DIR/}"; done < <(find DIR -name 'clip-*' -not -name '.*')
		make-scenes clips -n 4 --size 8x8 --frames 3 DIR
		for clip in moving-right/clip-00000 moving-left/clip-00001 moving-down/clip-00002 moving-up/clip-00003; do
			same_files whole DIR "$clip" annotation.json
		done
	done
	for what in write:ENOSPC:73 fsync:EIO:74 write:EDQUOT:73; do
		rm -rf DIR
		IFS=: read -r call error wanted <<<"$what"
		NIGHTSHIFT_FAULT_PATH='*/image_00002.png' run_tool "$wanted" with_fault "$call:1+:$error" \
			make-scenes clips -n 4 --size 8x8 --frames 3 DIR
		one_error 'image_00002.png'
		[ -z "$(find DIR -name '*clip*')" ]
		[ ! -e DIR/annotation.json ]
	done
}

@test "clips: USR2: 75, whole clips, and the same command goes on" {
	make-scenes clips -n 60 whole
	make-scenes clips -n 60 DIR 2>message &
	while ! [ -e DIR/moving-right/clip-00000 ]; do sleep 0.01; done
	kill -USR2 $!
	status=0
	wait $! || status=$?
	[ "$status" -eq 75 ]
	grep 'stopped before scene' message
	[ ! -e DIR/annotation.json ]
	make-scenes clips -n 60 DIR
	diff -r whole DIR
}

@test "clips: wrong command lines" {
	run_tool 64 make-scenes boxes DIR
	one_error 'depth or clips'
	run_tool 64 make-scenes clips --frames 0 DIR
	one_error '--frames must be 1 to'
	run_tool 64 make-scenes clips --validation -2 DIR
	one_error '--validation must not be negative'
	for option in "--frames 3" "--validation 0"; do
		# shellcheck disable=SC2086
		run_tool 64 make-scenes depth $option DIR
		one_error 'are for clips'
	done
	[ ! -e DIR ]
}
