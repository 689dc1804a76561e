# shellcheck shell=bash
# What the batch scripts share. Sourced by them, never run.
#
# A life is one start of a batch script: by sbatch, by a requeue, or one round of the loop under plain bash. Each life does
#
#	life_begin NAME [RUN [PRESET|key=value ...]]    who and where am I
#	life_prepare                                    configuration, code snapshot
#	life_stage                                      data to local scratch
#	life_train                                      one shift of training
#	life_decide                                     what next: evaluate, requeue, or give up
#
# life_decide goes by what lies in RUN, never by srun's status alone: a dead node gives 0, a killed peer 143. Its rules are in
# nightshift-slurm(7). Under SLURM it does not return; under plain bash it returns for the next life.
#
# There is no trap here, and srun runs in the foreground: the signal of --signal=USR2@N goes to the programs, not to the shell.
#
# The environment may set NIGHTSHIFT_HOME (where slurm/ and bin/ are), NIGHTSHIFT_PAUSE (seconds before a failed life is
# followed by the next), NIGHTSHIFT_CODE (the directory of the code, see code_directory) and
# NIGHTSHIFT_EVALUATE=no (the run is evaluated by another job).

# The script that sources this sets home (where slurm/ and bin/ are), notice (the N of its --signal=USR2@N) and task (what a run is
# that no preset makes anything else).
: "${home:?}" "${notice:=300}" "${task:=depth}"

short_life=900       # seconds: a life that was cut earlier, by notice or with its node, is nobody's fault
rank_wait=20         # seconds between the end of a step's first task and that of its last
fruitless_limit=3    # so many lives in a row without a checkpoint are enough

# ---- small things ----

now() { date -u +%Y-%m-%dT%H:%M:%SZ; }

say() { printf '%s %s: %s\n' "$(now)" "$name" "$*" >&2; }

# The program of the kit.
tool() { printf '%s/bin/%s' "$home" "$1"; }

# Value of a key of the run's configuration.
config() { "$(tool mkconfig)" --explain "$run" 2>/dev/null | awk -F'\t' -v key="$1" '$1 == key { print $2 }'; }

# Names of the data groups that are evaluated.
test_groups() {
	"$(tool mkconfig)" --explain "$run" 2>/dev/null |
		awk -F'\t' '$1 ~ /^data\.test\..*\.layout$/ { name = $1; sub(/^data\.test\./, "", name); sub(/\.layout$/, "", name); print name }'
}

# One row of shifts.tsv: EVENT STATUS REASON. The step is that of the newest checkpoint.
write_row() {
	local table=$run/shifts.tsv new lead='' newest
	[ -d "$run" ] || return 0
	if [ ! -e "$table" ]; then # it appears whole, with its header; whoever is slower keeps the other's
		new=$run/.shifts.tsv.$host.$$
		printf '#shift\tevent\ttime\tjob\trestart\tnodes\tworld\tstep\tstatus\treason\n' >"$new" && ln "$new" "$table" 2>/dev/null
		rm -f "$new"
	fi
	[ -z "$(tail -c 1 "$table" 2>/dev/null)" ] || lead=$'\n' # a line that was cut by a kill
	newest=$(newest_step)
	printf '%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$lead" "${shift:--}" "$1" "$(now)" "$job" "$restart" \
		"${SLURM_JOB_NUM_NODES:-1}" "${SLURM_NTASKS:-1}" "${newest:--}" "$2" "${3//[$'\t\n\\']/ }" >>"$table"
}

