# The batch scripts without SLURM: every row of the decision table, on run directories made by hand, with stand-ins for scontrol and
# srun that write down what they were asked. tests/slurm.bats has the same scripts on a real SLURM.

load helper

setup() {
	enter_scratch
	mkdir bin run run/shifts
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" 2>/dev/null
	PATH=$PWD/bin:$PATH
	stub scontrol 'case $1 in show) echo "JobId=7 JobState=RUNNING Restarts=$(cat restarts 2>/dev/null || echo 0)" ;; esac'
	printf '#shift\tevent\ttime\tjob\trestart\tnodes\tworld\tstep\tstatus\treason\n' >run/shifts.tsv
	export NIGHTSHIFT_PAUSE=0
}

# stub NAME [BODY]: a program that appends its words to calls and then does BODY.
stub() {
	printf '#!/bin/bash\necho "%s $*" >>calls\n%s\n' "$1" "${2:-}" >"bin/$1"
	chmod +x "bin/$1"
}

# row SHIFT EVENT JOB RESTART STEP STATUS REASON [TIME]
row() {
	printf '%s\t%s\t%s\t%s\t%s\t1\t1\t%s\t%s\t%s\n' "$1" "$2" "${8:-2026-01-31T12:00:00Z}" "$3" "$4" "$5" "$6" "$7" >>run/shifts.tsv
	[ "$2" != start ] || { printf 'job %s\nrestart %s\n' "$3" "$4" >"run/shifts/$1" && echo "$1" >run/shifts/current; }
}

checkpoint() { # SHIFT STEP
	mkdir -p "run/checkpoints/step-$(printf '%08d' "$2")"
	: >"run/checkpoints/step-$(printf '%08d' "$2")/MANIFEST"
	printf 'format = 1;\nstep = %s;\nshift = %s;\n' "$2" "$1" >"run/checkpoints/step-$(printf '%08d' "$2")/train.cfg"
}

# decide RESTART [SHELL CODE]: what the script of job 7 does in this life after the code was run.
decide() {
	cat >life.sh <<-END
	home=$ROOT
	. "$ROOT/slurm/lib.sh"
	life_begin marigold "$PWD/run"
	$2
	life_decide
	END
	SLURM_JOB_ID=7 SLURM_RESTART_COUNT=$1 SLURM_SUBMIT_DIR=$PWD run --separate-stderr bash life.sh
	last=$(tail -n 1 run/shifts.tsv)
}

requeued() { grep -q '^scontrol requeue 7$' calls; }

# last_row EVENT STATUS REASON-PATTERN
last_row() {
	[ "$(cut -f2,9 <<<"$last")" = "$(printf '%s\t%s' "$1" "$2")" ] && grep -q -- "$3" <<<"$last" || { echo "$last" && return 1; }
}

@test "end row 75: requeued" {
	row 1 start 7 0 0 - -
	row 1 end 7 0 40 75 notice
	checkpoint 1 40
	decide 0
	[ "$status" -eq 75 ]
	requeued
	last_row requeue 75 'progress: notice'
	[ "$(cut -f1,8 <<<"$last")" = "$(printf '1\t40')" ]
}

@test "end row 75 with reason stopped: held, 75, not requeued" {
	row 1 start 7 0 0 - -
	row 1 end 7 0 40 75 stopped
	decide 0
	[ "$status" -eq 75 ]
	never requeued
	last_row hold 75 stopped
}

@test "end row 75 with reason interrupted: held, 75, not requeued" {
	row 1 start 7 0 0 - -
	row 1 end 7 0 40 75 interrupted
	decide 0
	[ "$status" -eq 75 ]
	never requeued
	last_row hold 75 interrupted
}

@test "end rows of errors: the script exits with them" {
	local code
	for code in 64 65 66 69 70 73 74 77 78; do
		: >calls
		row 1 start 7 0 0 - -
		row 1 end 7 0 0 "$code" 'something is wrong'
		decide 0
		[ "$status" -eq "$code" ]
		never requeued
		last_row fail "$code" 'something is wrong'
	done
}

@test "a shift that was refused before it had a number: its status" {
	row 1 start 6 0 0 - -
	row - end 7 0 - 69 'shift 1 owns this run'
	decide 0 'shift=""'
	[ "$status" -eq 69 ]
	last_row fail 69 'owns this run'
	[ "$(cut -f1 <<<"$last")" = - ]
}

