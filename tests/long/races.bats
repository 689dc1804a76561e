# Data races, found by the thread sanitizer: loader, saver, messages and the shift's own thread.
# seconds: 300

load ../helper

setup_file() {
	make -s -C "$ROOT" SAN=thread CFLAGS=-O1 build-thread/bin/train-step-loop build-thread/bin/eval build-thread/bin/stage-data
}

setup() {
	enter_scratch
	make-scenes depth -n 6 --seed 1 --size 32x48 rooms
	export TSAN_OPTIONS=halt_on_error=1:exitcode=99
}

sanitized() {
	"$ROOT/build-thread/bin/$1" "${@:2}"
}

@test "training with bad samples, saves, validation, pictures; a notice in the middle" {
	truncate -s 100 rooms/rgb/00002.png
	for round in 1 2 3 4 5 6; do
		mkconfig "run$round" depth-tiny data.train.rooms.path=rooms train.steps=24 checkpoint.every=3 checkpoint.keep_every=8 \
			validate.every=10 picture.every=12 data.threads=3 cpu.threads=2 data.skip=true
		"$ROOT/build-thread/bin/train-step-loop" "run$round" 2>log &
		until [ "$(wc -l <"run$round/log/time.tsv")" -gt 8 ] || ! kill -0 $!; do sleep 0.02; done 2>/dev/null
		kill -USR2 $! 2>/dev/null || true
		status=0
		wait $! || status=$?
		[ "$status" = 0 ] || [ "$status" = 75 ] || { cat log; return 1; }
		run_tool 0 sanitized train-step-loop "run$round"
	done
}

@test "staging and scoring by many threads" {
	run_tool 0 sanitized stage-data --jobs 8 --to . rooms
	run_tool 0 sanitized eval --task depth --layout plain --truth rooms --constant
}