# The step of the newest checkpoint, empty without one.
newest_step() {
	local path step newest=''
	for path in "$run"/checkpoints/step-*/MANIFEST; do
		step=${path%/MANIFEST} step=${step##*/step-}
		[[ $step =~ ^[0-9]+$ && -e $path ]] && newest=$((10#$step))
	done
	printf '%s' "$newest"
}

# Ends the script: STATUS REASON, with a row and a line that say so.
give_up() {
	write_row fail "$1" "$2"
	say "$2; exit $1"
	exit "$1"
}

# The run waits for a person: STATUS REASON.
hold() {
	write_row hold "$1" "$2"
	say "$2; exit $1"
	exit "$1"
}

# ---- beginning ----

# How the script is called, from the comment at its top.
usage() {
	echo usage:
	sed -n 's/^#\t/  /p' "$0"
	echo 'See nightshift-slurm(7).'
}

# In the run's name, %j is the job, %A and %a the array job and its element, as in sbatch's file names.
expand() {
	local text=$1
	text=${text//%A/${SLURM_ARRAY_JOB_ID:-${SLURM_JOB_ID:-$$}}}
	text=${text//%a/${SLURM_ARRAY_TASK_ID:-0}}
	text=${text//%j/${SLURM_JOB_ID:-$$}}
	printf '%s' "$text"
}

# Sets name, run, words, job, restart, host, submitted (the submit directory) and slurm (empty without SLURM).
life_begin() {
	name=$1
	shift
	case ${1:-} in
	-h | --help) usage && exit 0 ;;
	-*) echo "$name: unknown option $1; --help shows how it is called" >&2 && exit 64 ;;
	esac
	host=$(uname -n) # HOSTNAME may be the login node's: sbatch exports it
	slurm=${SLURM_JOB_ID:-}
	if [ -n "$slurm" ]; then
		submitted=${SLURM_SUBMIT_DIR:-$PWD}
		restart=${SLURM_RESTART_COUNT:-0}
		job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}}
		job=${job:-$SLURM_JOB_ID}
	else
		submitted=$PWD
		restart=0
		job=bash-$host-$$
		export NIGHTSHIFT_JOB=$job NIGHTSHIFT_RESTART=$restart
	fi
	run=${1:-runs/$name-$job}
	words=("${@:2}")
	run=$(expand "$run")
	[ "${run#/}" != "$run" ] || run=$submitted/$run
	run=$(realpath -m "$run")
	# A job whose directory is missing on the node is started in /tmp: better nothing than a run in the wrong place.
	[ -d "$submitted" ] || { say "$submitted: the submit directory is missing on $host; exit 66"; exit 66; }
	[ -x "$(tool train-step-loop)" ] || { say "$(tool train-step-loop): is missing; run make in $home, or set NIGHTSHIFT_HOME; exit 69"; exit 69; }
	say "run $run, job $job, life $((restart + 1)) on $host"
	life_start
}

# What each life starts with, also the later ones of the loop under plain bash.
life_start() {
	SECONDS=0
	shift='' cut='' node_failure=''
	current_before=$(current_shift)
	if [ "$restart" -gt 0 ]; then
		[ -e "$run/config.cfg" ] || give_up 66 "$run/config.cfg is gone"
		[ ! -e "$run/stop" ] || hold 75 "stopped: $run/stop is there; remove it and start the run again"
	fi
}

# ---- running the programs ----

# Passes stderr on and prints "yes" when srun reports a dead node, which its status does not tell.
pass_errors() {
	local line found=''
	while IFS= read -r line || [ -n "$line" ]; do
		printf '%s\n' "$line" >&2
		case $line in *"srun: error: Node failure"* | *"srun: error: "*"NODE FAIL"*) found=yes ;; esac
	done
	printf '%s' "$found"
}

# Runs a program of the kit: HOW PROGRAM [WORD ...]. HOW: all (every task), nodes (one task a node), one. Sets status and
# node_failure.
run_step() {
	local how=$1 tasks=() program
	program=$(tool "$2")
	shift 2
	status=0
	if [ -z "$slurm" ]; then
		"$program" "$@" || status=$?
		return
	fi
	case $how in
	all) # MPI's ranks need PMIx; a rank that is stopped or hangs must not keep the others' end from the script
		[ "${SLURM_NTASKS:-1}" -le 1 ] || tasks=(--mpi="${SLURM_MPI_TYPE:-pmix}" --wait="$rank_wait")
		;;
	nodes) tasks=(--nodes="${SLURM_JOB_NUM_NODES:-1}" --ntasks="${SLURM_JOB_NUM_NODES:-1}" --ntasks-per-node=1) ;;
	one) tasks=(--nodes=1 --ntasks=1) ;;
	esac
	# srun takes this from sbatch by itself in some versions only.
	[ -z "${SLURM_CPUS_PER_TASK:-}" ] || tasks+=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
	{ node_failure=$(set -o pipefail; srun "${tasks[@]}" "$program" "$@" 2>&1 >&3 | pass_errors) || status=$?; } 3>&1
}

