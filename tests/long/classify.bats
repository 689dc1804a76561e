#!/usr/bin/env bats
# The classifier of the demo learns: at least nine of ten held-out clips, of ten classes that only time tells apart.

load ../helper

setup() {
	enter_scratch
}

@test "the demo's classifier is right about 90 % of the held-out clips, and a run in shifts has its bits" {
	export NIGHTSHIFT_DEMO_DATA=$PWD/clips
	make-scenes clips -n 1200 --seed 1 clips
	mkconfig one classify-demo
	train-step-loop one 2>log
	rows=$("$ROOT/bin/eval" one 2>>log)
	[ "$(grep -vc '^#' <<<"$rows")" -eq 240 ]
	top1=$(column top1 /dev/stdin <<<"$rows" | awk '{ sum += $1 } END { print sum / NR }')
	echo "top-1 $top1"
	awk -v top1="$top1" 'BEGIN { exit !(top1 >= 0.9) }'
	# the same, stopped in the middle of one and killed in another
	mkconfig two classify-demo
	train-step-loop two 2>>log &
	until [ "$(tail -n 1 two/log/time.tsv 2>/dev/null | cut -f1)" -ge 20 ] 2>/dev/null; do sleep 0.1; done
	kill -USR2 $!
	wait $! || [ $? = 75 ]
	train-step-loop two 2>>log &
	until [ "$(tail -n 1 two/log/time.tsv | cut -f1)" -ge 60 ]; do sleep 0.1; done
	kill -9 $!
	wait $! || [ $? = 137 ]
	train-step-loop two 2>>log
	same_files one two log/step.tsv log/epoch.tsv log/val.tsv pictures checkpoints/best
	diff <(grep -E '^(step|digest)' one/done) <(grep -E '^(step|digest)' two/done)
}
