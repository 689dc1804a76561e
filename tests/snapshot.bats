# snapshot-code: the exact source state, with git and without, and what must not be in it.

load helper

setup() {
	enter_scratch
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" 2>/dev/null
	export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
		GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE='2026-01-31T12:00:00Z' GIT_COMMITTER_DATE='2026-01-31T12:00:00Z'
}

repository() { # DIR
	git init -q -b main "$1"
	mkdir -p "$1/sub/dir"
	echo 'print(1)' >"$1/train.py"
	printf '#!/bin/sh\n' >"$1/sub/run.sh"
	chmod +x "$1/sub/run.sh"
	ln -s ../train.py "$1/sub/link"
	echo text >"$1/sub/dir/$(printf 'odd\tname')"
	printf 'build/\n*.log\n' >"$1/.gitignore"
	git -C "$1" add -A
	git -C "$1" commit -q -m first
}

value() { awk -F'\t' -v kind="$1" -v name="$2" '$1 == kind && $2 == name { print $3 }' "${3:-run/code.manifest}"; }

kinds() { awk -F'\t' -v kind="$1" '$1 == kind { print $2 }' "${2:-run/code.manifest}"; }

begin() { # the run has had a shift, by now ended
	mkdir -p run/shifts
	printf 'job 1\nrestart 0\nhost h\npid 1\nstarted 1\nboot -\nnamespace -\n' >run/shifts/1
	echo 1 >run/shifts/current
	printf '#shift\tevent\ttime\tjob\trestart\tnodes\tworld\tstep\tstatus\treason\n1\tend\t2026-01-31T12:00:00Z\t1\t0\t1\t1\t0\t75\tnotice\n' >run/shifts.tsv
}

@test "tracked, changed and untracked files; not the ignored ones" {
	repository code
	echo 'print(2)' >code/train.py
	echo new >code/new.py
	mkdir code/build
	echo x >code/build/x.py
	echo x >code/a.log
	run_tool 0 snapshot-code run code
	[ "$(tar tzf run/code.tar.gz | tr '\n' ' ')" = ".gitignore new.py sub/dir/odd\\tname sub/link sub/run.sh train.py " ]
	mkdir out
	tar xzf run/code.tar.gz -C out
	for file in .gitignore new.py train.py sub/run.sh "sub/dir/$(printf 'odd\tname')"; do cmp "code/$file" "out/$file"; done
	[ "$(readlink out/sub/link)" = ../train.py ]
	[ -x out/sub/run.sh ]
	[ ! -x out/train.py ]
	[ "$(value git commit)" = "$(git -C code rev-parse HEAD)" ]
	[ "$(value git branch)" = main ]
	[ "$(value git state)" = 'dirty, 1 changed, 1 untracked' ]
	[ "$(value file train.py)" = "$(sha256sum code/train.py | cut -d' ' -f1)" ]
	[ "$(value tar code.tar.gz)" = "$(gzip -dc run/code.tar.gz | sha256sum | cut -d' ' -f1)" ]
	[ "$(stat -c %a run/code.tar.gz run/code.manifest | tr '\n' ' ')" = '600 600 ' ]
}

@test "the same state gives the same bytes, wherever and whenever it is taken" {
	repository code
	echo new >code/new.py
	run_tool 0 snapshot-code run code
	cp run/code.tar.gz run/code.manifest .
	touch -d 2020-01-01 code/train.py
	chmod 600 code/new.py
	run_tool 0 snapshot-code run code
	cmp code.tar.gz run/code.tar.gz
	cmp code.manifest run/code.manifest
	cp -R code elsewhere
	(cd elsewhere && run_tool 0 snapshot-code ../run)
	cmp code.tar.gz run/code.tar.gz
	# No name and no time in gzip's header; the archive's times are the commit's, its owner is 0.
	[ "$(head -c 10 run/code.tar.gz | od -An -tx1 | tr -d ' ')" = 1f8b0800000000000003 ]
	[ "$(TZ=UTC0 tar tvzf run/code.tar.gz --numeric-owner --full-time | awk '{ print $2, $4, $5 }' | sort -u)" = '0/0 2026-01-31 12:00:00' ]
}

@test "from a directory below, the whole tree" {
	repository code
	(cd code/sub && run_tool 0 snapshot-code ../../run)
	tar tzf run/code.tar.gz | grep -x train.py
}

@test "the submit directory is the default under SLURM" {
	repository code
	SLURM_SUBMIT_DIR=$PWD/code run_tool 0 snapshot-code run
	tar tzf run/code.tar.gz | grep -x train.py
}

@test "submodules and repositories within" {
	repository library
	repository code
	git -C code -c protocol.file.allow=always submodule --quiet add "$PWD/library" lib
	git -C code commit -q -m second
	echo changed >>code/lib/train.py
	echo new >code/lib/new.py
	repository code/own
	run_tool 0 snapshot-code run code
	[ "$(value submodule lib)" = "$(git -C library rev-parse HEAD)" ]
	[ "$(value submodule own)" = "$(git -C code/own rev-parse HEAD)" ]
	tar xzf run/code.tar.gz -O lib/train.py | grep changed
	tar tzf run/code.tar.gz | grep -x lib/new.py
	tar tzf run/code.tar.gz | grep -x own/train.py
	git -C code submodule --quiet deinit -f lib
	run_tool 0 snapshot-code run code
	[ "$(value submodule lib)" = 'not checked out' ]
}