@test "no end row, a checkpoint: requeued without a pause" {
	row 1 start 7 0 0 - -
	checkpoint 1 40
	NIGHTSHIFT_PAUSE=100 decide 0
	[ "$status" -eq 75 ]
	requeued
	last_row requeue - 'progress: no end row'
}

@test "no end row, no checkpoint: requeued after a pause" {
	row 1 start 7 0 0 - -
	stub sleep
	NIGHTSHIFT_PAUSE=60 decide 0
	[ "$status" -eq 75 ]
	[ "$(grep -n -e '^sleep 60$' -e '^scontrol requeue' calls | cut -d: -f2)" = "$(printf 'sleep 60\nscontrol requeue 7')" ]
	last_row requeue - 'fruitless: no end row'
}

@test "a checkpoint of an earlier shift is none of this one" {
	row 1 start 7 0 0 - -
	checkpoint 1 40
	row 1 requeue 7 0 40 75 'progress: notice'
	row 2 start 7 1 40 - -
	decide 1
	last_row requeue - 'fruitless: no end row'
}

@test "a later phase of a step is progress" {
	row 1 start 7 0 0 - -
	checkpoint 1 40
	row 2 start 7 1 40 - -
	printf 'step = 40;\nphase = "validate";\nshift = 2;\n' >run/checkpoints/step-00000040.phase
	decide 1
	last_row requeue - 'progress: no end row'
}

@test "a status that nobody foresaw counts like no end row" {
	row 1 start 7 0 0 - -
	row 1 end 7 0 0 1 'out of memory'
	decide 0
	[ "$status" -eq 75 ]
	requeued
	last_row requeue 1 'fruitless: the trainer ended with 1: out of memory'
}

@test "killed between claim and start row: its own shift, no zombie" {
	printf 'job 7\nrestart 0\n' >run/shifts/1
	decide 0 'echo 1 >run/shifts/current'
	[ "$status" -eq 75 ]
	requeued
	[ "$(cut -f1 <<<"$last")" = 1 ]
}

@test "the third fruitless life in a row: 70, and why" {
	row 1 start 7 0 0 - -
	decide 0
	last_row requeue - fruitless
	row 2 start 7 1 0 - -
	echo 1 >restarts
	decide 1
	last_row requeue - fruitless
	row 3 start 7 2 0 - -
	echo 2 >restarts
	: >calls
	decide 2
	[ "$status" -eq 70 ]
	never requeued
	last_row fail 70 'fruitless life 3 in a row, without a checkpoint (no end row)'
	[[ $stderr == *'fruitless life 3 in a row'* ]]
}

@test "progress in between starts the count anew" {
	row 1 requeue 7 0 0 - 'fruitless: no end row'
	row 2 requeue 7 1 0 - 'fruitless: no end row'
	row 3 requeue 7 2 9 75 'progress: notice'
	row 4 requeue 7 3 9 - 'fruitless: no end row'
	row 5 start 7 4 9 - -
	echo 4 >restarts
	decide 4
	[ "$status" -eq 75 ]
	requeued
}

@test "excused lives in between do not count, either way" {
	row 1 requeue 7 0 0 - 'fruitless: no end row'
	row 2 requeue 7 1 0 75 'excused: notice'
	row 3 requeue 7 2 0 - 'fruitless: no end row'
	row 4 start 7 3 0 - -
	decide 3
	[ "$status" -eq 70 ]
}

@test "lives of other jobs do not count: a start by hand always runs" {
	row 1 requeue 6 0 0 - 'fruitless: no end row'
	row 2 requeue 6 1 0 - 'fruitless: no end row'
	row 2 fail 6 2 0 70 'fruitless life 3 in a row'
	row 3 start 7 0 0 - -
	decide 0
	[ "$status" -eq 75 ]
	requeued
}

@test "lives that SLURM requeued are judged by their rows" {
	# Ended by itself; left by notice after 16 minutes without a checkpoint: fruitless both.
	row 1 start 7 0 0 - - 2026-01-31T12:00:00Z
	row 1 end 7 0 0 1 'out of memory' 2026-01-31T12:01:00Z
	row 2 start 7 1 0 - - 2026-02-28T23:50:00Z
	row 2 end 7 1 0 75 notice 2026-03-01T00:06:00Z
	row 3 start 7 2 0 - -
	decide 2
	[ "$status" -eq 70 ]
}

