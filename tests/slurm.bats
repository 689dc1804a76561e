# The batch life on a real SLURM: slurmctld and three slurmd of the tests' own (tests/slurm/cluster), the real programs.
# seconds: 110
#
# What takes long on a cluster is waiting, so all scenarios run at once: setup_file starts one driver each, which does what a user or
# SLURM does to its job and writes down what became of it; the tests wait for their driver and look. Runs are "endless" (a
# million steps) until they have been interrupted; then the driver lowers train.steps, which may change, and the next life finishes.
# checkpoint.every=1 makes a step wait for the disk instead of the processor.

load helper

SCENARIOS='limit second preempt cancel array fruitless zombie same pipeline refuse ranks classify'

setup_file() {
	local why scenario
	export BASE=$BATS_FILE_TMPDIR
	why=$("$ROOT/tests/slurm/cluster" check) || { echo "$why" >"$BASE/skip"; return 0; }
	[ -e "$ROOT/build/tests/faults.so" ] || make -s -C "$ROOT" build/tests/faults.so
	make-scenes depth -n 6 --seed 1 --size 32x48 "$BASE/rooms"
	mkdir "$BASE/code" "$BASE/scratch" "$BASE/state"
	echo 'print(1)' >"$BASE/code/train.py"
	eval "$("$ROOT/tests/slurm/cluster" start "$BASE/cluster" $$ 3>&- 4>&-)"
	[ -n "${SLURM_CONF:-}" ] || { echo "the daemons do not start (see $BASE/cluster/log)" >"$BASE/skip"; return 0; }
	export NIGHTSHIFT_PAUSE=1 NIGHTSHIFT_CODE=$BASE/code
	for scenario in $SCENARIOS; do
		mkdir "$BASE/$scenario"
		(cd "$BASE/$scenario" && { "drive_$scenario" >driver.log 2>&1 || true; } && touch "$BASE/state/$scenario") 3>&- 4>&- &
	done
}

teardown_file() {
	[ -d "$BASE/cluster" ] || return 0
	scancel --user root --quiet 2>/dev/null || true
	for _ in $(seq 60); do [ -z "$(squeue -h 2>/dev/null)" ] && break || sleep 0.5; done
	"$ROOT/tests/slurm/cluster" stop "$BASE/cluster"
}

# ---- what drivers use ----

endless() { # [key=value ...]: words of a run that does not end by itself
	echo depth-tiny data.train.rooms.path="$BASE/rooms" stage.to="$BASE/scratch" train.steps=1000000 schedule.total=3000 \
		validate.every=0 picture.every=0 checkpoint.every=1 "$@"
}

submit_training() { # RUN [SBATCH-OPTION ...]: the job's number
	local run=$1
	shift
	# shellcheck disable=SC2046
	sbatch --parsable -c1 --time=30 "$@" "$ROOT/slurm/train_marigold.sh" "$run" $(endless)
}

until_true() { # SECONDS COMMAND ...
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || { echo "gave up waiting: $*"; return 1; }
		sleep 0.3
	done
}

