#!/usr/bin/env bats
# mkconfig as a user runs it. What files may hold is tested in tests/config.c.

load helper

setup() {
	enter_scratch
	unset NIGHTSHIFT_DEMO_DATA DATA
}

# tiny [WORD ...]: makes the run r of the smallest preset.
tiny() {
	run_tool 0 mkconfig r depth-tiny data.train.rooms.path=rooms "$@"
	[ -z "$output$stderr" ]
}

# explained KEY: its value and source in $output of --explain, as "value|source".
explained() {
	awk -F'\t' -v key="$1" '$1 == key { print $2 "|" $3 }' <<<"$output"
}

@test "a new run: the directory is made, the first line is the format, nothing is printed" {
	run_tool 0 mkconfig deep/er/r depth-tiny data.train.rooms.path=rooms
	[ -z "$output$stderr" ]
	[ "$(head -n 1 deep/er/r/config.cfg)" = "format = 1;" ]
	[ "$(ls -A deep/er/r)" = config.cfg ]
	grep -q "path = \"$PWD/rooms\";" deep/er/r/config.cfg
	run ! grep -q -e '\${' -e '@include' deep/er/r/config.cfg
}

@test "config.cfg is a layer that gives the same config.cfg" {
	tiny train.steps=5000000000 optimizer.lr=0.1 data.train.rooms.max=1e-3 data.train.rooms.min=1e-4 'init.ignore=a"$${x}' \
		data.val.rooms.max=1e-3 data.val.rooms.min=1e-4 data.vis.rooms.max=1e-3 data.vis.rooms.min=1e-4 \
		data.test.rooms.max=1e-3 data.test.rooms.min=1e-4
	grep -q 'steps = 5000000000L;' r/config.cfg
	run_tool 0 mkconfig s r/config.cfg
	cmp r/config.cfg s/config.cfg
}

@test "all presets compose" {
	for preset in "$ROOT"/slurm/presets/*.cfg; do
		NIGHTSHIFT_DEMO_DATA=demo DATA=data run_tool 0 mkconfig "r-$(basename "$preset" .cfg)" "$(basename "$preset" .cfg)" \
			data.train.own.path=own
	done
	[ "$(ls -d r-*/ | wc -l)" -ge 4 ]
}

@test "presets are found beside the program, and those of NIGHTSHIFT_HOME come first" {
	mkdir -p home/slurm/presets
	printf '@include "%s"\nseed = 99;\n' "$ROOT/slurm/presets/depth-tiny.cfg" >home/slurm/presets/depth-tiny.cfg
	NIGHTSHIFT_HOME=home run_tool 0 mkconfig r depth-tiny data.train.rooms.path=x
	grep -q '^seed = 99;' r/config.cfg
	env -u NIGHTSHIFT_HOME mkconfig s depth-tiny data.train.rooms.path=x
	grep -q '^seed = 2024;' s/config.cfg
	mkdir -p prefix/bin prefix/share/nightshift/slurm/presets
	cp "$ROOT/bin/mkconfig" prefix/bin
	echo 'seed = 98; data: { train = ( { name = "a"; path = "/a"; } ); };' >prefix/share/nightshift/slurm/presets/mine.cfg
	env -u NIGHTSHIFT_HOME prefix/bin/mkconfig t mine
	grep -q '^seed = 98;' t/config.cfg
}

@test "a preset that is not there: the nearest, 66" {
	run_tool 66 mkconfig r depth-tinny
	one_error "there is no preset 'depth-tinny'; did you mean depth-tiny\?"
	[ ! -e r ]
}

@test "usage" {
	run_tool 64 mkconfig
	one_error 'RUN is missing'
	run_tool 64 mkconfig seed=1 depth-tiny
	one_error 'the run comes first'
	run_tool 64 mkconfig --explian r
	one_error 'explain'
	run_tool 0 mkconfig --version
	run_tool 0 mkconfig -h
	[[ $output == usage:* ]]
}