@test "lives that were cut early by notice or with their node do not count" {
	row 1 start 7 0 0 - - 2026-01-31T12:00:00Z
	row 1 end 7 0 0 75 notice 2026-01-31T12:14:00Z
	row 1 lost 7 0 - - 'no end row'
	row 2 start 7 1 0 - - 2026-01-31T13:00:00Z
	row 3 start 7 2 0 - -
	decide 2
	[ "$status" -eq 75 ]
	requeued
}

@test "a life whose successor started further on had a checkpoint" {
	row 1 requeue 7 0 0 - 'fruitless: no end row'
	row 2 requeue 7 1 0 - 'fruitless: no end row'
	row 3 start 7 2 0 - -
	row 4 start 7 3 50 - -
	decide 3
	[ "$status" -eq 75 ]
	requeued
}

@test "a notice after 15 minutes without a checkpoint is fruitless, even with 75" {
	row 1 requeue 7 0 0 - 'fruitless: no end row'
	row 2 requeue 7 1 0 - 'fruitless: no end row'
	row 3 start 7 2 0 - -
	row 3 end 7 2 0 75 notice
	decide 2 SECONDS=901
	[ "$status" -eq 70 ]
	last_row fail 70 fruitless
}

@test "a dead node is nobody's fault, though srun says 0" {
	stub srun 'echo "srun: error: Node failure on r1" >&2'
	row 1 start 7 0 0 - -
	decide 0 'life_train'
	[ "$status" -eq 75 ]
	last_row requeue - 'excused: no end row, dead node'
	[[ $stderr == *'Node failure on r1'* ]]
}

@test "ranks that lost one another: like a dead node" {
	local life
	row 1 start 7 0 0 - -
	row 1 end 7 0 4 1 'peer lost'
	decide 0
	[ "$status" -eq 75 ]
	requeued
	last_row requeue 1 'excused: the trainer ended with 1: peer lost'
	for life in 1 2 3; do # requeued by SLURM itself
		row $((life + 1)) start 7 "$life" 0 - -
		row $((life + 1)) end 7 "$life" 4 1 'peer lost'
	done
	row 5 start 7 4 0 - -
	decide 4
	last_row requeue - 'fruitless: no end row'
}

@test "several tasks are started as ranks of MPI, one without" {
	stub srun
	SLURM_NTASKS=2 decide 0 'run_step all train-step-loop run; run_step one eval run'
	grep -q '^srun --mpi=pmix --wait=[0-9]* .*train-step-loop' calls
	grep -q '^srun --nodes=1 --ntasks=1 .*eval' calls
	: >calls
	SLURM_NTASKS=1 decide 0 'run_step all train-step-loop run'
	never grep -q 'srun.*--mpi' calls
}

@test "a zombie's script: a newer shift owns the run" {
	row 1 start 7 0 0 - -
	row 2 start 9 0 40 - -
	decide 0
	[ "$status" -eq 70 ]
	never requeued
	last_row fail 70 'zombie: shift 2 (job 9, restart 0)'
	[ "$(cut -f1 <<<"$last")" = 1 ]
}

@test "a zombie's script: SLURM has given the job a newer life" {
	row 1 start 7 0 0 - -
	row 1 end 7 0 0 75 notice
	echo 1 >restarts
	decide 0
	[ "$status" -eq 70 ]
	never requeued
	last_row fail 70 'zombie: SLURM has given job 7 a newer life'
}

@test "a zombie that finds out during the pause" {
	row 1 start 7 0 0 - -
	stub sleep 'echo 1 >restarts'
	NIGHTSHIFT_PAUSE=60 decide 0
	[ "$status" -eq 70 ]
	never requeued
}

@test "a cancelled job is not requeued" {
	stub scontrol 'case $1 in show) echo "JobId=7 JobState=CANCELLED Restarts=0" ;; esac'
	row 1 start 7 0 0 - -
	row 1 end 7 0 0 75 notice
	decide 0
	[ "$status" -eq 75 ]
	never requeued
	last_row hold 75 CANCELLED
}

