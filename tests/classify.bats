#!/usr/bin/env bats
# Classification of videos from the user's side: training, resume, ranks, prediction, evaluation.
# seconds: 40

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	tiny_clips CLIPS
	export CLIPS=$PWD/CLIPS RUN=$PWD/run
	tiny_classify run
	train-step-loop run 2>run.log
}

setup() {
	enter_scratch
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
}

new_run() { # RUN [key=value ...]
	mkconfig "$1" classify-tiny data.train.clips.path="$CLIPS" "${@:2}"
}

# A run long enough to be cut: 60 steps, epochs of 2.5 steps.
long_run() { # RUN [STEPS]
	new_run "$1" "train.steps=${2:-60}" validate.every=20 picture.every=30 checkpoint.every=15 checkpoint.keep_every=30
}

same_run() { # A B STEP
	same_files "$1" "$2" log/step.tsv log/epoch.tsv log/val.tsv pictures "checkpoints/step-000000$3/model" \
		"checkpoints/step-000000$3/optimizer" checkpoints/best
	diff <(grep -E '^(step|digest)' "$1/done") <(grep -E '^(step|digest)' "$2/done")
}

@test "training writes batch and epoch records with the accuracy, validation of clips and videos, and pictures" {
	[ "$(head -n 1 "$RUN/log/step.tsv")" = $'#step\tepoch\tsamples\tloss\tgrad_norm\tlr\taccuracy' ]
	[ "$(head -n 1 "$RUN/log/epoch.tsv")" = $'#epoch\tstep\tsamples\tloss\tlr\taccuracy' ]
	# accuracy is a count over the 8 samples of a step
	awk -F'\t' '!/^#/ && ($7 * 8 != int($7 * 8) || $7 < 0 || $7 > 1) { exit 1 }' "$RUN/log/step.tsv"
	# epochs end after 2.5 steps: the 3rd, 5th, 8th, 10th
	[ "$(awk -F'\t' '!/^#/ { print $2 }' "$RUN/log/epoch.tsv" | tr '\n' ' ')" = '3 5 8 10 ' ]
	# 0.1 of the rate from the fourth epoch on, and no earlier
	[ "$(awk -F'\t' '$1 == 10 || $1 == 11 { print $6 }' "$RUN/log/step.tsv" | tr '\n' ' ')" = '0.05 0.005000000000000001 ' ]
	[ "$(awk -F'\t' '$1 == 12 { print $3 }' "$RUN/log/val.tsv" | tr '\n' ' ')" = 'loss clip_top1 top1 top5 ' ]
	[ "$(awk -F'\t' '$1 == 12 { print $5 }' "$RUN/log/val.tsv" | sort -u)" = 20 ]
	[ -s "$RUN/pictures/step-00000012/clips-val-00000.png" ]
	[ "$(cat "$RUN/checkpoints/step-00000012/model/labels.txt" | wc -l)" -eq 10 ]
	grep -q '"arch": "resnet-10"' "$RUN/checkpoints/step-00000012/model/config.json"
}

@test "ten steps, and what is seen after them, are PyTorch's on the same frames" {
	new_run ten batch.size=20 batch.micro=20 train.steps=10 clip.crop=center clip.time_crop=center optimizer.nesterov=true \
		schedule.name=constant validate.every=0 picture.every=0 checkpoint.every=10
	train-step-loop ten 2>log
	"$ROOT/bin/eval" ten >rows 2>>log
	# PyTorch's own distance between single and double precision says how near is near
	awk -F'\t' '
		function off(what, mine, single, double, least,    d, allowed) {
			d = mine - double; if (d < 0) d = -d
			allowed = single - double; if (allowed < 0) allowed = -allowed
			if (allowed < least) allowed = least
			if (d > 4 * allowed) { print what ": " mine " where " double " was expected"; bad = 1 }
		}
		FILENAME ~ /classify.tsv$/ { value[$2] = $3; accuracy[$2] = $4; exact[$2] = $5; next }
		/^#/ { next }
		FILENAME ~ /step.tsv$/ { steps++; off("step " $1, $4, value[$1], exact[$1], 1e-6)
			if ($7 != accuracy[$1] + 0) { print "accuracy of step " $1 ": " $7; bad = 1 } next }
		{ videos++; off($2, exp(-$3), value[$2], exact[$2], 1e-6) }
		END { exit bad || steps != 10 || videos != 20 }' "$ROOT/tests/golden/classify.tsv" ten/log/step.tsv rows
}