@test "wrong words name their place and the nearest key; nothing is made" {
	run_tool 78 mkconfig r depth-tiny data.train.rooms.path=x optimizer.rl=1
	one_error 'argv\[4\]: unknown key .optimizer\.rl.; did you mean optimizer\.lr\?'
	run_tool 78 mkconfig r optimizer.lr=200 depth-tiny data.train.rooms.path=x
	one_error 'argv\[2\]: optimizer\.lr = 200 is out of range: 0 to 100'
	run_tool 78 mkconfig r depth-tiny data.train.rooms.path=x batch.size=five
	one_error "argv\[4\]: batch\.size must be an integer, not 'five'"
	run_tool 78 mkconfig r depth-tiny data.train.rooms.path=x seed=1 seed=1
	one_error 'argv\[5\]: seed is set twice \(first at argv\[4\]\)'
	run_tool 78 mkconfig r depth-tiny data.train.rooms.path=x batch.size=3
	one_error 'batch\.size = 3 \(argv\[4\]\) must be a multiple of batch\.micro = 2 \(.*/depth-tiny\.cfg:[0-9]+\)'
	run_tool 78 mkconfig r depth-tiny
	one_error 'depth-tiny\.cfg:[0-9]+: \$\{env:NIGHTSHIFT_DEMO_DATA\}: the environment has no NIGHTSHIFT_DEMO_DATA.*data\.train\.rooms\.path='
	[ ! -e r ]
}

@test "wrong files are named with their line" {
	printf 'seed = 1;\n\nbatch: {\n\tsise = 2;\n};\n' >a.cfg
	run_tool 78 mkconfig r a.cfg
	one_error 'a\.cfg:4: unknown key .batch\.sise.; did you mean batch\.size\?'
	printf 'seed = 1;\nseed = 2;\n' >a.cfg
	run_tool 78 mkconfig r a.cfg
	one_error 'a\.cfg:2: duplicate setting name'
	printf 'batch: {\n size = 2\n' >a.cfg
	run_tool 78 mkconfig r a.cfg
	one_error 'a\.cfg:3: .\}. is missing'
	run_tool 66 mkconfig r nowhere.cfg
	one_error 'nowhere\.cfg: No such file'
	run_tool 66 mkconfig r ./
	one_error '\./: '
	head -c 2000000 /dev/zero >big.cfg
	run_tool 65 mkconfig r big.cfg
	one_error 'big\.cfg: '
	[ ! -e r ]
}

@test "a file that may not be read, 77" {
	echo 'seed = 1;' >a.cfg
	make -s -C "$ROOT" build/tests/faults.so
	NIGHTSHIFT_FAULT_PATH='*a.cfg' run_tool 77 with_fault open:1+:EACCES mkconfig r a.cfg
	one_error 'a\.cfg: Permission denied'
	[ ! -e r ]
}

@test "--explain shows every key with its source, in the order of --keys, and writes nothing" {
	echo 'optimizer: { lr = 0.5; clip = 2.0; };' >mine.cfg
	run_tool 0 mkconfig --explain r depth-tiny data.train.rooms.path=x mine.cfg optimizer.lr=0.25 'batch.size=${batch.micro}'
	[ ! -e r ]
	[ "${lines[0]}" = $'#key\tvalue\tsource' ]
	[ "$(explained optimizer.lr)" = '0.25|argv[6]' ]
	[ "$(explained optimizer.clip)" = '2|mine.cfg:1' ]
	[ "$(explained optimizer.beta1)" = '0.9|default' ]
	[ "$(explained batch.size)" = '2|argv[7]' ]
	[ "$(explained model.widths)" = "16,32|$ROOT/slurm/presets/depth-tiny.cfg:12" ]
	[ "$(explained data.train.rooms.path)" = "$PWD/x|argv[4]" ]
	[ "$(explained data.val.rooms.path)" = "$PWD/x|$ROOT/slurm/presets/depth-tiny.cfg:$(grep -n 'data.train.rooms.path}' \
		"$ROOT/slurm/presets/depth-tiny.cfg" | head -n 1 | cut -d: -f1)" ]
	diff <(mkconfig --keys | sed 1d | awk -F'\t' '$8 == "-" || $8 == "depth" { print $1 }' | grep -v '^data\.LIST') <(sed 1d <<<"$output" | cut -f1 | grep -vE '^data\.(train|val|vis|test)\.')
	awk -F'\t' 'NF != 3 { exit 1 }' <<<"$output"
}

