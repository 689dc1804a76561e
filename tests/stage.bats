# stage-data: local copies that are whole, shared, resumed and verified.

load helper

setup() {
	enter_scratch
	mkdir scratch
	[ -e "$ROOT/build/tests/faults.so" ] || make -s -C "$ROOT" build/tests/faults.so
}

# tree NAME: some directories and files of odd names and sizes.
tree() {
	local i
	mkdir -p "$1/a/b" "$1/c d" "$1/empty"
	# no X anywhere: tests damage files by writing one
	for i in $(seq 40); do yes "line of file $i" | head -c $((i * 997)) >"$1/a/$i"; done
	: >"$1/nothing"
	echo one >"$1/c d/-dash"
	echo two >"$1/c d/$(printf 'tab\there')"
	echo three >"$1/c d/$(printf 'new\nline')"
	echo four >"$1/c d/back\\slash"
	echo five >"$1/a/b/$(printf 'b\377yte')"
	seq 100000 | head -c 300000 >"$1/a/b/large"
}

stage() { # STATUS WORD ...
	local wanted=$1
	shift
	run_tool "$wanted" stage-data --to scratch "$@"
	copy=$(awk -F'\t' 'NR == 2 { print $2 }' <<<"$output")
	entry=${copy%/data*}
}

copied() { sed -n 's/.*: \([0-9]*\) files, .* copied to .*/\1/p' <<<"$stderr"; }

@test "a directory: the same files, private, with a manifest; the rows on stdout" {
	tree source
	stage 0 source
	[ "${lines[0]}" = "$(printf '#name\tpath\tkey\tsource')" ]
	[ "$(awk -F'\t' 'NR == 2 { print $1 }' <<<"$output")" = source ]
	[ "$copy" = "$PWD/scratch/nightshift-$(id -un)/$(awk -F'\t' 'NR == 2 { print $3 }' <<<"$output")/data" ]
	diff -r source "$copy"
	[ "$(copied)" -eq 47 ]
	[ "$(stat -c %a "$entry" "$copy" "$copy/a" "$copy/a/1" "$PWD/scratch"/nightshift-* | tr '\n' ' ')" = '700 700 700 600 700 ' ]
	[ "$(wc -l <"$entry/MANIFEST")" -eq 48 ]
	[ ! -e "$entry/journal" ]
	sed '$d' "$entry/MANIFEST" | LC_ALL=C sort -c -t "$(printf '\t')" -k3
}

@test "the digests are CRC-32C" {
	mkdir source
	printf 123456789 >source/check
	stage 0 source
	[ "$(head -1 "$entry/MANIFEST")" = "$(printf 'e3069283\t9\tcheck')" ]
}

@test "what is there is not copied again; a changed source is another copy" {
	local first
	tree source
	stage 0 source
	first=$copy
	stage 0 source
	[ "$copy" = "$first" ]
	[ -z "$stderr" ]
	echo more >>source/a/1
	stage 0 source
	[ "$copy" != "$first" ]
	diff -r source "$copy"
}

@test "killed at any write, it goes on with what was whole" {
	local at before
	tree source
	for at in 1 9 30 50; do
		rm -rf scratch/*
		run_tool 137 with_fault "write:$at:KILL" stage-data --jobs 1 --to scratch source
		entry=$(echo scratch/nightshift-*/*/)
		[ ! -e "$entry/MANIFEST" ]
		before=$(wc -l 2>/dev/null <"$entry/journal" || echo 0)
		stage 0 source
		diff -r source "$copy"
		[ "$(copied)" -eq $((47 - before)) ]
	done
}

@test "a large file is copied in pieces, and goes on in pieces" {
	mkdir source
	truncate -s 200M source/large
	echo end >>source/large
	echo start | dd of=source/large conv=notrunc status=none
	# 128 KiB a write, 512 writes a piece of 64 MiB; the journal's do not count here.
	export NIGHTSHIFT_FAULT_PATH=large
	run_tool 137 with_fault write:1300:KILL stage-data --jobs 1 --to scratch source
	[ "$(wc -l <scratch/nightshift-*/*/journal)" -eq 2 ]
	stage 0 source
	cmp source/large "$copy/large"
	[[ $stderr == *'1 files, 72 MiB copied'* ]] || [[ $stderr == *'1 files, 72.0 MiB copied'* ]]
	stage 0 --verify source
	[ -z "$(copied)" ]
}

