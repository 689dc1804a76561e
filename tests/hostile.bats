# What tired users and broken surroundings do to a run: nothing is lost, half-written or guessed.
# seconds: 40

load helper

setup() {
	enter_scratch
}

@test "an empty word (a variable that is not set) is refused, not taken for the current directory" {
	for program in "$ROOT"/bin/*.c; do
		run_tool 64 "${program%.c}" ""
		one_error 'word 1 of the command line is empty'
	done
	run_tool 64 predict --step "" run
	one_error '--step: its value is empty'
	run_tool 64 train-step-loop --until= run
	one_error '--until: its value is empty'
	[ ! -e config.cfg ]
}

@test "closed standard streams never become files of the run" {
	tiny_run run train.steps=5
	tiny_run other train.steps=5
	run_tool 0 train-step-loop other
	for closed in '0<&-' '1>&-' '2>&-' '0<&- 1>&- 2>&-'; do
		rm -rf run/done
		tiny_run "run$closed" train.steps=5
		(eval "exec $closed"; exec train-step-loop "run$closed")
		same_files "run$closed" other log/step.tsv log/val.tsv checkpoints/step-00000005/model
	done
	(exec 1>&- 2>err; exec "$ROOT/bin/eval" other) || [ $? = 74 ]
	grep -q 'eval: standard output: Bad file descriptor' err
}

@test "training and predicting go on when nobody reads their messages any more" {
	tiny_run run train.steps=5
	{
		train-step-loop run
		echo $? >status
		predict run
		echo $? >>status
	} 2>&1 | true
	[ "$(cat status)" = $'0\n0' ]
	[ -e run/done ]
}

@test "a run that met a bad sample goes on with data.skip, as if it had been set from the start" {
	tiny_data DIR
	head -c 200 DIR/rgb/00007.png >cut
	mv cut DIR/rgb/00007.png
	tiny_run run checkpoint.every=1
	run_tool 65 train-step-loop run
	[[ ${stderr_lines[-1]} == *"DIR/rgb/00007.png: damaged PNG"*"mkconfig $PWD/run data.skip=true" ]]
	mkconfig run data.skip=true
	run_tool 0 train-step-loop run
	[[ $stderr == *"DIR/rgb/00007.png: damaged PNG"*"another sample takes its place"* ]]
	tiny_run whole data.skip=true
	run_tool 0 train-step-loop whole
	same_files run whole log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/step-00000012/model \
		checkpoints/step-00000012/optimizer
	run_tool 0 "$ROOT/bin/eval" run
	[ "$(grep -c $'rgb/00007.png\tnan' <<<"$output")" = 1 ]
	# A truth that cannot be decoded is skipped likewise.
	head -c 200 DIR/depth/00003.png >cut
	mv cut DIR/depth/00003.png
	run_tool 0 "$ROOT/bin/eval" run
	[ "$(grep -c $'\tnan' <<<"$output")" = 2 ]
	[[ $stderr == *"DIR/depth/00003.png: damaged PNG: ends early; its row is nan"* ]]
	mkconfig run data.skip=false
	run_tool 65 "$ROOT/bin/eval" run
}

@test "images of which one cannot train: each refusal names the group, the file and what to do" {
	tiny_data DIR 3
	make-scenes depth -n 2 --seed 2 --size 40x48 other
	mv other/rgb/00001.png DIR/rgb/00002.png
	tiny_run run
	run_tool 65 train-step-loop run
	[[ ${stderr_lines[-1]} == *rooms:*"DIR/depth/00002.png: 48x32 pixels, but "*"DIR/rgb/00002.png has 48x40"* ]]
	mv other/depth/00001.png DIR/depth/00002.png
	run_tool 65 train-step-loop run
	one_error 'DIR/depth/00002.png: 48x40 pixels where the group.s first sample has 48x32; give the group a size'
	make-scenes depth -n 2 --size 33x47 odd
	mkconfig run2 depth-tiny data.train.rooms.path=odd
	run_tool 78 train-step-loop run2
	one_error 'data.train.rooms: image size 33x47: sides must be multiples of 8; give the data group a size'
	rm DIR/rgb/00002.png
	mkfifo DIR/rgb/00002.png
	run_tool 66 timeout 20 train-step-loop run
	one_error 'DIR/rgb/00002.png: is a pipe or a device, a file was expected'
}

@test "a damaged platform.cfg or done says which file and what to do" {
	tiny_run run train.steps=2
	run_tool 0 train-step-loop run
	cp run/platform.cfg keep
	head -c 100 keep >run/platform.cfg
	mkconfig run train.steps=3
	run_tool 65 train-step-loop run
	one_error 'run/platform.cfg: ' 'restore it, or remove it'
	cp keep run/platform.cfg
	echo nonsense >run/done
	run_tool 65 train-step-loop run
	one_error 'run/done:1: ' 'remove it: the run goes on from its newest checkpoint'
	rm run/done
	run_tool 0 train-step-loop run
}

@test "samples that would share a prediction are refused, not scored with each other's" {
	tiny_data DIR 3
	printf 'rgb/00000.png depth/00000.png\nrgb/00000.jpg depth/00001.png\n' >list
	cp DIR/rgb/00001.png DIR/rgb/00000.jpg
	tiny_run run train.steps=1 data.{train,val,vis,test}.rooms.list="$PWD/list"
	run_tool 0 train-step-loop run
	run_tool 65 predict run
	one_error 'DIR: rgb/00000.png and rgb/00000.jpg would have one prediction'
	mkdir predictions
	run_tool 65 "$ROOT/bin/eval" --task depth --layout plain --truth DIR --list list --prediction predictions
	one_error 'would have one prediction'
	# The same image twice is another matter.
	printf 'rgb/00000.png depth/00000.png\nrgb/00000.png depth/00001.png\n' >list
	run_tool 0 "$ROOT/bin/eval" run
	[ "$(grep -c $'^rooms\t' <<<"$output")" = 2 ]
}

@test "lists: a byte order mark, a pipe, a pipe that nobody writes to" {
	tiny_data DIR 3
	printf '\xef\xbb\xbfrgb/00000.png depth/00000.png\r\n' >list
	mkdir predictions
	score() {
		run_tool "$1" timeout 20 "$ROOT/bin/eval" --constant --task depth --layout plain --truth DIR --list "$2"
	}
	score 0 list
	[ "$(grep -c '^DIR' <<<"$output")" = 1 ]
	score 0 <(sleep 0.3; printf 'rgb/00000.png depth/00000.png\nrgb/00001.png '; sleep 0.3; echo 'depth/00001.png')
	[ "$(grep -c '^DIR' <<<"$output")" = 2 ]
	mkfifo nobody
	score 65 nobody
	one_error 'nobody: the list has no samples'
}

@test "what killed programs left under temporary names is swept, what living ones write is not" {
	tiny_run run train.steps=1
	train-step-loop run
	NIGHTSHIFT_FAULT_PATH='*.npy*' with_fault rename:3:KILL predict run || [ $? = 137 ]
	with_fault rename:1:KILL mkconfig run train.steps=2 || [ $? = 137 ]
	[ "$(find run -name '*.partial' | wc -l)" = 2 ]
	touch "run/.living.$(hostname).$$.0.partial" run/.other.elsewhere.999999999.0.partial run/.user.partial run/.partial
	find run -name '*.partial' -exec touch -d '2 minutes ago' {} +
	run_tool 0 predict run
	[ -z "$(find run/predictions -name '*.partial')" ]
	mkconfig run train.steps=2
	run_tool 0 train-step-loop run
	[ "$(find run -name '*.partial' | sort)" = "run/.living.$(hostname).$$.0.partial
run/.other.elsewhere.999999999.0.partial
run/.partial
run/.user.partial" ]
}

@test "logs that were removed: the run goes on from its checkpoint with a warning" {
	tiny_run whole train.steps=8
	train-step-loop whole
	tiny_run run train.steps=4
	train-step-loop run
	rm run/events.out.* run/log/step.tsv run/log/train.log
	mkconfig run train.steps=8
	run_tool 0 train-step-loop run
	[ "$(grep -c 'warning: .* is missing; the run goes on without what was in it' <<<"$stderr")" = 2 ]
	same_files run whole log/epoch.tsv log/val.tsv checkpoints/step-00000008/model checkpoints/step-00000008/optimizer
	diff <(column step run/log/step.tsv) <(seq 5 8)
	diff <(grep -v '^[1-4]	' whole/log/step.tsv) run/log/step.tsv
}

@test "event files removed and the claims gone while it trains: nothing is lost" {
	tiny_run run train.steps=100000 schedule.total=100000 validate.every=0 picture.every=0 checkpoint.every=5
	train-step-loop run 2>messages &
	until ls -d run/checkpoints/step-* >names 2>&1; do sleep 0.05; done
	rm run/events.out.* run/shifts/current
	kill -USR2 $!
	wait $! || [ $? = 75 ]
	[[ $(tail -n 1 messages) == *"left at step"* ]]
	local step
	step=$(awk -F'\t' '$2 == "end" { print $8 }' run/shifts.tsv)
	mkconfig run train.steps=$((step + 1))
	run_tool 0 train-step-loop run
	[[ $stderr == *"goes on from step $step of"* ]]
}

@test "a limit on file sizes is an error with a name, and nothing is half-written" {
	tiny_run run train.steps=2
	(
		ulimit -f 5000
		run_tool 0 train-step-loop run
		ulimit -f 20
		mkconfig run train.steps=3
		run_tool 73 train-step-loop run
		[[ ${stderr_lines[-1]} == *'File too large' ]]
		ulimit -f 1
		run_tool 73 predict run
		one_error 'predictions.*: File too large'
	)
	[ -z "$(find run -name '*.partial')" ]
	run_tool 0 train-step-loop run
}

@test "parts of a run that cannot be looked at are not taken for missing" {
	tiny_run run train.steps=2
	train-step-loop run
	mkconfig run train.steps=4
	cp -R run before
	# Links into storage that is not mounted, links that go in circles.
	for part in checkpoints platform.cfg shifts shifts.tsv done log/step.tsv; do
		for goal in /no/such/place "${part##*/}"; do
			rm -rf run
			cp -R before run
			rm -rf "run/$part"
			ln -s "$goal" "run/$part"
			status=0
			train-step-loop run 2>said || status=$?
			echo "$part -> $goal: $status: $(cat said)"
			[[ $status =~ ^(65|66|73|74)$ ]]
			grep -q "run/$part" said
			for other in checkpoints platform.cfg log/epoch.tsv log/step.tsv; do
				[ "$other" = "$part" ] || same_files run before "$other"
			done
		done
	done
}