@test "what --explain prints, given as words, makes the same run" {
	NIGHTSHIFT_DEMO_DATA=demo run_tool 0 mkconfig r depth-demo seed=7
	run_tool 0 mkconfig --explain r
	mapfile -t words < <(sed 1d <<<"$output" | cut -f1,2 | sed 's/\t/=/')
	run_tool 0 mkconfig s "${words[@]}"
	cmp r/config.cfg s/config.cfg
}

@test "an existing run is checked: nothing printed, nothing changed" {
	tiny
	before=$(stat -c '%i %y' r/config.cfg)
	run_tool 0 mkconfig r
	[ -z "$output$stderr" ]
	run_tool 0 mkconfig r depth-tiny data.train.rooms.path=rooms
	[ -z "$output$stderr" ]
	[ "$(stat -c '%i %y' r/config.cfg)" = "$before" ]
	[ "$(ls -A r)" = config.cfg ]
}

@test "operational changes are recorded and made; what is not named stays" {
	tiny optimizer.lr=0.125
	run_tool 0 mkconfig r train.steps=24 data.train.rooms.path=else data.val.rooms.path=else data.vis.rooms.path=else \
		data.test.rooms.path=else
	[ -z "$output$stderr" ]
	run_tool 0 env SLURM_JOB_ID=77 mkconfig r checkpoint.minutes=1.5
	grep -q 'steps = 24;' r/config.cfg
	grep -q 'lr = 0.125;' r/config.cfg
	[ "$(head -n 1 r/config.history)" = $'#time\tjob\tkey\told\tnew' ]
	[ "$(sed -n 2p r/config.history | cut -f2-)" = $'-\ttrain.steps\t12\t24' ]
	[ "$(sed -n 3p r/config.history | cut -f2-)" = $'-\tdata.train.rooms.path\t'"$PWD/rooms"$'\t'"$PWD/else" ]
	[ "$(tail -n 1 r/config.history | cut -f2-)" = $'77\tcheckpoint.minutes\t15\t1.5' ]
	[[ $(sed -n 2p r/config.history) =~ ^20[0-9-]*T[0-9:]*Z ]]
	[ "$(wc -l <r/config.history)" -eq 7 ]
}

# begun RUN: a shift has claimed it, and ended.
begun() {
	mkdir -p "$1/shifts"
	printf 'job 1\nrestart 0\nhost h\npid 1\nstarted 1\nboot -\nnamespace -\n' >"$1/shifts/1"
	echo 1 >"$1/shifts/current"
	printf '#shift\tevent\ttime\tjob\trestart\tnodes\tworld\tstep\tstatus\treason\n1\tend\t2026-01-31T12:00:00Z\t1\t0\t1\t1\t0\t75\tnotice\n' >"$1/shifts.tsv"
}

@test "until a shift has claimed the run every key may change; a preset named again says what it takes back" {
	tiny
	run_tool 0 mkconfig r optimizer.lr=0.5 train.steps=24
	[ -z "$output$stderr" ]
	grep -q 'lr = 0.5;' r/config.cfg
	[ "$(tail -n 1 r/config.history | cut -f3-)" = $'optimizer.lr\t0.001\t0.5' ]
	run_tool 0 mkconfig r depth-tiny train.steps=30 data.train.rooms.path=rooms
	[[ $stderr == 'mkconfig: optimizer.lr: 0.5 -> 0.001 ('*depth-tiny.cfg:+([0-9])')' ]]
	begun r
	run_tool 78 mkconfig r optimizer.lr=0.5
}

@test "identity changes are refused, each named once, nothing changed" {
	tiny
	begun r
	cp r/config.cfg before
	run_tool 78 mkconfig r train.steps=24 optimizer.lr=0.5 seed=1
	one_error 'seed 2024 -> 1' 'optimizer\.lr 0\.001 -> 0\.5' 'r/config\.cfg'
	[[ $stderr != *train.steps* ]]
	run_tool 78 mkconfig r data.val.more.path=x
	one_error 'data\.val rooms -> rooms,more'
	cmp r/config.cfg before
	[ ! -e r/config.history ]
	run_tool 0 mkconfig r data.test.more.path=x
	[ "$(sed -n 2p r/config.history | cut -f3-)" = $'data.test\trooms\trooms,more' ]
}