@test "stopped in the middle of an epoch and resumed, anywhere: the bits of one shift" {
	long_run one
	train-step-loop one 2>log
	long_run two
	for count in 40 90 150; do
		with_fault "write:$count:KILL" train-step-loop two 2>>log && break
	done
	train-step-loop two 2>>log &
	sleep 0.3
	kill -USR2 $! 2>/dev/null || true
	wait $! || [ $? = 75 ] || [ $? = 137 ]
	train_to_end two
	[ "$(grep -c $'\tstart\t' two/shifts.tsv)" -ge 3 ]
	same_run one two 60
}

@test "two ranks, and one that goes on from them: the bits of one process" {
	command -v mpirun >/dev/null && [ -e "$ROOT/build/nightshift-mpi.so" ] || skip "no MPI"
	long_run one
	train-step-loop one 2>log
	long_run two
	timeout -k 5 60 mpirun --oversubscribe --bind-to none --mca btl self,vader -np 2 train-step-loop two 2>>log 3>&- 4>&-
	same_run one two 60
	long_run three 30
	timeout -k 5 60 mpirun --oversubscribe --bind-to none --mca btl self,vader -np 2 train-step-loop three 2>>log 3>&- 4>&-
	mkconfig three train.steps=60
	train-step-loop three 2>>log
	same_run one three 60
}

@test "batch norm over two ranks is that of one process with the whole batch" {
	command -v mpirun >/dev/null && [ -e "$ROOT/build/nightshift-mpi.so" ] || skip "no MPI"
	words=(batch.size=20 clip.crop=center clip.time_crop=center validate.every=0 picture.every=0 train.steps=5)
	new_run one "${words[@]}" batch.micro=20
	train-step-loop one 2>log
	new_run two "${words[@]}" batch.micro=10 batch.norm=step
	timeout -k 5 60 mpirun --oversubscribe --bind-to none --mca btl self,vader -np 2 train-step-loop two 2>>log 3>&- 4>&-
	paste <(column loss one/log/step.tsv) <(column loss two/log/step.tsv) |
		awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) { print; bad = 1 } } END { exit bad || NR != 5 }'
}

@test "data threads change nothing" {
	for threads in 0 3; do
		new_run "threads-$threads" data.threads=$threads
		train-step-loop "threads-$threads" 2>>log
		same_run "$RUN" "threads-$threads" 12
	done
}

@test "a short last batch, one dropped, one carried on" {
	new_run short batch.size=8 batch.micro=8 batch.rest=short train.epochs=2 checkpoint.every=3
	train-step-loop short 2>log
	[ "$(awk -F'\t' '!/^#/ { print $3 }' short/log/step.tsv | tr '\n' ' ')" = '8 16 20 28 36 40 ' ]
	new_run drop batch.size=8 batch.micro=8 batch.rest=drop train.epochs=2
	train-step-loop drop 2>log
	[ "$(awk -F'\t' '!/^#/ { print $3 }' drop/log/step.tsv | tr '\n' ' ')" = '8 16 24 32 ' ]
}