@test "a file that is missing or short is noticed without being asked" {
	tree source
	stage 0 source
	rm "$copy/a/7"
	truncate -s 10 "$copy/a/8"
	stage 0 source
	[ "$(grep -c '2 of 47 files are missing or damaged' <<<"$stderr")" -eq 1 ]
	[ "$(copied)" -eq 2 ]
	diff -r source "$copy"
}

@test "--verify finds a flipped byte and mends it" {
	tree source
	stage 0 --verify source
	printf X | dd of="$copy/a/30" bs=1 seek=5000 conv=notrunc status=none
	stage 0 source
	[ -z "$(copied)" ]
	stage 0 --verify source
	[ "$(copied)" -eq 1 ]
	cmp source/a/30 "$copy/a/30"
}

@test "a damaged manifest is no manifest" {
	tree source
	stage 0 source
	sed -i '1s/^./x/' "$entry/MANIFEST"
	stage 0 source
	[[ $stderr == *'MANIFEST: is damaged; the copy is made anew'* ]]
	[ "$(copied)" -eq 47 ]
	diff -r source "$copy"
}

@test "after another boot of the node the copy is read back first" {
	tree source
	stage 0 source
	echo 00000000-0000-0000-0000-000000000000 >"$entry/boot"
	printf X | dd of="$copy/a/30" bs=1 seek=5000 conv=notrunc status=none
	stage 0 source
	[[ $stderr == *'reading the copy back'* ]]
	[ "$(copied)" -eq 1 ]
	cmp source/a/30 "$copy/a/30"
	stage 0 source
	[ -z "$stderr" ]
}

@test "a damaged copy that others read is left to them" {
	tree source
	stage 0 source
	rm "$copy/a/7"
	flock --close --shared "$entry.lock" sleep 20 3>&- &
	sleep 0.3
	stage 69 source
	kill $!
	[[ $stderr == *'is damaged, and other jobs read it'* ]]
}

@test "two at once: one copies, the other waits" {
	tree source
	stage-data --to scratch source >one 2>one.err 3>&- &
	stage-data --to scratch source >two 2>two.err 3>&-
	wait $!
	cmp one two
	[ "$(cat one.err two.err | grep -c 'copied to')" -eq 1 ]
	diff -r source "$(awk -F'\t' 'NR == 2 { print $2 }' one)"
}

@test "the second takes over from a first that dies" {
	local lock
	tree source
	stage 0 source
	lock=$entry.lock
	rm -r "$entry"
	flock --close --exclusive "$lock" sleep 20 3>&- &
	sleep 0.2
	stage-data --to scratch source >out 2>err 3>&- &
	for _ in $(seq 100); do grep -q 'waiting for the process that fills it' err && break || sleep 0.1; done
	kill %1
	wait %2
	diff -r source "$copy"
}

@test "a notice while waiting: 75" {
	tree source
	stage 0 source
	rm -r "$entry"
	flock --close --exclusive "$entry.lock" sleep 20 3>&- &
	sleep 0.2
	stage-data --to scratch source >out 2>err 3>&- &
	sleep 0.5
	kill -USR2 $!
	status=0
	wait $! || status=$?
	[ "$status" -eq 75 ]
	kill %1
}

# A signal that is pending and blocked when the program starts.
with_pending() {
	perl -e 'use POSIX; my $s = POSIX::SigSet->new(POSIX::SIGUSR2); sigprocmask(SIG_BLOCK, $s); kill USR2 => $$; exec @ARGV' "$@"
}