# Judges a program other than the trainer: NAME FILE, by status and by the file it owes. 0: go on. 1: it was cut short. Any
# status of its own ends the script.
judge() {
	if [ "$status" -eq 0 ] && [ -e "$2" ]; then
		return 0
	elif [ "$status" -eq 0 ] || [ "$status" -eq 75 ]; then
		cut=$1
		return 1
	fi
	give_up "$status" "$1 failed with status $status"
}

# ---- the parts of a life ----

# Where the code of the run is: NIGHTSHIFT_CODE, the submit directory where that is a git work tree (people work in directories full
# of data, too), else this kit: its source, or scripts and presets where it is installed.
code_directory() {
	if [ -n "${NIGHTSHIFT_CODE:-}" ]; then
		printf '%s' "$NIGHTSHIFT_CODE"
	elif git -C "$submitted" rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		printf '%s' "$submitted"
	elif [ -e "$home/Makefile" ]; then
		printf '%s' "$home"
	else
		printf '%s' "$home/slurm"
	fi
}

# The configuration, and the state of the code. Words on the command line count in the first life only.
life_prepare() {
	status=0
	if [ ! -e "$run/config.cfg" ] || { [ "$restart" -eq 0 ] && [ ${#words[@]} -gt 0 ]; }; then
		"$(tool mkconfig)" "$run" task="$task" ${words[@]+"${words[@]}"} || status=$?
		judge mkconfig "$run/config.cfg" || return 0
	fi
	status=0
	"$(tool snapshot-code)" "$run" "$(code_directory)" || status=$?
	judge snapshot-code "$run/code.manifest" || return 0
}

life_stage() {
	[ -z "$cut" ] || return 0
	[ -e "$run/config.cfg" ] || give_up 66 "$run: no such run; make one with mkconfig"
	rm -f "$run/staged/$host.tsv"
	run_step nodes stage-data "$run" >/dev/null
	judge stage-data "$run/staged/$host.tsv" || return 0
}

# $notice is the N of the script's --signal=USR2@N.
life_train() {
	[ -z "$cut" ] || return 0
	run_is_done && return 0
	run_step all train-step-loop --notice "$notice" "$run"
}

# ---- what the files say ----

current_shift() {
	local number
	number=$(cat "$run/shifts/current" 2>/dev/null)
	[[ $number =~ ^[0-9]+$ ]] || number=0
	printf '%s' "$number"
}

# "JOB RESTART" of a claim.
claim_of() { awk '$1 == "job" { job = $2 } $1 == "restart" { restart = $2 } END { print job, restart }' "$run/shifts/$1" 2>/dev/null; }

# A value of the file that the trainer leaves at the end.
done_field() { awk -v key="$1" '$1 == key { print $2 }' "$run/done" 2>/dev/null; }

run_is_done() {
	local field=step reached wanted
	wanted=$(config train.epochs)
	if [ "${wanted:-0}" -gt 0 ]; then
		field=epoch
	else
		wanted=$(config train.steps)
	fi
	reached=$(done_field "$field")
	[ -n "$reached" ] && [ -n "$wanted" ] && [ "$reached" -ge "$wanted" ]
}

# What shifts.tsv knows of this life: sets shift (empty: none was claimed), end_status (empty: no end row) and end_reason.
read_life() {
	local found
	found=$(awk -F'\t' -v job="$job" -v restart="$restart" '
		$4 != job || $5 != restart { next }
		$2 == "start" { number = $1; status = reason = "" }
		$2 == "end" { status = $9; reason = $10 }
		END { print number "\t" status "\t" reason }' "$run/shifts.tsv" 2>/dev/null)
	shift=${found%%$'\t'*}
	found=${found#*$'\t'}
	end_status=${found%%$'\t'*}
	end_reason=${found#*$'\t'}
	# A trainer killed right behind its claim has written no row.
	local current
	current=$(current_shift)
	[ -n "$shift" ] || [ "$(claim_of "$current")" != "$job $restart" ] || shift=$current
}

# Whether this life's shift has published a checkpoint. Where a run stands within a later phase of a step is part of one.
has_published() {
	[ -n "$shift" ] || return 1
	cat "$run"/checkpoints/step-*/train.cfg "$run"/checkpoints/step-*.phase 2>/dev/null |
		awk -v shift="$shift" '$1 == "shift" && $2 == "=" && $3 + 0 == shift { found = 1 } END { exit !found }'
}

# How many lives of this job before this one led nowhere, in a row. Lives that ended by a script carry its verdict in their row;
# the others (SLURM requeued them: preempted, or their node died) are judged by their rows. Those that are excused do not count.
fruitless_before() {
	awk -F'\t' -v job="$job" -v restart="$restart" -v short="$short_life" '
		function seconds(time,    part, y, m, days) { # of "2026-01-31T12:34:56Z"
			split(time, part, /[-T:Z]/)
			y = part[1]; m = part[2]
			if (m < 3) { y--; m += 12 }
			days = 365 * y + int(y / 4) - int(y / 100) + int(y / 400) + int((153 * (m - 3) + 2) / 5) + part[3]
			return ((days * 24 + part[4]) * 60 + part[5]) * 60 + part[6]
		}
		function verdict(life,    later) {
			if (said[life] != "") return said[life]
			if (!(life in start)) return "excused"
			for (later = life + 1; later <= last && !(later in start); later++);
			if (later <= last && step[later] + 0 > step[life] + 0) return "progress"
			if (!(life in ended)) return "excused"
			return (status[life] != 75 && !lost[life]) || ended[life] - start[life] > short ? "fruitless" : "excused"
		}
		$4 != job || $5 !~ /^[0-9]+$/ || $5 + 0 > restart + 0 { next }
		{ life = $5 + 0; if (life > last) last = life }
		$2 == "start" { start[life] = seconds($3); step[life] = $8 }
		$2 == "end" { ended[life] = seconds($3); status[life] = $9; lost[life] = $10 == "peer lost" }
		$2 == "requeue" { split($10, word, /[: ]/); said[life] = word[1] }
		END {
			for (life = 0; life < restart + 0; life++) {
				v = verdict(life)
				if (v == "progress") count = 0
				else if (v == "fruitless") count++
			}
			print count + 0
		}' "$run/shifts.tsv" 2>/dev/null || echo 0
}

# ---- what next ----

# What this life was: progress, excused or fruitless. An end by notice (75) or with the node is excused unless it came late.
life_verdict() {
	if has_published; then
		echo progress
	elif [ "$SECONDS" -le "$short_life" ] && { [ -n "$node_failure" ] || [ "$1" = 75 ]; }; then
		echo excused
	else
		echo fruitless
	fi
}

# A newer shift or life than this one means that this script belongs to a node that was given up.
refuse_zombie() {
	local current claim answer restarts state
	current=$(current_shift)
	claim=$(claim_of "$current")
	if [ "$current" -gt "${shift:-$current_before}" ] && [ "$claim" != "$job $restart" ]; then
		give_up 70 "zombie: shift $current (job ${claim% *}, restart ${claim#* }) has taken this run over"
	fi
	[ -n "$slurm" ] || return 0
	answer=$(scontrol show job --oneliner "$job" 2>/dev/null) || return 0
	[[ $answer =~ Restarts=([0-9]+) ]] && restarts=${BASH_REMATCH[1]} || restarts=0
	[[ $answer =~ JobState=([A-Z_]+) ]] && state=${BASH_REMATCH[1]} || state=''
	if [ "$restarts" -gt "$restart" ]; then
		give_up 70 "zombie: SLURM has given job $job a newer life (restart $restarts)"
	fi
	case $state in CANCELLED | DEADLINE) hold 75 "job $job is $state: not requeued" ;; esac
}

# Puts the job back into the queue; does not return. SLURM then ends this script.
requeue_job() {
	local try answer
	for try in 1 2 3 4 5 6 7 8 9 10; do
		if answer=$(scontrol requeue "$job" 2>&1); then
			exit 75
		fi
		case $answer in
		*"pending"*) # somebody else, SLURM itself at a preemption, was faster
			say "already requeued"
			exit 75
			;;
		*ontact*controller* | *"timed out"* | *transi*ional* | *"Connection refused"*)
			say "try $try: $answer"
			sleep "$((try * ${NIGHTSHIFT_PAUSE:-60} / 4))"
			;;
		*) break ;;
		esac
	done
	hold 75 "cannot be requeued ($answer): submit it again by hand"
}

# Starts the next life: STATUS REASON [VERDICT]. Not after the third fruitless one in a row.
next_life() {
	local verdict count
	verdict=${3:-$(life_verdict "$1")}
	if [ "$verdict" = fruitless ]; then
		count=$(($(fruitless_before) + 1))
		[ "$count" -lt "$fruitless_limit" ] ||
			give_up 70 "fruitless life $count in a row, without a checkpoint ($2): see the messages above, then start it by hand"
	fi
	refuse_zombie
	# After a 75 the time limit is near: no pause.
	if [ "$verdict" != progress ] && [ "$1" != 75 ] && [ "${NIGHTSHIFT_PAUSE:-60}" -gt 0 ]; then
		say "${2/#no end row/the trainer was killed: no end row}; the next life begins in ${NIGHTSHIFT_PAUSE:-60} s"
		sleep "${NIGHTSHIFT_PAUSE:-60}"
		refuse_zombie
	fi
	write_row requeue "$1" "$verdict: $2"
	say "requeue ($verdict: $2)"
	[ -z "$slurm" ] || requeue_job
	restart=$((restart + 1))
	export NIGHTSHIFT_RESTART=$restart
	life_start
}

# Whether each data group is scored, with the weights that the run ended with and not with earlier ones.
is_scored() {
	local group
	for group in $(test_groups); do
		grep -q "^# $group: .*digest ${1:-[0-9a-f]*} " "$run/eval/$group.tsv" 2>/dev/null || return 1
	done
}

# A page to look at; that it cannot be made hurts nobody.
show_report() {
	local page
	if page=$("$(tool report)" "$run" 2>/dev/null); then say "to look at: $page"; fi
}

# Scores the run, once it is done. Exits unless it was cut short.
life_evaluate() {
	local step=() digest
	[ "${NIGHTSHIFT_EVALUATE:-yes}" != no ] || exit 0
	[ -n "$(test_groups)" ] || {
		say "done; the configuration has no data.test to evaluate"
		show_report
		exit 0
	}
	digest=$(done_field digest)
	[ -z "$digest" ] || step=(--step "$(done_field step)") # a zombie may have published a later one
	run_step one eval --summary ${step[@]+"${step[@]}"} "$run"
	case $status in
	0) ! is_scored "$digest" || { show_report; exit 0; } ;;
	75) ;;
	*) give_up "$status" "eval failed with status $status" ;;
	esac
	if [ "$status" -eq 75 ] || [ -n "$node_failure" ]; then
		next_life 75 "eval was cut short" excused
	else
		next_life - "eval ended with 0, but $run/eval does not hold its scores" fruitless
	fi
}