@test "predict: probabilities of windows, the original's JSON, a table; ranks share the work" {
	cp -R "$RUN" run
	run_tool 0 predict run
	[ "$(ls run/predictions/clips-val/*.npy | wc -l)" -eq 20 ]
	python=$(command -v python3)
	cp -R run/predictions/clips-val one
	"$python" - <<-'END'
		import json
		text = open('one/results.json').read()
		results = json.loads(text)
		assert json.dumps(results) == text, 'not as json.dumps writes it'
		assert len(results['results']) == 20
		rows = [line.rstrip('\n').split('\t') for line in open('one/results.tsv')]
		assert rows[0] == ['#video', 'begin', 'end', 'rank', 'label', 'score']
		flat = [(v, e['label'], e['score']) for v, l in results['results'].items() for e in l]
		assert [(r[0], r[4], float(r[5])) for r in rows[1:]] == flat
		assert all(len(l) == 5 for l in results['results'].values())
	END
	rm -r run/predictions
	if command -v mpirun >/dev/null && [ -e "$ROOT/build/nightshift-mpi.so" ]; then
		timeout -k 5 60 mpirun --oversubscribe --bind-to none --mca btl self,vader -np 3 predict run 2>log 3>&- 4>&-
		diff -r one run/predictions/clips-val
	fi
	mkconfig run predict.average=false predict.topk=2
	run_tool 0 predict run
	grep -q '"segment": \[1, 9\], "result"' run/predictions/clips-val/results.json
	# 12 frames, windows of 8 every 4: two a video, two classes each
	[ "$(sed 1d run/predictions/clips-val/results.tsv | wc -l)" -eq 80 ]
	diff one/clip-00010.npy run/predictions/clips-val/clip-00010.npy
}

@test "predict --video: the best classes of videos that no configuration names" {
	run_tool 0 predict --video --top 3 "$RUN" "$CLIPS/growing/clip-00006" "$CLIPS/vanishing/clip-00009"
	[ "${#lines[@]}" -eq 7 ]
	[[ ${lines[1]} == "$CLIPS/growing/clip-00006"$'\t1\t13\t1\t'* ]]
	run_tool 64 predict --video "$RUN"
	run_tool 64 predict --top 3 "$RUN"
	run_tool 66 predict --video "$RUN" nowhere
	[[ $stderr == *nowhere* ]]
}

@test "video files: trained on, predicted in one command, refused when cut in half" {
	films=$ROOT/../shared/data/video
	[ -d "$films" ] || skip "no $films"
	mkdir -p films/bird films/space
	cp "$films/cockatoo.mp4" films/bird
	cp "$films/nasa_13013.mp4" films/space
	words=('data.train=()' 'data.val=()' 'data.vis=()' 'data.test=()' data.train.films.path="$PWD/films" data.train.films.layout=video
		data.test.films.path="$PWD/films" data.test.films.layout=video batch.size=2 batch.micro=2 train.steps=3 predict.stride=64)
	mkconfig run classify-tiny "${words[@]}"
	train-step-loop run 2>log || { grep -q nightshift-film.so log && skip "no FFmpeg libraries"; cat log; return 1; }
	run_tool 0 "$ROOT/bin/eval" run
	[ "$(grep -v '^#' <<<"$output" | cut -f2,8)" = $'bird/cockatoo\tbird\nspace/nasa_13013\tspace' ]
	run_tool 0 predict --video --top 1 run films/bird/cockatoo.mp4
	[ "$(cut -f1-4 <<<"${lines[1]}")" = $'films/bird/cockatoo.mp4\t1\t281\t1' ]
	head -c 300000 films/bird/cockatoo.mp4 >half.mp4
	run_tool 65 predict --video run half.mp4
	one_error 'half.mp4: the file ends early'
}

@test "eval: rows, summary, confusion agree" {
	cp -R "$RUN" run
	run_tool 0 "$ROOT/bin/eval" run
	rows=$output
	[ "${lines[0]}" = $'#dataset\tsample\terror\ttop1\ttop5\tclip_top1\trank\tlabel\tpredicted' ]
	[ "$(grep -vc '^#' <<<"$rows")" -eq 20 ]
	top1=$(awk -F'\t' '!/^#/ { s += $4; n++ } END { printf "%.15g", s / n }' <<<"$rows")
	right=$(awk -F'\t' '!/^#/ && $8 == $9 { n++ } END { print n + 0 }' <<<"$rows")
	run_tool 0 "$ROOT/bin/eval" --summary run
	[ "${lines[0]}" = $'#dataset\tn\tnan\terror\ttop1\ttop5\tclip_top1\trank\tmean_class_top1' ]
	[ "$(cut -f5 <<<"${lines[2]}")" = "$top1" ]
	run_tool 0 "$ROOT/bin/eval" --confusion run
	[ "$(awk -F'\t' '!/^#/ { n += $4 } END { print n }' <<<"$output")" -eq 20 ]
	[ "$(awk -F'\t' '!/^#/ && $2 == $3 { n += $4 } END { print n + 0 }' <<<"$output")" -eq "$right" ]
	# the same by the files, in the original's form
	run_tool 0 "$ROOT/bin/eval" --task classify --truth "$CLIPS/annotation.json" --prediction run/predictions/clips-val/results.json --subset val --summary
	[ "$(cut -f5 <<<"${lines[2]}")" = "$top1" ]
}

