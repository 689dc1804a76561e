# stage-data --pack: a directory as one archive that programs read as it is; and the budget of all copies.
# seconds: 30

load helper

setup() {
	enter_scratch
	mkdir scratch
	[ -e "$ROOT/build/tests/faults.so" ] || make -s -C "$ROOT" build/tests/faults.so
}

# tree NAME: files of odd names and sizes, several pieces of a pack, one in parts.
tree() {
	local i
	mkdir -p "$1/a/b" "$1/c d" "$1/empty" "$1/$(printf 'long%.0s' $(seq 40))"
	for i in $(seq 60); do yes "line of file $i" | head -c $((i * 2997)) >"$1/a/$i"; done
	: >"$1/nothing"
	echo one >"$1/c d/-dash"
	echo two >"$1/c d/$(printf 'tab\there')"
	echo three >"$1/c d/$(printf 'new\nline')"
	echo five >"$1/a/b/$(printf 'b\377yte')"
	echo six >"$1/$(printf 'long%.0s' $(seq 40))/$(printf 'name%.0s' $(seq 40))"
	seq 3000000 | head -c 17000000 >"$1/a/b/large"
}
files=67

stage() { # STATUS WORD ...
	local wanted=$1
	shift
	run_tool "$wanted" stage-data --to scratch "$@"
	copy=$(awk -F'\t' 'NR == 2 { print $2 }' <<<"$output")
	entry=${copy%/data*}
}

copied() { sed -n 's/.*: \([0-9]*\) files, .* copied to .*/\1/p' <<<"$stderr"; }

# Another tar's view of the pack is the source.
same_tree() { # SOURCE PACK
	rm -rf unpacked
	mkdir unpacked
	tar xf "$2" -C unpacked
	rm unpacked/.nightshift-index
	diff -r "$1" unpacked
}

@test "a directory becomes one file that tar unpacks, private, with a manifest; the row says where" {
	tree source
	stage 0 --pack source
	[ "$copy" = "$PWD/scratch/nightshift-$(id -un)/$(awk -F'\t' 'NR == 2 { print $3 }' <<<"$output")/data/pack.tar" ]
	same_tree source "$copy"
	[ "$(copied)" -eq $files ]
	[ "$(stat -c %a "$entry" "$entry/data" "$copy" | tr '\n' ' ')" = '700 700 600 ' ]
	[ "$(find "$entry" -type f | wc -l)" -eq 4 ]
	[ "$(head -n 1 "$entry/MANIFEST" | cut -f2-)" = "$(stat -c %s "$copy")"$'\tpack.tar' ]
	first=$copy
	stage 0 --pack source
	[ "$copy" = "$first" ]
	[ -z "$stderr" ]
	stage 0 source
	[ "$copy" != "$first" ]
	diff -r source "$copy"
	echo more >>source/a/1
	stage 0 --pack source
	[ "$copy" != "$first" ]
	same_tree source "$copy"
}

@test "the same bytes, however many copy" {
	tree source
	stage 0 --pack --jobs 1 source
	cp "$copy" one
	rm -r "$entry"
	stage 0 --pack --jobs 16 source
	cmp one "$copy"
}

@test "killed at any write, it goes on with what was whole, and the pack has the same bytes" {
	local at
	tree source
	stage 0 --pack source
	cp "$copy" whole
	for at in 1 2 3 5 8 12; do
		rm -rf scratch/*
		run_tool 137 with_fault "write:$at:KILL" stage-data --pack --jobs 1 --to scratch source
		[ ! -e "$(echo scratch/nightshift-*/*/)/MANIFEST" ]
		stage 0 --pack source
		cmp whole "$copy"
		[ "$at" -lt 8 ] || [ "$(copied)" -lt $files ]
	done
}

@test "a piece that was damaged after it was journalled is copied again" {
	tree source
	run_tool 137 with_fault 'write:11:KILL' stage-data --pack --jobs 1 --to scratch source
	printf X | dd of="$(echo scratch/nightshift-*/*/data/pack.tar)" bs=1 seek=20000 conv=notrunc status=none
	stage 0 --pack source
	same_tree source "$copy"
	stage 0 --pack --verify source
	[ -z "$(copied)" ]
}

@test "--verify finds a flipped byte and mends it; a short one is noticed without being asked" {
	tree source
	stage 0 --pack --verify source
	printf X | dd of="$copy" bs=1 seek=50000 conv=notrunc status=none
	stage 0 --pack source
	[ -z "$(copied)" ]
	stage 0 --pack --verify source
	[ "$(copied)" -eq $files ]
	same_tree source "$copy"
	truncate -s -1 "$copy"
	stage 0 --pack source
	[ "$(copied)" -eq $files ]
	same_tree source "$copy"
}

