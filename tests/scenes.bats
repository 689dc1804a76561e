# make-scenes: synthetic rooms.

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
	one_error 'DIR holds scenes of another seed or size'
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