newest() { # RUN: step of the newest checkpoint, 0 without one
	local path
	path=$(ls -d "$1"/checkpoints/step-????????/ 2>/dev/null | tail -1)
	path=${path%/} path=${path##*step-}
	echo $((10#${path:-0}))
}

reached() { [ "$(newest "$1")" -ge "$2" ]; } # RUN STEP

has_row() { # RUN EVENT [RESTART]
	awk -F'\t' -v event="$2" -v restart="${3:-}" '$2 == event && (restart == "" || $5 == restart) { found = 1 } END { exit !found }' \
		"$1/shifts.tsv" 2>/dev/null
}

state_of() { scontrol show job --oneliner "$1" 2>/dev/null | grep -o 'JobState=[A-Z_]*' | cut -d= -f2; }

ended() { case $(state_of "$1") in COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | PREEMPTED) return 0 ;; *) return 1 ;; esac; }

shorten() { # RUN MORE: it ends MORE steps behind its newest checkpoint (a lost node of the test is this very machine: --take-over)
	mkconfig --take-over "$1" train.steps=$(($(newest "$1") + $2))
}

finish() { # JOB: waits for its end and writes down what SLURM says
	until_true 240 ended "$1" || true
	scontrol show job --oneliner "$1" >"job-$1"
}

# ---- the drivers ----

drive_limit() {
	local job
	job=$(submit_training run --signal=USR2@20)
	echo "$job" >id
	until_true 60 reached run 5
	touch running
	until_true 60 [ -e ../second/tried ]
	scontrol update JobId="$job" EndTime="$(date -d '+35 seconds' +%Y-%m-%dT%H:%M:%S)"
	until_true 90 has_row run requeue
	shorten run 20
	finish "$job"
}

drive_second() { # a second job on the run of the first
	local job
	until_true 90 [ -e ../limit/running ]
	job=$(submit_training "$BASE/limit/run")
	echo "$job" >id
	finish "$job"
	touch tried
}

drive_preempt() {
	local job high
	job=$(submit_training run --partition=low)
	echo "$job" >id
	until_true 60 reached run 5
	high=$(sbatch --parsable --partition=high --exclusive --time=5 --output=high.out --wrap='sleep 3')
	until_true 60 has_row run requeue
	shorten run 20
	finish "$job"
	finish "$high"
}

drive_cancel() {
	local job
	job=$(submit_training run)
	echo "$job" >id
	until_true 60 reached run 5
	scancel "$job"
	finish "$job"
	newest run >step
	sleep 15 # were it to come back, it would be here by now
	scontrol show job --oneliner "$job" >job-later
	mkconfig run train.steps=$(($(cat step) + 5))
	train-step-loop run
}

drive_array() {
	local job
	job=$(submit_training 'run-%a' --array=0-1)
	echo "$job" >id
	until_true 60 reached run-0 3
	until_true 60 reached run-1 3
	scancel --signal=USR2 "${job}_1"
	until_true 60 has_row run-1 requeue
	shorten run-1 10
	finish "${job}_1"
	touch run-0/stop
	finish "${job}_0"
}

drive_fruitless() { # a trainer that dies in its first save, each time
	local job
	mkdir -p home/bin
	ln -s "$ROOT/slurm" home/slurm
	ln -s "$ROOT"/bin/* home/bin/
	rm home/bin/train-step-loop
	cat >home/bin/train-step-loop <<-END
	#!/bin/bash
	export LD_PRELOAD=$ROOT/build/tests/faults.so NIGHTSHIFT_FAULT=fsync:1:KILL NIGHTSHIFT_FAULT_PATH='*/checkpoints/*'
	exec "$ROOT/bin/train-step-loop" "\$@"
	END
	chmod +x home/bin/train-step-loop
	export NIGHTSHIFT_HOME=$PWD/home
	job=$(submit_training run)
	echo "$job" >id
	finish "$job"
}

drive_zombie() { # the node is given up, its processes live on
	local job step
	job=$(submit_training run --partition=spare)
	echo "$job" >id
	until_true 60 reached run 5
	scontrol show job --oneliner "$job" >job-first
	kill -9 "$(cat "$BASE/cluster/run/slurmd-r3.pid")"
	until_true 90 waits_again "$job"
	shorten run $(($(newest run) / 2 + 200)) # the zombie goes on meanwhile; some steps are for the next life
	finish "$job"
	until_true 30 has_row run fail 0 # the zombie's script
	until_true 30 grep -q 'exited with exit code 70' "$BASE/cluster/log/slurmd-r3.log" || true # the zombie itself
	# The same number of steps in one go.
	step=$(awk '$1 == "step" { print $2 }' run/done)
	# shellcheck disable=SC2046
	mkconfig undisturbed $(endless)
	mkconfig undisturbed train.steps="$step" checkpoint.every=0
	train-step-loop undisturbed
}

waits_again() { [ "$(state_of "$1")" = PENDING ]; }

drive_same() {
	local job
	set -- depth-tiny data.train.rooms.path="$BASE/rooms" stage.to="$BASE/scratch"
	job=$(sbatch --parsable -c1 --time=5 "$ROOT/slurm/train_marigold.sh" by-srun "$@")
	echo "$job" >id
	bash "$ROOT/slurm/train_marigold.sh" by-bash "$@" >bash.out 2>&1
	finish "$job"
}

drive_pipeline() {
	"$ROOT/slurm/pipeline.sh" run depth-tiny data.train.rooms.path="$BASE/rooms" stage.to="$BASE/scratch" -- -c1 --time=5 >jobs
	awk -F'\t' '$2 == "eval" { print $1 }' jobs >id
	while read -r job part _; do
		[ "$job" = '#job' ] || { finish "$job"; mv "job-$job" "job-$part"; }
	done <jobs
}

drive_ranks() { # two processes; one of them is stopped, and the others are not to wait for ever
	local job step process
	[ -e "$ROOT/build/nightshift-mpi.so" ] || return 0
	# shellcheck disable=SC2046
	job=$(sbatch --parsable --ntasks-per-node=2 -c1 --time=10 "$ROOT/slurm/train_marigold.sh" run $(endless parallel.timeout=5))
	echo "$job" >id
	until_true 90 reached run 5
	for process in $(pgrep -f "/train-step-loop --notice .*$PWD/run\$"); do
		! grep -qzx SLURM_PROCID=1 "/proc/$process/environ" || kill -STOP "$process"
	done
	until_true 120 has_row run requeue
	shorten run 10
	finish "$job"
	# The same number of steps by one process.
	step=$(awk '$1 == "step" { print $2 }' run/done)
	# shellcheck disable=SC2046
	mkconfig alone $(endless)
	mkconfig alone train.steps="$step" checkpoint.every=0
	train-step-loop alone
}

drive_classify() { # the other task: submitted, requeued in the middle of an epoch, finished and scored
	local job step
	tiny_clips clips
	# shellcheck disable=SC2046
	"$ROOT/slurm/submit" classify run classify-tiny data.train.clips.path="$PWD/clips" stage.to="$BASE/scratch" train.steps=1000000 \
		validate.every=0 picture.every=0 checkpoint.every=1 -- -c1 --time=10 >submitted
	job=$(awk -F'\t' 'NR == 2 { print $1 }' submitted)
	echo "$job" >id
	until_true 90 reached run 5
	scancel --signal=USR2 "$job"
	until_true 90 has_row run requeue
	shorten run 10
	finish "$job"
	step=$(awk '$1 == "step" { print $2 }' run/done)
	mkconfig undisturbed classify-tiny data.train.clips.path="$PWD/clips" train.steps="$step" validate.every=0 picture.every=0 \
		checkpoint.every=0
	train-step-loop undisturbed
}

drive_refuse() {
	"$ROOT/slurm/submit" depth run depth-tiny data.train.rooms.path="$BASE/rooms" -- --output=logs/%j.out 2>message
	echo $? >status
	squeue -h -t all -o '%o' | grep -c "$PWD/run" >jobs
	"$ROOT/slurm/submit" depth run depth-tiny data.train.rooms.path="$BASE/rooms" -- -c1 --time=5 --job-name=submitted >submitted 2>dry-run
	job=$(awk -F'\t' 'NR == 2 { print $1 }' submitted)
	echo "$job" >id
	finish "$job"
}

# ---- the tests ----

# Waits for a driver; its files are in the current directory. Shows what there is when the test fails.
scenario() {
	[ ! -e "$BASE/skip" ] || skip "$(cat "$BASE/skip")"
	until_true 290 [ -e "$BASE/state/$1" ]
	cd "$BASE/$1"
	tail -n 30 driver.log ./*.out
	cat run*/shifts.tsv 2>/dev/null || true
	job=$(cat id 2>/dev/null) || true
}

# job_is JOB WORD ...: what SLURM said at its end.
job_is() {
	local file=job-$1 word
	shift
	for word in "$@"; do
		grep -q -w -- "$word" "$file" || { echo "$file has no $word:"; cat "$file"; return 1; }
	done
}

rows() { awk -F'\t' -v event="$1" '$2 == event' "$2/shifts.tsv" | wc -l; } # EVENT RUN

@test "time limit: one requeue, then completed" {
	scenario limit
	job_is "$job" JobState=COMPLETED Restarts=1 ExitCode=0:0
	[ "$(rows requeue run)" -eq 1 ]
	[ "$(awk -F'\t' '$2 == "end" { print $5, $9, $10 }' run/shifts.tsv)" = "$(printf '0 75 notice\n1 0 done')" ]
	# The next life went on where the first one had stopped.
	[ "$(awk -F'\t' '$2 == "start" && $5 == 1 { print $8 }' run/shifts.tsv)" = "$(awk -F'\t' '$2 == "end" && $5 == 0 { print $8 }' run/shifts.tsv)" ]
	[ -s run/eval/rooms.tsv ]
}

@test "two jobs on one run: the second exits 69, the first is untouched" {
	scenario second
	job_is "$job" JobState=FAILED ExitCode=69:0 Restarts=0
	grep -q 'owns this run' marigold-*.out
	awk -F'\t' -v job="$job" '$4 == job' "$BASE/limit/run/shifts.tsv" | grep -q '^-	fail	'
	scenario limit
	job_is "$job" JobState=COMPLETED
	[ "$(rows start run)" -eq 2 ]
}

@test "preemption: requeued exactly once" {
	scenario preempt
	job_is "$job" JobState=COMPLETED Restarts=1 ExitCode=0:0
	[ "$(rows requeue run)" -eq 1 ]
	[ "$(rows start run)" -eq 2 ]
}

@test "scancel: cancelled, no restart, a valid checkpoint" {
	scenario cancel
	job_is "$job" JobState=CANCELLED Restarts=0
	job_is later JobState=CANCELLED Restarts=0
	[ "$(rows requeue run)" -eq 0 ]
	# By hand it goes on from the newest checkpoint.
	[ "$(awk -F'\t' '$2 == "start" { step = $8 } END { print step }' run/shifts.tsv)" -eq "$(cat step)" ]
	grep -q "^step $(($(cat step) + 5))\$" run/done
}

@test "array: only the element that was asked restarts" {
	scenario array
	job_is "${job}_1" JobState=COMPLETED Restarts=1
	job_is "${job}_0" JobState=FAILED Restarts=0 ExitCode=75:0
	[ "$(rows requeue run-1)" -eq 1 ]
	[ "$(rows requeue run-0)" -eq 0 ]
	[ "$(awk -F'\t' '$2 == "start" { print $4 }' run-1/shifts.tsv | sort -u)" = "${job}_1" ]
}

@test "RUN/stop: left with 75, held, not requeued" {
	scenario array
	[ "$(awk -F'\t' '$2 == "end" { print $9, $10 }' run-0/shifts.tsv)" = '75 stopped' ]
	[ "$(rows hold run-0)" -eq 1 ]
}

@test "three fruitless lives: 70, and why" {
	scenario fruitless
	job_is "$job" JobState=FAILED ExitCode=70:0 Restarts=2
	[ "$(rows start run)" -eq 3 ]
	[ "$(rows requeue run)" -eq 2 ]
	[ "$(rows fail run)" -eq 1 ]
	grep -q 'fruitless life 3 in a row' marigold-*.out
	[ ! -e run/done ]
}

@test "a lost node whose processes live on: the zombie exits 70, the weights are an undisturbed run's" {
	scenario zombie
	job_is first NodeList=r3 # the one whose slurmd was killed
	job_is "$job" JobState=COMPLETED Restarts=1 ExitCode=0:0 NodeList=r1
	awk -F'\t' '$2 == "fail" && $5 == 0 && $9 == 70 && $10 ~ /^zombie/' run/shifts.tsv | grep -q .
	[ "$(rows requeue run)" -eq 0 ]
	grep 'exited with exit code' "$BASE/cluster/log/slurmd-r3.log"
	grep -q 'task 0 .* exited with exit code 70' "$BASE/cluster/log/slurmd-r3.log"
	[ "$(awk -F'\t' '$1 == 2 && $2 == "end" { print $8 }' run/shifts.tsv)" -gt "$(awk -F'\t' '$1 == 2 && $2 == "start" { print $8 }' run/shifts.tsv)" ]
	step=$(printf 'step-%08d' "$(awk '$1 == "step" { print $2 }' run/done)")
	same_files run undisturbed "checkpoints/$step/model" "checkpoints/$step/optimizer" log/step.tsv log/epoch.tsv
}

@test "two ranks: a stopped one is lost, the job requeued, and the weights are those of one process" {
	[ -e "$ROOT/build/nightshift-mpi.so" ] || skip "built without MPI"
	scenario ranks
	job_is "$job" JobState=COMPLETED Restarts=1 ExitCode=0:0
	[ "$(awk -F'\t' '$2 == "end" { print $5, $7, $9, $10 }' run/shifts.tsv)" = "$(printf '0 2 1 peer lost\n1 2 0 done')" ]
	[ "$(rows requeue run)" -eq 1 ]
	step=$(printf 'step-%08d' "$(awk '$1 == "step" { print $2 }' run/done)")
	same_files run alone "checkpoints/$step/model" "checkpoints/$step/optimizer" log/step.tsv log/epoch.tsv
}

@test "classification: submitted, requeued in an epoch, the weights of an undisturbed run, scored" {
	scenario classify
	job_is "$job" JobState=COMPLETED Restarts=1 ExitCode=0:0 JobName=resnet3d
	[ "$(awk -F'\t' '$2 == "end" { print $5, $9, $10 }' run/shifts.tsv)" = "$(printf '0 75 notice\n1 0 done')" ]
	step=$(printf 'step-%08d' "$(awk '$1 == "step" { print $2 }' run/done)")
	same_files run undisturbed "checkpoints/$step/model" "checkpoints/$step/optimizer" log/step.tsv log/epoch.tsv
	[ "$(grep -vc '^#' run/eval/clips-val.tsv)" -eq 20 ]
	grep -q $'^#dataset\tn\tnan\terror\ttop1' resnet3d-*.out
}

@test "under srun and under bash: the same bytes" {
	scenario same
	job_is "$job" JobState=COMPLETED Restarts=0
	same_files by-srun by-bash checkpoints/step-00000012/model checkpoints/step-00000012/optimizer log/step.tsv log/epoch.tsv \
		log/val.tsv pictures predictions eval
}

@test "pipeline: stage, train, eval, each behind the other" {
	scenario pipeline
	for part in stage train eval; do job_is "$part" JobState=COMPLETED ExitCode=0:0; done
	[ -s run/done ]
	grep -q '^# rooms: step 12 ' run/eval/rooms.tsv
	# Only the last one has scored it.
	[ "$(grep -c '^#dataset' marigold-*.out)" -eq 0 ]
	grep -q '^#dataset' eval-*.out
}

@test "submit refuses a missing directory for the job's output" {
	scenario refuse
	[ "$(cat status)" -eq 73 ]
	grep -q 'logs: the directory for the job.s output is missing; make it with: mkdir -p logs' message
	[ "$(cat jobs)" -eq 0 ]
}

@test "submit: checks, then submits" {
	scenario refuse
	job_is "$job" JobState=COMPLETED JobName=submitted
	[ "$(head -1 submitted)" = "$(printf '#job\trun')" ]
	[ -s dry-run ]
	[ -s run/eval/rooms.tsv ]
}