@test "eval of the original's files: its accuracies" {
	cat >truth.json <<-'END'
		{"labels": ["a", "b", "c"], "database": {
		 "v1": {"subset": "validation", "annotations": {"label": "c", "segment": [1, 17]}},
		 "v2": {"subset": "validation", "annotations": {"label": "b", "segment": [1, 17]}},
		 "v3": {"subset": "validation", "annotations": {"label": "a", "segment": [1, 17]}},
		 "v4": {"subset": "training", "annotations": {"label": "a", "segment": [1, 17]}}}}
	END
	echo '{"results": {"v1": [{"label": "c", "score": 0.9}, {"label": "a", "score": 0.1}], "v2": [{"label": "a", "score": 0.4}, {"label": "b", "score": 0.4}]}}' >result.json
	score() { "$ROOT/bin/eval" --task classify --truth truth.json --prediction result.json "$@"; }
	[ "$(score --summary 2>log | tail -n 1 | cut -f2,5)" = $'3\t0.3333333333333333' ]
	grep -q '1 videos of validation have no result' log
	[ "$(score --summary --ignore 2>log | tail -n 1 | cut -f2,5)" = $'2\t0.5' ]
	# top-2: rank below 2
	[ "$(score 2>log | awk -F'\t' '!/^#/ { n += $7 < 2 } END { print n }')" -eq 2 ]
	[ "$(score 2>log | awk -F'\t' '$2 == "v2" { print $7, $8, $9 }')" = '1 b a' ]
	run_tool 65 score --subset testing
	run_tool 64 score --subset nonsense
	echo '{"results": {"v1": [{"label": "d", "score": 1}]}}' >result.json
	run_tool 65 score
	[[ $stderr == *'result.json: v1: the label "d" is not among the labels'* ]]
	echo '{"results": {"v1": []}}' >result.json
	run_tool 65 score
}

@test "who watches is told the validation loss and the accuracy that chooses the best weights" {
	new_run watched train.steps=2 validate.every=2
	train-step-loop watched 2>log
	mean() { awk -F'\t' -v m="$1" '$1 == 2 && $3 == m { printf "%.4f", $4 }' watched/log/val.tsv; }
	grep -qE "step 2: [a-z-]+ loss $(mean loss), top1 $(mean top1) \([0-9]+ samples\)\$" log
}

@test "labels and class counts that do not fit are refused, clearly" {
	new_run few model.n_classes=7
	run_tool 78 train-step-loop few
	[[ $stderr == *'model.n_classes = 7, but the data has 10 labels'* ]]
	new_run many model.n_classes=400
	run_tool 0 train-step-loop --dry-run many
	[[ $stderr == *'model.n_classes = 400, but the data has 10 labels; 0 means as many as there are'* ]]
	new_run depth model.depth=19
	run_tool 78 train-step-loop --dry-run depth
	[[ $stderr == *model.depth* ]]
	sed 's/"labels": \["moving-right", /"labels": [/' "$CLIPS/annotation.json" >other.json
	new_run other data.train.clips.annotation="$PWD/other.json"
	run_tool 65 train-step-loop other
	[[ $stderr == *moving-right* ]]
}

@test "a network that does not fit its clips or its batch is a bad configuration" {
	new_run one batch.size=1 batch.micro=1
	run_tool 78 train-step-loop one
	one_error 'batch norm of one value a channel'
	new_run dense model.name=densenet model.depth=121
	run_tool 78 train-step-loop dense
	one_error 'larger than the padded input'
}