# What the script of the whole run does next.
life_decide() {
	read_life
	if [ -n "$cut" ]; then
		[ "$status" -ne 0 ] || status=-
		next_life "$status" "$cut was cut short${node_failure:+ by a dead node}" "$(run_is_done && echo excused)"
		return
	fi
	if run_is_done; then
		life_evaluate
		return
	fi
	case $end_status in
	75)
		case $end_reason in
		stopped*) hold 75 "stopped: $run/stop was made" ;;
		interrupted*) hold 75 "interrupted; start it again to go on" ;;
		esac
		next_life 75 "$end_reason"
		;;
	64 | 65 | 66 | 69 | 70 | 73 | 74 | 77 | 78)
		give_up "$end_status" "the trainer ended with $end_status: $end_reason"
		;;
	'')
		next_life - "no end row${node_failure:+, dead node}"
		;;
	*)
		# Ranks that lost one another: most likely with its node.
		[ "$end_reason" != "peer lost" ] || node_failure=yes
		next_life "$end_status" "the trainer ended with $end_status: $end_reason"
		;;
	esac
}

# The same for the scripts that stage or score alone.
life_decide_stage() {
	[ -n "$cut" ] || exit 0
	next_part
}

life_decide_eval() {
	[ -n "$cut" ] || life_evaluate
	[ -z "$cut" ] || next_part
}

next_part() {
	read_life
	[ "$status" -ne 0 ] || status=-
	next_life "$status" "$cut was cut short${node_failure:+ by a dead node}"
}