@test "requeue: pending already is fine" {
	stub scontrol 'case $1 in show) echo "JobState=RUNNING Restarts=0" ;; *) echo "Job is pending execution for job 7" >&2; exit 1 ;; esac'
	row 1 start 7 0 0 - -
	row 1 end 7 0 0 75 notice
	decide 0
	[ "$status" -eq 75 ]
	last_row requeue 75 notice
}

@test "requeue: tried again while the controller is away" {
	stub scontrol 'case $1 in show) exit 1 ;; *) [ "$(grep -c requeue calls)" -ge 3 ] || { echo "Unable to contact slurm controller (connect failure)" >&2; exit 1; } ;; esac'
	row 1 start 7 0 0 - -
	row 1 end 7 0 0 75 notice
	decide 0
	[ "$status" -eq 75 ]
	[ "$(grep -c '^scontrol requeue 7' calls)" -eq 3 ]
	last_row requeue 75 notice
}

@test "requeue: refused for good is a row and a line, and 75" {
	stub scontrol 'case $1 in show) echo "JobState=RUNNING Restarts=0" ;; *) echo "Requested operation is presently disabled for job 7" >&2; exit 1 ;; esac'
	row 1 start 7 0 0 - -
	row 1 end 7 0 0 75 notice
	decide 0
	[ "$status" -eq 75 ]
	last_row hold 75 'cannot be requeued (Requested operation is presently disabled'
	[[ $stderr == *'submit it again by hand'* ]]
}

@test "an element of an array is requeued by its own name" {
	row 1 start 7_3 0 0 - -
	row 1 end 7_3 0 0 75 notice
	export SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3
	decide 0
	[ "$status" -eq 75 ]
	grep -q '^scontrol requeue 7_3$' calls
	never grep -q '^scontrol requeue 7$' calls
}

@test "done: evaluated, with the status of the evaluation" {
	mkdir run/eval
	printf 'step 12\ndigest abcd0123\njob 7\nrestart 0\n' >run/done
	stub srun 'printf "# rooms: step 12 digest abcd0123 steps 1\n" >run/eval/rooms.tsv'
	decide 0
	[ "$status" -eq 0 ]
	grep -q "^srun --nodes=1 --ntasks=1 $ROOT/bin/eval --summary --step 12 $PWD/run" calls
	never requeued
	[[ $stderr == *"to look at: $PWD/run/report.html"* ]]
	grep -q '<span class="state done">' run/report.html
	# A page that cannot be made changes nothing.
	rm run/report.html
	mkdir run/report.html
	decide 0
	[ "$status" -eq 0 ]
	[[ $stderr != *"to look at"* ]]
	stub srun 'exit 66'
	decide 0
	[ "$status" -eq 66 ]
	last_row fail 66 'eval failed'
}

@test "done with fewer steps than are configured now is not done" {
	printf 'step 11\ndigest abcd0123\njob 6\nrestart 0\n' >run/done
	row 1 start 7 0 0 - -
	row 1 end 7 0 11 75 notice
	decide 0
	[ "$status" -eq 75 ]
	requeued
}

@test "a cut evaluation is requeued and never fruitless" {
	mkdir run/eval
	printf 'step 12\ndigest abcd0123\njob 7\nrestart 0\n' >run/done
	row 1 requeue 7 0 0 - 'fruitless: no end row'
	row 2 requeue 7 1 0 - 'fruitless: no end row'
	stub srun 'exit 75'
	decide 2 SECONDS=10000
	[ "$status" -eq 75 ]
	requeued
	last_row requeue 75 'excused: eval was cut short'
}

@test "an evaluation that leaves no scores is not taken for one" {
	mkdir run/eval
	printf 'step 12\ndigest abcd0123\njob 7\nrestart 0\n' >run/done
	printf '# rooms: step 8 digest 99999999 steps 1\n' >run/eval/rooms.tsv
	stub srun
	decide 0
	[ "$status" -eq 75 ]
	last_row requeue - 'fruitless: eval ended with 0'
	stub srun 'echo "srun: error: Node failure on r2" >&2'
	decide 0
	last_row requeue 75 'excused: eval was cut short'
}