@test "a notice before the start is not lost; a notice at any time leaves whole files" {
	local i
	tree source
	run_tool 75 with_pending stage-data --to scratch source
	one_error 'stopped in time'
	for i in 1 2 3 4 5 6; do
		rm -rf scratch/*
		stage-data --jobs 1 --to scratch source >out 2>err 3>&- &
		sleep "0.00$i"
		kill -USR2 $! 2>/dev/null || true
		status=0
		wait $! || status=$?
		[[ $status =~ ^(0|75|140)$ ]] # 140: before the program had blocked the signal
		stage 0 source
		diff -r source "$copy"
	done
}

@test "lists: the files named, and no others" {
	tree source
	printf 'a/1\n./a//b/large\na/1\n\n' >list
	stage 0 --list list source
	[ "$(cd "$copy" && find . -type f | sort | tr '\n' ' ')" = './a/1 ./a/b/large ' ]
	printf 'a/1\nno/such\n' >list
	stage 66 --list list source
	one_error 'source/no'
	printf 'a/1\n../list\n' >list
	stage 65 --list list source
	one_error 'list:2: ../list'
	printf 'c d/new\nline\0a/2\0' >list
	stage 0 --null --list list source
	[ "$(find "$copy" -type f | wc -l)" -eq 3 ] || [ -f "$copy/c d/$(printf 'new\nline')" ]
	cmp source/a/2 "$copy/a/2"
	[ "$(cat "$copy/c d/$(printf 'new\nline')")" = three ]
}

@test "one file" {
	head -c 5000 /dev/urandom >file.h5
	stage 0 file.h5
	[ "${copy##*/}" = file.h5 ]
	cmp file.h5 "$copy"
}

@test "links within the source are copied as what they point to" {
	tree source
	ln -s ../a/1 'source/c d/file'
	ln -s a source/directory
	ln -s "$PWD/source/a/2" source/absolute
	stage 0 source
	[ ! -L "$copy/c d/file" ]
	cmp source/a/1 "$copy/c d/file"
	cmp source/a/b/large "$copy/directory/b/large"
	cmp source/a/2 "$copy/absolute"
}

@test "links that leave the source are refused, or followed when asked" {
	tree source
	echo secret >outside
	ln -s ../outside source/out
	stage 65 source
	one_error 'source/out: is a link to .*/outside, outside of the source; --follow'
	stage 0 --follow source
	[ "$(cat "$copy/out")" = secret ]
	ln -sf nowhere source/out
	stage 65 source
	one_error 'source/out: is a link to nothing'
	rm source/out
	ln -s .. source/a/loop
	stage 65 source
	one_error 'loop'
}

@test "what is no file is left out and named" {
	tree source
	mkfifo source/a/pipe
	stage 0 source
	[[ $stderr == *'source/a/pipe: neither a file nor a directory, left out'* ]]
	rm source/a/pipe
	diff -r source "$copy"
	mkfifo pipe
	run_tool 65 timeout 20 stage-data --to . pipe
	one_error 'pipe: is neither a directory nor a file'
}

@test "a source that changes meanwhile is not taken" {
	mkdir source
	truncate -s 100M source/large
	(sleep 0.02; echo x >>source/large) &
	run stage-data --to scratch --jobs 1 source
	wait
	[ "$status" -eq 65 ] || { [ "$status" -eq 0 ] && stage 0 source && cmp source/large "$copy/large"; }
}

# ---- archives ----

@test "archives are unpacked, plain and compressed" {
	local name
	tree source
	(cd source && tar cf ../plain.tar . && tar czf ../packed.tar.gz . && cp ../plain.tar ../without-a-name)
	for name in plain.tar packed.tar.gz without-a-name; do
		stage 0 "$name"
		diff -r source "$copy"
		[ "$(stat -c %a "$copy" "$copy/a" "$copy/a/1" | tr '\n' ' ')" = '700 700 600 ' ]
		stage 0 --verify "$name"
		[ -z "$(copied)" ]
	done
}

@test "archives: killed at any write, it goes on" {
	local at before
	tree source
	(cd source && tar cf ../plain.tar .)
	for at in 5 40 70; do
		rm -rf scratch/*
		run_tool 137 with_fault "write:$at:KILL" stage-data --jobs 1 --to scratch plain.tar
		before=$(wc -l <"$(echo scratch/nightshift-*/*/journal)")
		stage 0 plain.tar
		diff -r source "$copy"
		[ "$(copied)" -eq $((47 - before)) ]
	done
}