@test "a list may move but not become another one" {
	tiny data.train.rooms.list=lists/a.txt data.val.rooms.list=lists/a.txt data.vis.rooms.list=lists/a.txt \
		data.test.rooms.list=lists/a.txt
	begun r
	run_tool 78 mkconfig r data.train.rooms.list=lists/b.txt data.val=\(\) data.vis=\(\) data.test=\(\)
	one_error 'data\.train\.rooms\.list .*/a\.txt -> .*/b\.txt'
	run_tool 0 mkconfig r data.train.rooms.list=l/a.txt data.val.rooms.list=l/a.txt data.vis.rooms.list=l/a.txt \
		data.test.rooms.list=l/a.txt
	[ "$(wc -l <r/config.history)" -eq 5 ]
}

@test "--explain on an existing run shows its lines, and what would be refused" {
	tiny
	begun r
	run_tool 0 mkconfig --explain r train.steps=24
	[ "$(explained train.steps)" = '24|argv[3]' ]
	[[ $(explained seed) =~ ^2024\|r/config\.cfg:[0-9]+$ ]]
	[ ! -e r/config.history ]
	run_tool 78 mkconfig --explain r seed=1
	[ "$(explained seed)" = '1|argv[3]' ]
	one_error 'seed 2024 -> 1'
}

@test "a hand edit that is wrong is named by its line, a newer format in one line" {
	tiny
	sed -i 's/^\tsteps = 12;/\tsteps = "12";/' r/config.cfg
	line=$(grep -n 'steps = "12"' r/config.cfg | cut -d: -f1)
	run_tool 78 mkconfig r
	one_error "r/config\.cfg:$line: train\.steps must be an integer"
	sed -i '1s/.*/format = 2;/' r/config.cfg
	run_tool 78 mkconfig r
	one_error 'r/config\.cfg:1: format = 2: made by a newer version'
	printf 'format = 2;\nmodel <- unet\n' >r/config.cfg
	run_tool 78 mkconfig r train.steps=1
	one_error 'made by a newer version'
}

@test "a run that another job owns is not changed, 69; checking it and changing nothing is fine" {
	tiny
	mkdir r/shifts
	sleep 300 3>&- 4>&- &
	owner=$!
	claim_for r "$owner"
	run_tool 69 mkconfig r train.steps=24
	one_error 'shift 1' bash-other
	run_tool 0 mkconfig r train.steps=12
	run_tool 0 mkconfig r
	[ ! -e r/config.history ]
	run_tool 0 mkconfig --take-over r train.steps=24
	kill "$owner"
	wait "$owner" || true
	run_tool 0 mkconfig r train.steps=12
	[ "$(wc -l <r/config.history)" -eq 3 ]
}

# claim_for RUN PID: a claim as that process would have made it.
claim_for() {
	{
		printf 'job bash-other\nrestart 0\nhost %s\npid %s\n' "$(hostname)" "$2"
		printf 'started %s\n' "$(cut -d' ' -f22 "/proc/$2/stat")"
		printf 'boot %s\n' "$(cat /proc/sys/kernel/random/boot_id)"
		printf 'namespace %s\n' "$(readlink "/proc/$2/ns/pid")"
	} >"$1/shifts/1"
	echo 1 >"$1/shifts/current"
}

@test "a file in place of RUN, a path through a file, 73; a read-only file system, 77" {
	make -s -C "$ROOT" build/tests/faults.so
	echo text >file
	run_tool 73 mkconfig file depth-tiny data.train.rooms.path=x
	one_error 'file: exists and is not a directory'
	run_tool 73 mkconfig file/r depth-tiny data.train.rooms.path=x
	one_error 'file'
	[ "$(cat file)" = text ]
	run_tool 77 with_fault mkdir:1:EROFS mkconfig r depth-tiny data.train.rooms.path=x
	one_error 'r: .*Read-only file system'
	tiny
	cp r/config.cfg before
	NIGHTSHIFT_FAULT_OPEN=create run_tool 77 with_fault open:1:EROFS mkconfig r train.steps=24
	one_error 'r/config\.cfg.*Read-only file system'
	cmp r/config.cfg before
	[ "$(ls -A r)" = config.cfg ]
}