@test "staging that was cut, or left nothing, is requeued; its errors are the script's" {
	stub srun 'exit 75'
	decide 0 'life_stage; life_train'
	[ "$status" -eq 75 ]
	last_row requeue 75 'excused: stage-data was cut short'
	never grep -q train-step-loop calls
	stub srun
	decide 0 'life_stage; life_train'
	[ "$status" -eq 75 ]
	last_row requeue - 'fruitless: stage-data was cut short'
	stub srun 'exit 73'
	decide 0 'life_stage; life_train'
	[ "$status" -eq 73 ]
	last_row fail 73 'stage-data failed with status 73'
}

@test "a requeued life obeys RUN/stop, one by hand does not" {
	touch run/stop
	decide 1
	[ "$status" -eq 75 ]
	last_row hold 75 stopped
	never requeued
	row 1 start 7 0 0 - -
	row 1 end 7 0 0 75 notice
	decide 0
	last_row requeue 75 notice
}

@test "words configure the first life only" {
	rm -r run
	stub snapshot-code
	cat >life.sh <<-END
	home=$ROOT
	. "$ROOT/slurm/lib.sh"
	life_begin marigold "$PWD/run" depth-tiny data.train.rooms.path=$PWD/rooms train.steps=99
	life_prepare
	END
	SLURM_JOB_ID=7 SLURM_SUBMIT_DIR=$PWD NIGHTSHIFT_CODE=$PWD/bin bash life.sh
	grep -q 'steps = 99' run/config.cfg
	mkconfig run train.steps=120
	SLURM_JOB_ID=7 SLURM_RESTART_COUNT=1 SLURM_SUBMIT_DIR=$PWD NIGHTSHIFT_CODE=$PWD/bin bash life.sh
	grep -q 'steps = 120' run/config.cfg
	rm run/config.cfg
	SLURM_JOB_ID=7 SLURM_RESTART_COUNT=2 SLURM_SUBMIT_DIR=$PWD run bash life.sh
	[ "$status" -eq 66 ]
}

@test "a bad word ends the job with mkconfig's status" {
	SLURM_JOB_ID=7 SLURM_SUBMIT_DIR=$PWD run --separate-stderr bash "$ROOT/slurm/train_marigold.sh" new depth-tiny no.such.key=1
	[ "$status" -eq 78 ]
	[[ $stderr == *no.such.key* ]]
}

@test "the run's name: default, relative, %a" {
	cat >name.sh <<-END
	home=$ROOT
	. "$ROOT/slurm/lib.sh"
	life_begin marigold "\$@" 2>/dev/null
	echo "\$run"
	END
	export SLURM_JOB_ID=9 SLURM_SUBMIT_DIR=$PWD
	[ "$(bash name.sh)" = "$PWD/runs/marigold-9" ]
	[ "$(bash name.sh a/../b)" = "$PWD/b" ]
	export SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2
	[ "$(bash name.sh)" = "$PWD/runs/marigold-7_2" ]
	[ "$(bash name.sh /x/lr-%a)" = /x/lr-2 ]
	export SLURM_SUBMIT_DIR=$PWD/gone
	run bash name.sh
	[ "$status" -eq 66 ]
}

@test "a torn last row of shifts.tsv stays alone" {
	printf '1\tstart\t2026-01' >>run/shifts.tsv
	decide 0
	[ "$(tail -n 2 run/shifts.tsv | head -n 1)" = "$(printf '1\tstart\t2026-01')" ]
	last_row requeue - fruitless
}