@test "archives: links within, the last of two with one name" {
	mkdir -p source/d/e
	echo first >source/twice
	(cd source && tar cf ../a.tar twice)
	echo second >source/twice
	head -c 9000 /dev/urandom >source/d/e/file
	ln -s e/file source/d/soft
	ln source/d/e/file source/hard
	ln -s d/e source/directory
	ln -s soft source/d/chain
	(cd source && tar rf ../a.tar twice d hard directory d/e/file)
	tar tvf a.tar | grep -q 'd/e/file link to d/e/file'
	stage 0 a.tar
	[ "$(cat "$copy/twice")" = second ]
	for name in d/e/file d/soft d/chain hard directory/file; do cmp source/d/e/file "$copy/$name"; done
	stage 0 --verify a.tar
	[ -z "$(copied)" ]
}

@test "archives: nothing comes out of the copy" {
	local target
	mkdir x
	for target in /etc/passwd ../../outside a/../../../b; do
		rm -f x/link a.tar
		ln -s "$target" x/link
		tar cf a.tar x
		stage 65 a.tar
		one_error 'x/link' 'outside of the archive'
	done
	# A link to a directory above, through another link: text alone does not show it.
	rm -r x
	mkdir -p x top/in
	ln -s ../../top x/s 2>/dev/null || true
	mkdir -p deep/er
	ln -s ../../top deep/er/s
	ln -s deep/er/s/.. t
	tar cf a.tar top deep t
	stage 0 a.tar
	[ "$(cd "$copy" && find -L . -maxdepth 2 | grep -c scratch)" -eq 0 ]
	[[ $(realpath "$copy/t") == "$copy"* ]]
}

@test "archives: cut and damaged ones are refused" {
	tree source
	(cd source && tar cf ../plain.tar . && tar czf ../packed.tar.gz .)
	head -c 200000 plain.tar >cut.tar
	stage 65 cut.tar
	one_error cut.tar
	head -c 100000 packed.tar.gz >cut.tar.gz
	stage 65 cut.tar.gz
	one_error cut.tar.gz
	head -c 5000 /dev/urandom >noise.tar
	stage 65 noise.tar
	one_error noise.tar
}

# ---- space, places, permissions ----

@test "space and inodes are checked before the first byte" {
	[ "$(id -u)" -eq 0 ] || skip "mounting needs root"
	mkdir small
	mount -t tmpfs -o size=200k tmpfs small 2>/dev/null || skip "mounting is refused here"
	tree source
	run stage-data --to small source
	umount small
	[ "$status" -eq 73 ]
	[[ $output == *'are needed and'*'are free'* ]]
	mount -t tmpfs -o size=20m,nr_inodes=30 tmpfs small
	run stage-data --to small source
	find small -name 1 >found
	umount small
	[ "$status" -eq 73 ]
	[[ $output == *'inodes are needed'* ]]
	[ ! -s found ]
}

@test "a disk that fills up in the middle: 73, and the entry is gone" {
	tree source
	run_tool 73 with_fault 'write:30+:ENOSPC' stage-data --to scratch source
	one_error 'No space left'
	[ -z "$(find scratch -name data)" ]
	stage 0 source
	diff -r source "$copy"
}

@test "an error of the source's disk: 74, and what was whole stays" {
	tree source
	export NIGHTSHIFT_FAULT_PATH=2 # as it is opened, relative to its directory
	run_tool 74 with_fault 'open:1:EIO' stage-data --jobs 1 --to scratch source
	one_error 'source/a/2: Input/output error'
	unset NIGHTSHIFT_FAULT_PATH
	stage 0 source
	diff -r source "$copy"
}

@test "the cache must be a directory of ours" {
	local cache
	cache=scratch/nightshift-$(id -un)
	tree source
	ln -s /tmp "$cache"
	stage 77 source
	one_error 'is a link or no directory'
	rm "$cache"
	if [ "$(id -u)" -eq 0 ]; then
		mkdir "$cache"
		chown nobody "$cache"
		stage 77 source
		one_error 'belongs to another user'
		chown root "$cache"
	else
		mkdir "$cache"
	fi
	chmod 777 "$cache"
	stage 0 source
	[ "$(stat -c %a "$cache")" = 700 ]
}

@test "a scratch directory that is missing is not made" {
	tree source
	run_tool 73 stage-data --to nowhere source
	one_error 'nowhere: no such directory to stage to'
	[ ! -e nowhere ]
}