@test "no time left is no time left, not a time without limit" {
	tiny_run run
	run_tool 75 train-step-loop --exit-after 0 run
	[ ! -e run/done ]
	run_tool 64 "$ROOT/bin/eval" --task depth --layout plain --truth DIR --constant --scale=-5
	one_error '--scale -5: wants a number above 0'
}

@test "--dry-run looks at the initial weights and at what will be evaluated, too" {
	tiny_run run init.weights=nowhere
	run_tool 66 train-step-loop --dry-run run
	one_error "init.weights: $PWD/nowhere: No such file"
	tiny_run first train.steps=1
	train-step-loop first
	mkconfig wider depth-tiny data.train.rooms.path=DIR init.weights=first model.widths=24,32 model.heads=1,2
	run_tool 65 train-step-loop --dry-run wider
	one_error 'init.weights: .*first/checkpoints/step-00000001: tensor .* has another shape'
	mkconfig tested depth-tiny data.train.rooms.path=DIR data.test.other.path=nowhere
	run_tool 66 train-step-loop --dry-run tested
	one_error "dataset other: $PWD/nowhere: no such directory"
	make-scenes depth -n 2 --seed 2 --size 32x48 nowhere
	printf 'rgb/00000.png depth/00000.png\nrgb/00007.png depth/00007.png\n' >list
	mkconfig tested data.test.other.list=list
	run_tool 66 train-step-loop --dry-run tested
	one_error "2 data files are missing, the first is $PWD/nowhere/rgb/00007.png"
	grep -q $'^missing_files\t2' <<<"$output"
}