@test "deleted files, conflicts, a branch without commit" {
	repository code
	rm code/train.py
	run_tool 0 snapshot-code run code
	[ "$(value omitted train.py)" = deleted ]
	git -C code checkout -q train.py
	git -C code checkout -q -b other
	echo other >code/train.py
	git -C code commit -q -a -m other
	git -C code checkout -q main
	echo main >code/train.py
	git -C code commit -q -a -m main
	git -C code merge -q other >/dev/null || true
	run_tool 0 snapshot-code run code
	[[ $(value git state) == *'merge under way' ]]
	[ "$(kinds file | grep -c -x train.py)" -eq 1 ]
	git init -q empty
	echo x >empty/x.py
	run_tool 0 snapshot-code run empty
	[ "$(value git commit)" = 'none yet' ]
	[ "$(kinds file)" = x.py ]
}

@test "without git: the directory is walked, and that is said" {
	mkdir -p code/__pycache__ code/.git code/pkg
	echo 1 >code/a.py
	echo 2 >code/pkg/b.py
	echo 3 >code/__pycache__/a.pyc
	echo 4 >code/.git/config
	run_tool 0 snapshot-code run code
	[[ $stderr == *'taken without git'* ]]
	[ "$(kinds file | tr '\n' ' ')" = 'a.py pkg/b.py ' ]
	[ "$(kinds git)" = none ]
	# git is not installed
	mkdir bin
	ln -s "$(command -v env)" bin/env
	PATH=$PWD/bin run "$ROOT/bin/snapshot-code" run code
	[ "$status" -eq 0 ]
}