# faulted WHAT KIND N: `mkconfig r train.steps=24`, the Nth call of that kind on a file of the run going wrong.
faulted() {
	NIGHTSHIFT_FAULT_PATH="$PWD/r/*" NIGHTSHIFT_FAULT_OPEN=create with_fault "$2:$3:$1" mkconfig "$PWD/r" train.steps=24
}

# each_call COMMAND: runs COMMAND KIND N for each call that a change of r makes; r is new each time.
each_call() {
	local kind count n
	make -s -C "$ROOT" build/tests/faults.so
	tiny
	run_tool 0 mkconfig r train.steps=13
	cp -r r before
	NIGHTSHIFT_FAULT_COUNT=$PWD/counts faulted ENOSPC write 1000
	mv r after
	tried=0
	while read -r kind count; do
		[[ $kind =~ ^(open|write|fsync|rename|close)$ ]] || continue
		for ((n = 1; n <= count; n++)); do
			rm -rf r
			cp -r before r
			"$1" "$kind" "$n" || { echo "$kind $n: status $status: $output"; return 1; }
			tried=$((tried + 1))
		done
	done <counts
	[ "$tried" -ge 7 ]
}

# No row without its change, and no change without its row.
whole() {
	if cmp -s r/config.cfg before/config.cfg; then
		cmp r/config.history before/config.history
	else
		cmp r/config.cfg after/config.cfg && tail -n 1 r/config.history | grep -q $'train.steps\t13\t24$'
	fi && [ "$(ls -A r)" = "$(ls -A before)" ]
}

# The close of a file that was only read tells nobody anything.
fails_whole() {
	run faulted ENOSPC "$1" "$2"
	[ "$1-$status" != close-0 ] || { whole && cmp r/config.cfg after/config.cfg; return; }
	[ "$status" -eq 73 ] && [[ $output == 'mkconfig: '*"$PWD/r/"*'No space left'* ]] && whole
}

@test "no space at any call: 73, the old configuration stays, no temporary file, no row without its change" {
	each_call fails_whole
}

killed_whole() {
	run faulted KILL "$1" "$2"
	[ "$status" -eq 137 ] || return 1
	cmp -s r/config.cfg before/config.cfg || cmp r/config.cfg after/config.cfg || return 1
	mkconfig r train.steps=24 && cmp r/config.cfg after/config.cfg
}

@test "killed at any call: config.cfg is whole, the old or the new one" {
	each_call killed_whole
}

@test "a full disk while a new run is made: 73, no run" {
	make -s -C "$ROOT" build/tests/faults.so
	run_tool 73 with_fault write:1:ENOSPC mkconfig r depth-tiny data.train.rooms.path=x
	one_error 'r/config\.cfg.*No space left'
	[ ! -e r ]
}

@test "a full disk behind stdout is not silent" {
	[ -w /dev/full ] || skip "no /dev/full"
	run -74 bash -c 'mkconfig --keys >/dev/full'
}

@test "a locale with decimal comma changes nothing" {
	localedef -i de_DE -f UTF-8 ./de_DE.UTF-8 >/dev/null 2>&1 || [ -e de_DE.UTF-8/LC_NUMERIC ] || skip "localedef cannot make one"
	tiny optimizer.lr=0.125
	LOCPATH=$PWD LC_ALL=de_DE.UTF-8 mkconfig s depth-tiny data.train.rooms.path=rooms optimizer.lr=0.125
	cmp r/config.cfg s/config.cfg
}

@test "warnings: validation without data, no checkpoints" {
	run_tool 0 mkconfig r depth-tiny data.train.rooms.path=x data.val=\(\) checkpoint.every=0 checkpoint.minutes=0
	[[ $stderr == *'validate.every = 4 but data.val is empty'* ]]
	[[ $stderr == *'checkpoint.every and checkpoint.minutes are both 0'* ]]
	[ "${#stderr_lines[@]}" -eq 2 ]
}

# TASK: the defaults of its keys as words
default_words() {
	"$ROOT/bin/mkconfig" --keys | sed 1d | awk -F'\t' -v task="$1" '$1 !~ /^data\.LIST/ && ($8 == "-" || $8 == task) {
		value = $3
		if (index($9, task "=") == 1) value = substr($9, length(task) + 2)
		print $1 "=" value }'
}