@test "several at once predict and score a run: each ends well, with the same numbers" {
	tiny_run run train.steps=2
	train-step-loop run
	for round in 1 2 3; do
		# What is there is stale: everybody wants to replace it.
		mkdir -p run/predictions/rooms/rgb
		printf 'step 1\ndigest 0\nsettings old\n' >run/predictions/rooms/INFO
		touch run/predictions/rooms/rgb/0000{0,1,2,3,4,5,6,7,8,9}.npy
		rm -f rows.*
		for i in 1 2 3 4 5; do { "$ROOT/bin/eval" run >rows.$i 2>said.$i || echo "$i: $? $(cat said.$i)" >>failed; } & done
		wait
		cat failed 2>/dev/null && false
		for i in 2 3 4 5; do cmp rows.1 rows.$i; done
		[ "$(grep -c '^rooms' rows.1)" = 12 ]
		[ -z "$(find run/predictions -name '.*')" ]
	done
}

@test "a dataset is not named like a directory that is there already" {
	tiny_run run train.steps=1
	for name in . .. .hidden; do
		run_tool 78 mkconfig run "data.test.$name.path=$PWD/DIR"
		one_error "does not begin with a dot, not '$name'"
	done
}

@test "a job name that would break the files of a run is made a word" {
	tiny_run run train.steps=1
	NIGHTSHIFT_JOB=$'my job\n2' run_tool 0 train-step-loop run
	grep -qx 'job my_job_2' run/done
	grep -qx 'job my_job_2' run/shifts/1
	mkconfig run train.steps=2
	NIGHTSHIFT_JOB=' ' run_tool 0 train-step-loop run
}