@test "a password in a remote's URL is left out" {
	repository code
	git -C code remote add origin https://ann:geheim@example.org/code.git
	git -C code remote add other git@example.org:code.git
	run_tool 0 snapshot-code run code
	[ "$(value remote origin)" = https://example.org/code.git ]
	[ "$(value remote other)" = git@example.org:code.git ]
	[ "$(grep -c geheim run/code.manifest)" -eq 0 ]
}

@test "secrets stay out and are named" {
	local token name
	repository code
	token=$(printf '%s%s' ghp _0123456789abcdefghijABCDEFGHIJ012345)
	for name in .env server.pem id_rsa .netrc .git-credentials credentials.json .aws/config my.key; do
		mkdir -p "code/$(dirname "$name")"
		echo hidden >"code/$name"
	done
	echo "t = '$token'" >code/upload.py
	printf '%s\nMIIE\n' '-----BEGIN RSA PRIVATE''-----' >code/harmless.txt
	printf '%s%s\nMIIE\n' '-----BEGIN RSA PRIVATE' ' KEY-----' >code/notes.txt
	printf 'key = "%s%s"\n' AKIA IOSFODNN7EXAMPLE >code/aws.py
	git -C code add -f .env
	git -C code commit -q -m oops
	run_tool 0 snapshot-code --force run code
	[ "$(kinds omitted | tr '\n' ' ')" = '.aws/config .env .git-credentials .netrc aws.py credentials.json id_rsa my.key notes.txt server.pem upload.py ' ]
	[ "$(value omitted upload.py)" = 'GitHub token' ]
	[ "$(value omitted notes.txt)" = 'private key' ]
	[[ $stderr == *'upload.py: left out of the snapshot (GitHub token)'* ]]
	gzip -dc run/code.tar.gz >tar
	[ "$(grep -c -a -e hidden -e "$token" -e MIIE$ tar)" -eq 1 ] # the harmless one
	tar tf tar | grep -x harmless.txt
}

@test "large files stay out, unless forced; too much is refused and named" {
	local i
	repository code
	head -c 1100000 /dev/zero >code/weights.bin
	run_tool 0 snapshot-code run code
	[ "$(value omitted weights.bin)" = large ]
	[[ $stderr == *'weights.bin: left out of the snapshot (large)'* ]]
	run_tool 0 snapshot-code --force run code
	[ "$(tar xzf run/code.tar.gz -O weights.bin | wc -c)" -eq 1100000 ]
	for i in $(seq 55); do head -c 1000000 /dev/zero >"code/part-$i"; done
	run_tool 65 snapshot-code run code
	[[ $stderr == *'part-'*'MiB of code is more than 50 MiB'*'--force'* ]]
}

@test "run directories and job outputs are no code" {
	repository code
	mkconfig code/runs/one depth-tiny data.train.rooms.path="$PWD/rooms" 2>/dev/null
	mkdir code/runs/one/log
	mkconfig code/two depth-tiny data.train.rooms.path="$PWD/rooms" 2>/dev/null
	echo out >code/marigold-12.out
	echo out >code/slurm-12_3.out
	echo text >code/read.out
	run_tool 0 snapshot-code code/two code
	[ "$(kinds file code/two/code.manifest | tr '\n' ' ')" = ".gitignore read.out sub/dir/odd\\tname sub/run.sh train.py " ]
}

@test "links that leave the tree are noted, not followed" {
	repository code
	ln -s /etc/passwd code/passwd
	run_tool 0 snapshot-code run code
	[ "$(awk -F'\t' '$2 == "passwd" { print $1, $3, $5 }' run/code.manifest)" = 'link /etc/passwd leaves the tree' ]
	[[ $stderr == *'passwd: a link to /etc/passwd, leaves the tree'* ]]
}

@test "the programs and the libraries that they load are there" {
	repository code
	run_tool 0 snapshot-code run code
	[ "$(value program "$ROOT/bin/train-step-loop")" = "$(sha256sum "$ROOT/bin/train-step-loop" | cut -d' ' -f1)" ]
	kinds library | grep -q /libc.so
	kinds library | grep -q /libpng
}

@test "a run that has begun keeps its snapshot; what differs is written down" {
	repository code
	run_tool 0 snapshot-code run code
	begin
	cp run/code.manifest first
	run_tool 0 snapshot-code run code
	[ -z "$stderr" ]
	echo 'print(3)' >code/train.py
	echo new >code/new.py
	SLURM_JOB_ID=2 SLURM_RESTART_COUNT=3 run_tool 0 snapshot-code run code
	cmp first run/code.manifest
	[[ $stderr == *'2 differences, the first: added file new.py; see '*'/run/code-2.3.manifest'* ]]
	[ "$(value file train.py run/code-2.3.manifest)" = "$(sha256sum code/train.py | cut -d' ' -f1)" ]
	tar xzf run/code.tar.gz -O train.py | grep -x 'print(1)'
}

@test "until a shift has begun, a new snapshot replaces the old one" {
	repository code
	run_tool 0 snapshot-code run code
	echo 'print(3)' >code/train.py
	run_tool 0 snapshot-code run code
	tar xzf run/code.tar.gz -O train.py | grep -x 'print(3)'
}

@test "--verify lists what differs, status 1" {
	repository code
	run_tool 0 snapshot-code run code
	run_tool 0 snapshot-code --verify run code
	[ "$output" = "$(printf '#change\tkind\tname')" ]
	echo 'print(3)' >code/train.py
	echo new >code/new.py
	rm code/sub/link
	run_tool 1 snapshot-code --verify run code
	[ "$(sed 1d <<<"$output")" = "$(printf 'added\tfile\tnew.py\nchanged\tfile\ttrain.py\nremoved\tlink\tsub/link')" ]
	wanted=$output
	run_tool 1 snapshot-code --verify run # the directory of the snapshot, wherever one is
	[ "$output" = "$wanted" ]
}

@test "--verify finds a damaged archive and a damaged manifest" {
	repository code
	run_tool 66 snapshot-code --verify run code
	run_tool 0 snapshot-code run code
	printf X | dd of=run/code.tar.gz bs=1 seek=100 conv=notrunc status=none
	run_tool 65 snapshot-code --verify run code
	one_error 'code.tar.gz: is damaged'
	sed -i '5s/\t.*//' run/code.manifest
	run_tool 65 snapshot-code --verify run code
	one_error 'code.manifest:5: '
}

@test "another job's run is left alone" {
	repository code
	mkdir -p run/shifts
	sleep 100 3>&- &
	printf 'job -\nrestart 0\nhost %s\npid %s\nstarted %s\nboot %s\nnamespace %s\n' "$(uname -n)" $! \
		"$(awk '{ print $22 }' /proc/$!/stat)" "$(cat /proc/sys/kernel/random/boot_id)" "$(readlink /proc/self/ns/pid)" >run/shifts/1
	echo 1 >run/shifts/current
	run_tool 69 snapshot-code run code
	one_error 'owns this run'
	run_tool 0 snapshot-code --take-over run code
	kill $!
}

@test "a fault at any step leaves no half snapshot" {
	local kind at
	repository code
	[ -e "$ROOT/build/tests/faults.so" ] || make -s -C "$ROOT" build/tests/faults.so
	export NIGHTSHIFT_FAULT_PATH='*/run/*'
	for kind in open:1:ENOSPC write:1:ENOSPC fsync:1:EIO rename:1:EIO open:2:EACCES write:2:short fsync:2:KILL rename:2:KILL; do
		rm -f run/code*
		NIGHTSHIFT_FAULT_OPEN=create with_fault "$kind" snapshot-code run code 2>/dev/null || true
		# What is there is whole: the archive always, and the manifest comes behind the archive that it speaks of.
		[ ! -e run/code.tar.gz ] || gzip -t run/code.tar.gz
		[ ! -e run/code.manifest ] || [ "$(value tar code.tar.gz)" = "$(gzip -dc run/code.tar.gz | sha256sum | cut -d' ' -f1)" ]
		run_tool 0 snapshot-code run code
		run_tool 0 snapshot-code --verify run code
	done
}

@test "bad command lines" {
	run_tool 64 snapshot-code
	run_tool 64 snapshot-code run a b
	run_tool 66 snapshot-code nowhere
	run_tool 66 snapshot-code run nowhere
	one_error nowhere
}