@test "the site's variables choose the scratch directory" {
	mkdir tmp
	tree source
	(cd source && tar cf ../a.tar .)
	export TMPDIR=$PWD/tmp
	SLURM_TMPDIR=$PWD/scratch run_tool 0 stage-data a.tar
	[[ $output == *"$PWD/scratch/nightshift-"* ]]
	run_tool 0 stage-data a.tar
	[[ $output == *"$PWD/tmp/nightshift-"* ]]
}

@test "what is local already stays where it is, unless --to says otherwise" {
	tree source
	run_tool 0 stage-data source
	[ "${lines[1]}" = "$(printf 'source\t%s\t-\t%s' "$PWD/source" "$PWD/source")" ]
	run_tool 0 stage-data --in-place source
	[ "${lines[1]}" = "$(printf 'source\t%s\t-\t%s' "$PWD/source" "$PWD/source")" ]
	[ -z "$(ls scratch)" ]
}

@test "bad command lines" {
	run_tool 64 stage-data
	run_tool 64 stage-data --jobs 1000 x
	run_tool 64 stage-data --in-place --to scratch x
	run_tool 64 stage-data --list a b c
	run_tool 64 stage-data --too x
	one_error 'did you mean --to'
	run_tool 66 stage-data --to scratch nowhere
	one_error nowhere
}

# ---- runs ----

@test "a run: a row for each dataset, in RUN/staged and on stdout; programs read the copy" {
	make-scenes depth -n 4 --seed 1 --size 32x48 rooms 2>/dev/null
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" stage.to="$PWD/scratch" train.steps=2 validate.every=0 picture.every=0
	run_tool 0 stage-data run
	[ "$output" = "$(cat "run/staged/$(uname -n).tsv")" ]
	[ "${lines[0]}" = "$(printf '#name\tpath\tkey\tsource')" ]
	[ "$(column name "run/staged/$(uname -n).tsv")" = rooms ]
	mv rooms elsewhere
	run_tool 0 train-step-loop run
	[ -e run/done ]
	# Where the run reads from another place now, the copy of the former one is none of it.
	make-scenes depth -n 2 --seed 2 --size 32x48 halls 2>/dev/null
	mkconfig run data.{train,val,vis,test}.rooms.path="$PWD/halls" train.steps=4
	run_tool 65 train-step-loop run
	[[ $stderr == *"has 2 samples, and had 4"* ]]
	mkconfig run data.{train,val,vis,test}.rooms.path="$PWD/rooms"
	run_tool 0 train-step-loop run
}

@test "a run may stay in place" {
	make-scenes depth -n 2 --seed 1 --size 32x48 rooms 2>/dev/null
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" stage.in_place=true
	run_tool 0 stage-data run
	[ "${lines[1]}" = "$(printf 'rooms\t%s\t-\t%s' "$PWD/rooms" "$PWD/rooms")" ]
	# The command line counts more.
	run_tool 0 stage-data --to scratch run
	[[ ${lines[1]} == *"$PWD/scratch/nightshift-"* ]]
}

@test "a run whose data is missing names the group" {
	mkconfig run depth-tiny data.train.rooms.path="$PWD/nowhere"
	run_tool 66 stage-data run
	one_error 'rooms' 'nowhere'
	[ ! -e "run/staged/$(uname -n).tsv" ]
}

@test "readers keep the copy while they run" {
	local lock trainer
	make-scenes depth -n 4 --seed 1 --size 32x48 rooms 2>/dev/null
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" stage.to="$PWD/scratch" train.steps=1000000 validate.every=0 \
		picture.every=0
	run_tool 0 stage-data run
	lock=$(echo scratch/nightshift-*/*.lock)
	flock --exclusive --nonblock "$lock" true
	train-step-loop run 2>trainer.log 3>&- &
	trainer=$!
	until [ -s run/log/step.tsv ]; do sleep 0.1; done
	run flock --exclusive --nonblock "$lock" true
	[ "$status" -eq 1 ]
	flock --shared --nonblock "$lock" true
	kill -TERM $trainer
	wait $trainer || [ $? -eq 75 ]
	flock --exclusive --nonblock "$lock" true
}