@test "--keys: nine columns, every default valid as a word of its task" {
	run_tool 0 mkconfig --keys
	awk -F'\t' 'NF != 9 { exit 1 }' <<<"$output"
	mapfile -t words < <(default_words depth)
	run_tool 0 mkconfig r data.train.a.path=x "${words[@]}"
	run_tool 0 mkconfig s data.train.a.path=x
	cmp r/config.cfg s/config.cfg
	mapfile -t words < <(default_words classify)
	run_tool 0 mkconfig c data.train.a.path=x data.train.a.annotation=y "${words[@]/#task=depth/task=classify}"
	run_tool 0 mkconfig d data.train.a.path=x data.train.a.annotation=y task=classify
	cmp c/config.cfg d/config.cfg
	grep -qx 'task = "classify";' d/config.cfg
}

@test "the man page names the environment variables that may be used" {
	names=$(sed -n 's/^.It Ev NIGHTSHIFT_\*/NIGHTSHIFT_*/p' "$ROOT/man/mkconfig.1" | tr -d ' ' | tr , '\n')
	[ "$(wc -l <<<"$names")" -eq 8 ]
	for name in $names; do
		[ "$name" != 'NIGHTSHIFT_*' ] || name=NIGHTSHIFT_TEST
		run_tool 0 env "$name=v" mkconfig --explain r data.train.a.path=/x "init.ignore=\${env:$name}"
		[ "$(explained init.ignore)" = 'v|argv[4]' ]
	done
	run_tool 78 env OTHER=v mkconfig --explain r data.train.a.path=/x 'init.ignore=${env:OTHER}'
	one_error 'not declared'
}

@test "the programs ask for keys of the table only, by their types" {
	asked=$(grep -rhoE 'config_(bool|integer|number|text|bytes|integer_at|number_at|text_at)\([^,"]*, "[a-z_.0-9]+"' "$ROOT/lib" "$ROOT/bin" \
		--include='*.c' | sed -E 's/config_([a-z_]+)\(.*"(.*)"/\1 \2/' | sort -u)
	[ "$(wc -l <<<"$asked")" -gt 40 ]
	awk -F'\t' 'BEGIN { split("bool bool integer integer number number seconds number string text choice text path text " \
			"bytes bytes integers integer_at numbers number_at strings text_at", pair, " ")
			for (i = 1; i < 20; i += 2) getter[pair[i]] = pair[i + 1] }
		NR > 1 { print getter[$2], $1 }' <(mkconfig --keys) | sort >table
	comm -23 <(echo "$asked") table >wrong
	[ ! -s wrong ] || { cat wrong; return 1; }
}

@test "changes made at the same moment are all made, one after the other" {
	tiny_run run
	mkconfig run checkpoint.keep=3 &
	mkconfig run checkpoint.every=7 &
	mkconfig run picture.count=2 &
	mkconfig run train.steps=31 &
	mkconfig run train.steps=32 &
	mkconfig run validate.every=9
	wait
	for word in 'keep = 3' 'every = 7' 'count = 2' 'steps = 3[12]' 'every = 9'; do grep -q "$word;" run/config.cfg; done
	# Each row of the history says what really stood there before.
	awk -F'\t' '/^#/ { next } $3 in now && now[$3] != $4 { bad = 1 } { now[$3] = $5 } END { exit bad }' run/config.history
	[ -z "$(find run -name '*.partial')" ]
}

@test "one run made twice at the same moment is made once" {
	for i in 1 2 3 4; do
		{ mkconfig run depth-tiny data.train.rooms.path=/nowhere train.steps=$((20 + i)) 2>said.$i && echo $((20 + i)) >>made; } || true &
	done
	wait
	# Who came later changed what was there, and the history tells; who came in the same instant was refused.
	steps=$(sed -n '/^train:/,/^}/s/.*steps = \(.*\);/\1/p' run/config.cfg)
	grep -qx "$steps" made
	[ "$(wc -l <made)" = $(($(grep -c 'train.steps' run/config.history) + 1)) ]
}