@test "the notice handed to the trainer is that of the --signal line" {
	local script number
	for script in "$ROOT"/slurm/train_*.sh; do
		number=$(sed -n 's/^#SBATCH --signal=USR2@//p' "$script")
		grep -q "^notice=\${SBATCH_SIGNAL:-USR2@$number} " "$script"
	done
	# The heads that make a job survive: append, requeue, the signal to the steps alone.
	for script in "$ROOT"/slurm/*.sh; do
		grep -q '^#SBATCH' "$script" || continue
		for line in --output=%x-%j.out --open-mode=append --requeue; do grep -q -x -- "#SBATCH $line" "$script"; done
		never grep -q 'signal=B:' "$script"
		never grep -q '^[^#]*\btrap ' "$script"
	done
}

@test "without SLURM the script loops by itself until the run is done" {
	mkdir -p home/bin code
	ln -s "$ROOT/slurm" home/slurm
	ln -s "$ROOT"/bin/* home/bin/
	rm home/bin/train-step-loop
	# Two lives end at once, the third is left alone.
	cat >home/bin/train-step-loop <<-END
	#!/bin/bash
	echo life >>lives
	[ "\$(wc -l <lives)" -ge 3 ] || set -- --exit-after 1s "\$@"
	exec "$ROOT/bin/train-step-loop" "\$@"
	END
	chmod +x home/bin/train-step-loop
	make-scenes depth -n 4 --seed 1 --size 32x48 rooms 2>/dev/null
	export NIGHTSHIFT_HOME=$PWD/home NIGHTSHIFT_CODE=$PWD/code
	run_tool 0 bash home/slurm/train_marigold.sh loop depth-tiny data.train.rooms.path="$PWD/rooms" checkpoint.every=4
	[ "$(wc -l <lives)" -eq 3 ]
	[ "$(column event loop/shifts.tsv | sort | uniq -c | awk '{ print $2 $1 }' | tr '\n' ' ')" = 'end3 requeue2 start3 ' ]
	[ "$(column restart loop/shifts.tsv | sort -u | tr '\n' ' ')" = '0 1 2 ' ]
	[ "$(column job loop/shifts.tsv | sort -u | wc -l)" -eq 1 ]
	[ -s loop/eval/rooms.tsv ]
}

# ---- submit ----

# submit WORD ...: with a stand-in for sbatch.
submit() {
	stub sbatch 'echo 4711'
	mkdir -p code
	NIGHTSHIFT_CODE=$PWD/code run --separate-stderr "$ROOT/slurm/submit" "$@"
}

data() {
	make-scenes depth -n 4 --seed 1 --size 32x48 rooms 2>/dev/null
	rm -r run
}

@test "submit: checks, then sbatch; prints the job" {
	data
	submit depth run depth-tiny data.train.rooms.path="$PWD/rooms" -- --time=10 --partition=gpu
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf '#job\trun\n4711\t%s' "$PWD/run")" ]
	[ "$(cat calls)" = "sbatch --parsable --time=10 --partition=gpu $ROOT/slurm/train_marigold.sh $PWD/run" ]
	[ -s run/code.tar.gz ]
}

@test "submit: any error stops it before sbatch" {
	data
	submit depth run depth-tiny data.train.rooms.path="$PWD/rooms" optimizer.lrr=1
	[ "$status" -eq 78 ]
	submit depth run depth-tiny data.train.rooms.path="$PWD/nowhere"
	[ "$status" -ne 0 ]
	submit depth
	[ "$status" -eq 64 ]
	submit cooking run
	[ "$status" -eq 64 ]
	submit depth run -- --output=logs/%x-%j.out
	[ "$status" -eq 73 ]
	[[ $stderr == *'logs: the directory for the job'?'s output is missing'* ]]
	mkdir logs
	submit depth run2 depth-tiny data.train.rooms.path="$PWD/rooms" -- -o logs/%x-%j.out
	[ "$status" -eq 0 ]
	submit depth run -- --output=%j/out
	[ "$status" -eq 73 ]
	SBATCH_OUTPUT=gone/%j.out submit depth run
	[ "$status" -eq 73 ]
	[ "$(grep -c . calls)" -eq 1 ]
}

@test "submit: the seconds of --signal reach the script" {
	data
	stub sbatch
	submit depth run depth-tiny data.train.rooms.path="$PWD/rooms" -- --signal=USR2@600
	[ "$status" -eq 0 ]
	printf '#!/bin/bash\necho "$SBATCH_SIGNAL" >signal\necho 1\n' >bin/sbatch
	NIGHTSHIFT_CODE=$PWD/code "$ROOT/slurm/submit" depth run -- --signal=USR2@600 2>/dev/null
	[ "$(cat signal)" = USR2@600 ]
}

@test "submit: a notice that is shorter than the run needs is told" {
	data
	submit depth run depth-tiny data.train.rooms.path="$PWD/rooms" -- --signal=USR2@100000
	[[ $stderr != *warning* ]]
	wanted=$(train-step-loop --dry-run run 2>/dev/null | awk -F'\t' '$1 == "notice" { print $2 }')
	[ "$wanted" -gt 1 ]
	submit depth run -- --signal=USR2@1
	[ "$status" -eq 0 ]
	[[ $stderr == *'submit: warning: to leave in time may take '*' s, and the job is told 1 s before its end; give more'*'--signal=USR2@'* ]]
}

@test "submit: an array has a run for each element" {
	data
	submit depth run depth-tiny data.train.rooms.path="$PWD/rooms" -- --array=3-5
	[ "$status" -eq 64 ]
	# shellcheck disable=SC2016 # mkconfig looks it up, in each element
	submit depth 'run-%a' depth-tiny 'seed=${env:SLURM_ARRAY_TASK_ID}' data.train.rooms.path="$PWD/rooms" -- --array=3-5
	grep -q 'seed = 3;' run-3/config.cfg
	[ "$status" -eq 0 ]
	grep -q -F -- "--array=3-5 --output=%x-%A_%a.out $ROOT/slurm/train_marigold.sh $PWD/run-%a depth-tiny" calls
	[ -s run-3/config.cfg ]
	[ ! -e run-4 ]
}

@test "submit: --check submits nothing" {
	data
	submit --check depth run depth-tiny data.train.rooms.path="$PWD/rooms"
	[ "$status" -eq 0 ]
	[ -z "$output" ]
	[[ $stderr == *"submit: $PWD/run is in order and was not submitted" ]]
	[ ! -e calls ]
}

@test "pipeline: three jobs, each behind the other" {
	data
	mkdir code
	stub sbatch 'echo "10$(grep -c sbatch calls)"'
	NIGHTSHIFT_CODE=$PWD/code run --separate-stderr "$ROOT/slurm/pipeline.sh" run depth-tiny data.train.rooms.path="$PWD/rooms" -- --time=5
	[ "$status" -eq 0 ]
	[ "$output" = "$(printf '#job\tpart\trun\n101\tstage\t%s\n102\ttrain\t%s\n103\teval\t%s' "$PWD/run" "$PWD/run" "$PWD/run")" ]
	grep -q -- "--time=5 --dependency=afterok:101 --kill-on-invalid-dep=yes $ROOT/slurm/train_marigold.sh $PWD/run" calls
	grep -q -- "--time=5 --dependency=afterok:102 --kill-on-invalid-dep=yes $ROOT/slurm/eval.sh $PWD/run" calls
}

@test "pipeline and submit of a classification: its script, and its task where no preset names one" {
	tiny_clips clips
	rm -r run
	mkdir code
	stub sbatch 'echo "10$(grep -c sbatch calls)"'
	NIGHTSHIFT_CODE=$PWD/code run --separate-stderr "$ROOT/slurm/pipeline.sh" classify run classify-tiny data.train.clips.path="$PWD/clips" -- --time=5
	[ "$status" -eq 0 ]
	grep -q -- "--dependency=afterok:101 --kill-on-invalid-dep=yes $ROOT/slurm/train_resnet3d.sh $PWD/run" calls
	submit --check classify plain data.train.clips.path="$PWD/clips" data.train.clips.annotation=clips/annotation.json batch.size=2
	[ "$status" -eq 0 ]
	grep -qx 'task = "classify";' plain/config.cfg
	# a preset of the other task
	submit --check classify other depth-tiny data.train.rooms.path="$PWD/clips"
	[ "$status" -eq 78 ]
	[[ $stderr == *"is a key of task depth; this run's task is classify"* ]]
}

@test "eval.sh scores, also where the environment tells the training not to" {
	data
	mkconfig run depth-tiny data.train.rooms.path="$PWD/rooms" train.steps=1
	train-step-loop run
	NIGHTSHIFT_EVALUATE=no run_tool 0 bash "$ROOT/slurm/eval.sh" run
	[ "$(wc -l <run/eval/rooms.tsv)" -gt 2 ]
}

@test "the scripts pass shellcheck" {
	command -v shellcheck >/dev/null || skip "shellcheck is not installed"
	cd "$ROOT"
	shellcheck -x slurm/lib.sh slurm/*.sh slurm/submit tests/slurm/cluster
}