@test "annotations that do not fit are refused, with file and entry" {
	refused() { # STATUS PATTERN [key=value ...]
		local status=$1 pattern=$2
		rm -rf run
		new_run run "${@:3}"
		run_tool "$status" train-step-loop run
		one_error "$pattern"
	}
	refused 65 'annotation.json has no videos with frames in the subset testing' data.train.clips.subset=testing
	sed 's/"label": "growing"/"label": "groing"/' "$CLIPS/annotation.json" >class.json
	refused 65 'class.json: entry "clip-00006": the label "groing" is not among the labels' data.train.clips.annotation="$PWD/class.json"
	sed 's/\[1, 13\]/[1, 40]/g' "$CLIPS/annotation.json" >long.json
	refused 65 'frame 13 is missing' data.train.clips.annotation="$PWD/long.json"
	head -c 1000 "$CLIPS/annotation.json" >cut.json
	refused 65 'cut.json:1: no JSON' data.train.clips.annotation="$PWD/cut.json"
	refused 66 'nowhere.json' data.train.clips.annotation="$PWD/nowhere.json"
	# a video shorter than a clip is repeated
	new_run short clip.duration=32 train.steps=2 validate.every=0 picture.every=0 checkpoint.every=0
	run_tool 0 train-step-loop short
}

@test "a bad clip stops a run, or is skipped and counted where the run says so" {
	cp -R "$CLIPS" clips
	head -c 100 clips/growing/clip-00006/image_00005.png >short.png
	mv short.png clips/growing/clip-00006/image_00005.png
	mkconfig bad classify-tiny data.train.clips.path="$PWD/clips" train.steps=20
	run_tool 65 train-step-loop bad
	[[ $stderr == *clip-00006*image_00005.png* ]]
	mkconfig bad data.skip=true
	run_tool 0 train-step-loop bad
	[[ $stderr == *'another sample takes its place'* ]]
	rm clips/growing/clip-00006/image_00005.png
	mkconfig gone classify-tiny data.train.clips.path="$PWD/clips" train.steps=20
	run_tool 65 train-step-loop gone
	mkconfig near classify-tiny data.train.clips.path="$PWD/clips" train.steps=20 data.missing=nearest
	run_tool 0 train-step-loop near
	[[ $stderr == *' times a frame was missing and the nearest one was taken'* ]]
	rm -r clips/growing/clip-00006
	mkconfig none classify-tiny data.train.clips.path="$PWD/clips"
	run_tool 66 train-step-loop none
	[[ $stderr == *clip-00006* ]]
}

@test "videos without frames are left out, and that is said once" {
	cp -R "$CLIPS" some
	class=$(jq -r '.database["clip-00003"].annotations.label' some/annotation.json)
	rm -r "some/$class/clip-00003"
	jq 'del(.database["clip-00003"].annotations.segment)' "$CLIPS/annotation.json" >some/annotation.json
	mkconfig short classify-tiny train.steps=1 data.train.clips.path="$PWD/some"
	train-step-loop short 2>log
	[ "$(grep -c 'dataset clips: 1 of [0-9]* videos have no frames or are not there and are left out' log)" -eq 1 ]
	never grep -q 'left out' "$BATS_FILE_TMPDIR/run.log"
}

@test "weights of one run start another with other labels: the last layer is new" {
	new_run tuned init.weights="$RUN" init.ignore='fc.*' model.n_classes=12 train.from=layer4 train.steps=4
	train-step-loop tuned 2>log
	grep -q 'starting from the weights' log
	# new also where it would fit
	new_run fits init.weights="$RUN" init.ignore='fc.*' train.steps=1 optimizer.lr=0
	train-step-loop fits
	convert-weights --list "$RUN" | grep -E '^(conv1|fc)' >before
	convert-weights --list fits | grep -E '^(conv1|fc)' >after
	[ "$(diff before after | grep -c '^> fc')" -eq 2 ]
	[ "$(diff before after | grep -c '^>')" -eq 2 ]
	# a run that was never trained predicts with the weights it would start from
	new_run same init.weights="$RUN"
	run_tool 0 "$ROOT/bin/eval" --summary same
	summary=$(tail -n 1 <<<"$output")
	run_tool 0 "$ROOT/bin/eval" --summary "$RUN"
	[ "$(tail -n 1 <<<"$output")" = "$summary" ]
}