@test "two at once: one copies, the other waits" {
	tree source
	stage-data --pack --to scratch source >one 2>one.err 3>&- &
	stage-data --pack --to scratch source >two 2>two.err 3>&-
	wait $!
	cmp one two
	[ "$(cat one.err two.err | grep -c 'copied to')" -eq 1 ]
	same_tree source "$(awk -F'\t' 'NR == 2 { print $2 }' one)"
}

@test "a disk that fills up in the middle: 73, and the entry is gone" {
	tree source
	for at in 3 6 12; do
		run_tool 73 with_fault "write:$at+:ENOSPC" stage-data --pack --to scratch source
		one_error 'No space left'
		[ -z "$(find scratch -name data)" ]
	done
	stage 0 --pack source
	same_tree source "$copy"
}

@test "space is checked before the first byte" {
	[ "$(id -u)" -eq 0 ] || skip "mounting needs root"
	mkdir small
	mount -t tmpfs -o size=1m tmpfs small 2>/dev/null || skip "mounting is refused here"
	tree source
	run stage-data --pack --to small source
	find small -name pack.tar >found
	umount small
	[ "$status" -eq 73 ]
	[[ $output == *'are needed and'*'are free'* ]]
	[ ! -s found ]
}

@test "an error of the source's disk: 74, and a source that changes meanwhile: 65" {
	tree source
	export NIGHTSHIFT_FAULT_PATH=2 # as it is opened, relative to its directory
	run_tool 74 with_fault 'open:1:EIO' stage-data --pack --jobs 1 --to scratch source
	one_error 'source/a/2: Input/output error'
	unset NIGHTSHIFT_FAULT_PATH
	stage 0 --pack source
	same_tree source "$copy"
	: >source/.nightshift-index
	run_tool 65 stage-data --pack --to scratch source
	one_error '.nightshift-index'
}

@test "a notice leaves whole pieces: 75" {
	tree source
	run_tool 75 perl -e 'use POSIX; my $s = POSIX::SigSet->new(POSIX::SIGUSR2); sigprocmask(SIG_BLOCK, $s); kill USR2 => $$; exec @ARGV' \
		stage-data --pack --to scratch source
	one_error 'stopped in time'
	stage 0 --pack source
	same_tree source "$copy"
}

@test "lists: the files named, and no others" {
	tree source
	printf 'a/3\nc d/-dash\n' >list
	stage 0 --pack --list list source
	[ "$(tar tf "$copy" | grep -v '/$' | grep -v nightshift)" = $'a/3\nc d/-dash' ]
}

@test "a pack is a source as it is" {
	tree source
	stage 0 --pack source
	cp "$copy" mine.tar
	stage 0 mine.tar
	[ "$(basename "$copy")" = mine.tar ]
	cmp mine.tar "$copy"
	stage 0 --pack mine.tar
	cmp mine.tar "$copy"
}

@test "archives, plain and compressed, become packs; a notice, a kill and a full disk leave none" {
	tree source
	tar cf plain.tar -C source .
	tar czf packed.tgz -C source a nothing 'c d'
	stage 0 --pack plain.tar
	same_tree source "$copy"
	[ "$(copied)" -eq $files ]
	stage 0 --pack plain.tar
	[ -z "$stderr" ]
	stage 0 --pack --verify plain.tar
	[ -z "$(copied)" ]
	stage 0 --pack packed.tgz
	rm -r source/empty source/long*
	same_tree source "$copy"
	rm -rf scratch/*
	run_tool 137 with_fault write:3:KILL stage-data --pack --to scratch plain.tar
	[ ! -e "$(echo scratch/nightshift-*/*/)/MANIFEST" ]
	run_tool 73 with_fault 'write:3+:ENOSPC' stage-data --pack --to scratch packed.tgz
	tree source
	stage 0 --pack plain.tar
	same_tree source "$copy"
	head -c 700000 plain.tar >cut.tar
	run_tool 65 stage-data --pack --to scratch cut.tar
	one_error 'cut.tar'
}

@test "archives: links to files are files, the last of two counts, links out and to directories are refused" {
	mkdir -p source/d
	echo one >source/file
	ln source/file source/hard
	ln -s ../file source/d/soft
	ln -s d/soft source/twice
	tar cf links.tar -C source file hard d/soft twice
	echo two >source/file
	tar rf links.tar -C source d
	tar rf links.tar -C source file
	stage 0 --pack links.tar
	for name in file hard d/soft twice; do
		[ "$("$ROOT/build/tests/source" "$copy" "$name")" = two ]
	done
	ln -s d source/directory
	tar cf directory.tar -C source d directory file
	run_tool 65 stage-data --pack --to scratch directory.tar
	one_error 'directory: is a link to a directory'
	ln -s /etc/passwd source/out
	tar cf out.tar -C source out
	run_tool 65 stage-data --pack --to scratch out.tar
	one_error 'outside of the archive'
	ln -s gone source/dangling
	tar cf dangling.tar -C source dangling
	run_tool 65 stage-data --pack --to scratch dangling.tar
	one_error 'which is not there'
}