@test "a run that may only be read: scores on stdout, everything else says why not" {
	tiny_run run train.steps=1
	train-step-loop run
	"$ROOT/bin/eval" run >rows
	rm -r run/eval
	read_only() { NIGHTSHIFT_FAULT_OPEN=create with_fault 'open:1+:EROFS,mkdir:1+:EROFS,write:1+:EROFS' "$@"; }
	run_tool 0 read_only "$ROOT/bin/eval" run
	[ "$output" = "$(cat rows)" ]
	one_error 'warning: cannot create .*run/eval' 'the scores go to standard output alone'
	mkconfig run predict.steps=2
	run_tool 77 read_only predict run
	one_error 'cannot create .*run/predictions/.*: Read-only file system'
	mkconfig run train.steps=2
	run_tool 77 read_only train-step-loop run
	one_error 'run/shifts: Read-only file system'
	run_tool 77 read_only mkconfig run train.steps=3
	one_error 'cannot create run/config.cfg: Read-only file system'
}

@test "names with blanks, tabs, newlines and whatever a shell would eat stay one field of one row" {
	tiny_data plain 6
	mkdir -p $'odd\ttab\nline/rgb' $'odd\ttab\nline/depth'
	local i=0 name
	for name in 'a b' $'tab\there' $'new\nline' '$(x)' "quote's \"" '-dash'; do
		for kind in rgb depth; do mv "plain/$kind/0000$i.png" $'odd\ttab\nline'"/$kind/$name.png"; done
		i=$((i + 1))
	done
	mkconfig run depth-tiny data.train.rooms.path="$PWD/"$'odd\ttab\nline' train.steps=1
	run_tool 0 train-step-loop run
	run_tool 0 "$ROOT/bin/eval" run
	[ "$(grep -c $'^rooms\t[^\t]*\t[0-9.]*\t' <<<"$output")" = 6 ]
	[ "$(wc -l <<<"$output")" = 8 ]
	run_tool 0 "$ROOT/bin/eval" --no-predict run
	mkdir scratch
	run_tool 0 stage-data --to scratch run
	run_tool 0 "$ROOT/bin/eval" --no-predict run
	run_tool 0 "$ROOT/bin/eval" --task depth --layout plain --truth $'odd\ttab\nline' --constant
	[ "$(wc -l <<<"$output")" = 8 ]
	[ "$(grep -c '^#' <<<"$output")" = 2 ]
}

@test "a damaged prediction says so, and is made anew once it is removed" {
	tiny_run run train.steps=1
	train-step-loop run
	"$ROOT/bin/eval" run >rows
	for damage in ':' 'head -c 300' 'head -c 60'; do
		$damage <run/predictions/rooms/rgb/00003.npy >cut
		cp cut run/predictions/rooms/rgb/00003.npy
		run_tool 65 "$ROOT/bin/eval" run
		one_error 'rgb/00003.npy: ' 'remove the file to have it predicted again'
		[[ $stderr != *PNG* ]]
		rm run/predictions/rooms/rgb/00003.npy
		run_tool 0 "$ROOT/bin/eval" run
		[ "$output" = "$(cat rows)" ]
	done
}