@test "a run on a pack is the run on its directory" {
	make-scenes depth -n 6 --seed 1 --size 32x48 rooms 2>/dev/null
	for name in plain packed; do
		mkconfig $name depth-tiny data.train.rooms.path="$PWD/rooms" stage.to="$PWD/scratch" train.steps=3 \
			data.cache=0 stage.pack=$([ $name = packed ] && echo true || echo false) stage.budget="1 GiB"
		run_tool 0 stage-data $name
	done
	[[ $(column path "packed/staged/$(uname -n).tsv") == */data/pack.tar ]]
	mv rooms elsewhere
	for name in plain packed; do
		run_tool 0 train-step-loop $name
		[[ $stderr != *'instead'* ]]
	done
	cmp plain/log/step.tsv packed/log/step.tsv
	cmp plain/log/val.tsv packed/log/val.tsv
	run_tool 0 "$ROOT/bin/eval" packed
}

# used ENTRY MINUTES: its last use was so long ago.
used() { touch -d "$2 minutes ago" "$1.lock"; }

# three: trees one, two and three of about 300 kB, the first used longest ago, and the variables one, two, three: their entries.
three() {
	local name age=90
	for name in one two three; do
		mkdir -p "$name"
		yes "$name" | head -c 300000 >"$name/file"
		stage 0 "$name"
		used "$entry" $age
		age=$((age - 10))
		declare -g "$name=$entry"
	done
	mkdir four
	yes four | head -c 300000 >four/file
}

@test "budget: the copy used longest ago goes, and no more than must" {
	three
	stage 0 --budget 1MB four
	[ ! -e "$one" ]
	[ -e "$two" ]
	[ -e "$three" ]
	diff -r four "$copy"
	[[ $stderr == *"$one: removed"* ]]
	# Found again is used: two is not the oldest any more.
	used "$entry" 60
	stage 0 two
	used "$entry" 50
	stage 0 --budget 1MB one
	[ ! -e "$three" ]
	[ -e "$two" ]
}

@test "budget: what is locked, or was used in the last half hour, stays" {
	three
	flock --close --shared "$one.lock" sleep 20 3>&- &
	used "$one" 90
	used "$two" 29
	sleep 0.3
	stage 0 --budget 1MB four
	[ -e "$one" ]
	[ -e "$two" ]
	[ ! -e "$three" ]
	rm -rf four
	mkdir four
	yes other | head -c 300000 >four/file
	stage 73 --budget 1MB four
	kill %1
	one_error 'the budget is' 'stage.budget'
	[ -e "$one" ]
	[ -e "$two" ]
}

@test "budget: what does not fit at all removes nothing" {
	three
	stage 73 --budget 200kB four
	one_error 'are needed, the budget is'
	[ -e "$one" ]
	[ -e "$two" ]
	[ -e "$three" ]
	stage 0 --budget 200kB three # it is there
	stage 0 four
}

@test "budget: removing that is cut short leaves no copy that looks whole" {
	local at
	for at in 1 2 3; do
		rm -rf scratch/* one two three four
		three
		run_tool 137 with_fault "unlink:$at:KILL" stage-data --budget 1MB --to scratch four
		stage 0 one
		diff -r one "$copy"
	done
}

@test "budget: two at once stay within it" {
	three
	mkdir five
	yes five | head -c 300000 >five/file
	stage-data --budget 1MB --to scratch four >out4 2>err4 3>&- &
	run_tool 0 stage-data --budget 1MB --to scratch five
	wait $!
	[ "$(ls -d scratch/nightshift-*/*/MANIFEST | wc -l)" -eq 3 ]
	[ -e "$three" ]
	[ "$(awk '{ sum += $1 } END { print sum }' scratch/nightshift-*/*/size)" -le 1000000 ]
	diff -r four "$(awk -F'\t' 'NR == 2 { print $2 }' out4)"
}

@test "a run that reads a copy makes it used" {
	make-scenes depth -n 4 --seed 1 --size 32x48 rooms 2>/dev/null
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" stage.to="$PWD/scratch" stage.pack=true train.steps=1 \
		validate.every=0 picture.every=0
	run_tool 0 stage-data run
	touch -d '2 hours ago' scratch/nightshift-*/*.lock
	run_tool 0 train-step-loop run
	[ -n "$(find scratch -name '*.lock' -mmin -10)" ]
}
