# eval: predictions that others made, and those of a run.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	tiny_data DIR 6
	tiny_run RUN train.steps=4
	train-step-loop RUN
	eval_program RUN >rows
}

setup() {
	enter_scratch
}

# The name is a word of the shell.
eval_program() {
	"$ROOT/bin/eval" "$@"
}

score() {
	eval_program --task depth "$@"
}

# A copy of the run; the data stays where it is.
copy_run() {
	cp -R "$BATS_FILE_TMPDIR/RUN" .
}

# npy FILE SHAPE NUMBER ...: float32, of these numbers.
npy() {
	local file=$1 header="{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }" number
	shift 2
	mkdir -p "$(dirname "$file")"
	printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" >"$file"
	for number; do
		case $number in
		0.25) printf '\0\0\x80\x3e' ;;
		0.5) printf '\0\0\0\x3f' ;;
		1) printf '\0\0\x80\x3f' ;;
		2) printf '\0\0\0\x40' ;;
		3) printf '\0\0\x40\x40' ;;
		4) printf '\0\0\x80\x40' ;;
		nan) printf '\0\0\xc0\x7f' ;;
		*) return 1 ;;
		esac
	done >>"$file"
}

# pgm FILE WIDTH HEIGHT MILLIMETRES ...: 16-bit depth.
pgm() {
	local file=$1 number
	mkdir -p "$(dirname "$file")"
	printf 'P5\n%d %d\n65535\n' "$2" "$3" >"$file"
	shift 3
	for number; do
		printf "\\x$(printf %02x $((number / 256)))\\x$(printf %02x $((number % 256)))"
	done >>"$file"
}

# Two samples of 2x2 pixels, predicted exactly up to scale and shift.
small_set() {
	pgm set/depth_a.pgm 2 2 1000 2000 3000 4000
	pgm set/depth_b.pgm 2 2 1000 0 2000 3000
	touch set/rgb_a.png set/rgb_b.png
	npy out/rgb_a.npy '2, 2' 1 2 3 4
	npy out/rgb_b.npy '2, 2' 1 2 2 4
}

@test "metres are compared as they are" {
	small_set
	run_tool 0 score --layout plain --truth set --prediction out --align none
	[ "${lines[0]}" = "$(printf '#dataset\tsample\tabs_relative_difference\tsquared_relative_difference\trmse_linear\trmse_log\tlog10\tdelta1_acc\tdelta2_acc\tdelta3_acc\ti_rmse\tsilog_rmse')" ]
	[ "${lines[1]}" = "# set: align none, range 0.001 to 80 m, crop none" ]
	[ "${lines[2]}" = "$(printf 'set\trgb_a.png\t0\t0\t0\t0\t0\t1\t1\t1\t0\t0')" ]
	# Three valid pixels; 4 m for 3 m is the only error.
	[[ "${lines[3]}" == "$(printf 'set\trgb_b.png\t0.111111111111111')"* ]]
	[ "$(cut -f 8 <<<"${lines[3]}")" = 0.6666666666666666 ]
	[ ${#lines[@]} -eq 4 ]
}

@test "least squares take scale and shift away, disparity that of 1/depth" {
	small_set
	npy out/rgb_a.npy '2, 2' 0.5 1 nan 2
	pgm set/depth_a.pgm 2 2 1000 2000 0 4000
	run_tool 0 score --layout plain --truth set --prediction out --summary
	[ "$(cut -f 1-3 <<<"${lines[2]}")" = "$(printf 'set\t2\t0')" ]
	score --layout plain --truth set --prediction out >rows
	[ "$(column abs_relative_difference rows | head -n 1)" = 0 ]
	npy out/rgb_a.npy '2, 2' 1 0.5 1 0.25
	score --layout plain --truth set --prediction out --align disparity >rows
	[ "$(column delta1_acc rows | head -n 1)" = 1 ]
	awk -F'\t' '/rgb_a/ { exit !($3 < 1e-6) }' rows
}

@test "rows stand in the order of the list, summaries count samples without truth" {
	small_set
	pgm set/depth_c.pgm 2 2 0 0 0 0
	npy out/rgb_c.npy '2, 2' 1 2 3 4
	printf 'rgb_b.png depth_b.pgm\nrgb_c.png depth_c.pgm\nrgb_a.png depth_a.pgm\n' >list
	run_tool 0 score --layout plain --truth set --prediction out --list list
	[ "$(grep -v '^#' <<<"$output" | cut -f 2 | tr '\n' ' ')" = "rgb_b.png rgb_c.png rgb_a.png " ]
	[ "$(cut -f 3- <<<"${lines[3]}")" = "$(printf 'nan\tnan\tnan\tnan\tnan\tnan\tnan\tnan\tnan\tnan')" ]
	one_error 'warning: set/rgb_c.png: no valid depth to compare with; its row is nan'
	run_tool 0 score --layout plain --truth set --prediction out --list list --summary
	[ "$(cut -f 1-3 <<<"${lines[2]}")" = "$(printf 'set\t3\t1')" ]
	[[ $(cut -f 4 <<<"${lines[2]}") != nan ]]
}

@test "predictions are found under the original's names and as 16-bit PNG" {
	make-scenes depth -n 1 --size 24x32 rooms
	mkdir -p out/rgb
	cp rooms/depth/00000.png out/rgb/00000.png
	run_tool 0 score --layout plain --truth rooms --prediction out
	[[ $(cut -f 3 <<<"${lines[2]}") == *e-* ]]
	small_set
	mv out/rgb_a.npy out/pred_a.npy
	mv out/rgb_b.npy out/pred_b.npy
	run_tool 0 score --layout nyu --truth set --prediction out
	run_tool 66 score --layout plain --truth set --prediction out
	one_error '2 of 2 predictions are missing, the first is that of rgb_a.png' 'rgb_a and pred_rgb_a in out'
}

@test "the range of the layout, and one of one's own" {
	small_set
	score --layout plain --truth set --prediction out --align none --max 2.5 --min 1.5 >rows
	grep -x '# set: align none, range 1.5 to 2.5 m, crop none' rows
	[ "$(column delta1_acc rows | head -n 1)" = 1 ]
	score --layout plain --truth set --prediction out --scale 500 --align none >rows
	[ "$(column abs_relative_difference rows | head -n 1)" = 0.5 ]
}

@test "bad truth and bad predictions: one line that names the file, 65" {
	small_set
	head -c 20 set/depth_b.pgm >cut
	mv cut set/depth_b.pgm
	run_tool 65 score --layout plain --truth set --prediction out
	one_error 'set/depth_b.pgm'
	[ -z "$output" ]
	small_set
	head -c 130 out/rgb_b.npy >cut
	mv cut out/rgb_b.npy
	run_tool 65 score --layout plain --truth set --prediction out
	one_error 'out/rgb_b.npy'
	npy out/rgb_b.npy '2, 1' 1 2
	run_tool 65 score --layout plain --truth set --prediction out
	one_error 'out/rgb_b.npy: 1x2 pixels where the truth has 2x2'
	npy out/rgb_b.npy '4,' 1 2 3 4
	run_tool 65 score --layout plain --truth set --prediction out
	one_error 'out/rgb_b.npy: the array is not \[height,width\]'
	npy out/rgb_b.npy '2, 2' 1 2 nan 4
	run_tool 65 score --layout plain --truth set --prediction out
	one_error 'out/rgb_b.npy: the prediction is not finite at a valid pixel'
	npy out/rgb_b.npy '2, 2' 1 nan 2 4
	run_tool 0 score --layout plain --truth set --prediction out
	rm set/depth_b.pgm
	npy set/depth_b.npy '2, 2' 1 2 3 nan
	run_tool 65 score --layout plain --truth set --prediction out
	one_error 'set/depth_b.npy: NaN at row 1, column 1'
	make-scenes depth -n 1 --size 24x32 rooms
	npy out/rgb/00000.npy '2, 2' 1 2 3 4
	head -c 300 rooms/depth/00000.png >cut
	mv cut rooms/depth/00000.png
	run_tool 65 score --layout plain --truth rooms --prediction out
	one_error 'rooms/depth/00000.png'
}

@test "bad lists and missing files: one line, 65 or 66" {
	small_set
	: >list
	run_tool 65 score --layout plain --truth set --prediction out --list list
	one_error 'list: the list has no samples'
	printf 'rgb_a.png depth_a.pgm\n\nrgb_b.png depth_b.pgm\n' >list
	run_tool 65 score --layout plain --truth set --prediction out --list list
	one_error 'list:2: blank line'
	echo 'rgb_a.png ../depth_a.pgm' >list
	run_tool 65 score --layout plain --truth set --prediction out --list list
	one_error 'list:1: the path ../depth_a.pgm leaves'
	echo 'rgb_a.png depth_z.pgm' >list
	run_tool 66 score --layout plain --truth set --prediction out --list list
	one_error 'set/depth_z.pgm'
	run_tool 66 score --layout plain --truth set --prediction out --list none
	one_error 'none'
	run_tool 66 score --layout plain --truth nowhere --prediction out
	one_error 'nowhere: no such directory'
	run_tool 66 score --layout plain --truth set --prediction nowhere
	one_error 'nowhere: no such directory of predictions'
	mkdir empty
	run_tool 65 score --layout plain --truth empty --prediction out
	one_error 'empty: holds no image that is named as in layout plain'
	tar -cf set.tar set
	run_tool 66 score --layout plain --truth set.tar --prediction out
	one_error 'set.tar: .*stage-data'
	rm set/depth_b.pgm
	run_tool 66 score --layout plain --truth set --prediction out
	one_error 'set: rgb_b.png has no depth'
}

@test "wrong command lines: 64, an unknown layout: 78" {
	small_set
	run_tool 78 score --layout hypersim --truth set --prediction out
	one_error 'unknown layout hypersim \(plain, nyu or kitti\)'
	run_tool 78 score --layout nyu --crop garg --truth set --prediction out
	one_error 'no crop garg'
	run_tool 65 score --layout nyu --crop eigen --truth set --prediction out
	one_error 'set/depth_a.pgm: the eigen crop of layout nyu is for 640x480 pixels, not 2x2'
	run_tool 78 score --layout plain --min 3 --max 2 --truth set --prediction out
	one_error 'range 3 to 2 m is empty'
	run_tool 64 score --layout plain --truth set
	one_error 'needs --layout, --truth and --prediction'
	run_tool 64 score --layout plain --truth set --prediction out --align best
	one_error '--align best: least-squares, disparity or none'
	run_tool 64 score --layout plain --truth set --prediction out --crop left
	one_error '--crop left'
	run_tool 64 score --layout plain --truth set --prediction out RUN
	one_error 'RUN: with --task no RUN is named'
	run_tool 64 eval_program --task colour --layout plain --truth set --prediction out
	one_error '--task colour'
	run_tool 64 eval_program --layout plain RUN
	one_error 'need --task'
}

@test "a full disk under stdout is an error" {
	small_set
	status=0
	score --layout plain --truth set --prediction out >/dev/full 2>message || status=$?
	[ "$status" -eq 74 ]
}

# ---- a run ----

@test "a run is predicted, scored, and the rows are kept" {
	copy_run
	cmp RUN/eval/rooms.tsv "$BATS_FILE_TMPDIR/rows"
	run_tool 0 eval_program RUN
	cmp RUN/eval/rooms.tsv <(printf '%s\n' "$output")
	[ -z "$stderr" ]
	[[ ${lines[1]} =~ ^#\ rooms:\ step\ 4\ digest\ [0-9a-f]{8}\ steps\ 1\ seed\ [0-9]+\ size\ native\ layout\ plain\ path\ .*/DIR\ list\ -\;\ align\ least-squares,\ range ]]
	[ "$(column sample RUN/eval/rooms.tsv | tr '\n' ' ')" = "rgb/00000.png rgb/00001.png rgb/00002.png rgb/00003.png rgb/00004.png rgb/00005.png " ]
	# The same predictions, as those of others.
	run_tool 0 score --layout plain --truth "$BATS_FILE_TMPDIR/DIR" --prediction RUN/predictions/rooms
	diff <(cut -f 2- RUN/eval/rooms.tsv | grep rgb/) <(grep '^DIR' <<<"$output" | cut -f 2-)
	run_tool 0 eval_program --summary RUN rooms
	[ "$(cut -f 1-3 <<<"${lines[2]}")" = "$(printf 'rooms\t6\t0')" ]
}

@test "predictions are made anew when weights or settings change, or one is missing" {
	copy_run
	rm RUN/predictions/rooms/rgb/00002.npy
	run_tool 65 eval_program --no-predict RUN
	one_error '1 predictions of rooms are missing, the first is that of rgb/00002.png' 'leave out --no-predict'
	run_tool 0 eval_program RUN
	cmp RUN/eval/rooms.tsv "$BATS_FILE_TMPDIR/rows"
	mkconfig RUN predict.steps=2
	run_tool 65 eval_program --no-predict RUN
	one_error 'were made by step 4 digest [0-9a-f]+ steps 1 seed [0-9]+ .* list -, not by step 4 digest [0-9a-f]+ steps 2 seed'
	run_tool 0 eval_program RUN
	[[ ${lines[1]} == *" steps 2 seed "* ]]
	run ! cmp -s RUN/eval/rooms.tsv "$BATS_FILE_TMPDIR/rows"
	mkconfig RUN predict.steps=1 train.steps=8
	train-step-loop RUN
	run_tool 0 eval_program RUN
	[[ ${lines[1]} == "# rooms: step 8 "* ]]
	run_tool 0 eval_program --step 4 RUN
	cmp <(printf '%s\n' "$output") "$BATS_FILE_TMPDIR/rows"
	rm -r RUN/predictions
	run_tool 65 eval_program --no-predict RUN
	one_error 'there are no predictions of rooms'
}

@test "predictions of other data, or of another size, are not taken for those of the group" {
	tiny_data first 3
	make-scenes depth -n 3 --seed 9 --size 32x48 second
	mkdir moved
	cp -R first moved/first
	tiny_run RUN train.steps=1 data.test.halls.path=first
	train-step-loop RUN
	run_tool 0 eval_program RUN halls
	before=$output
	for change in path=second path=moved/first path=second size=16,24; do
		mkconfig RUN data.test.halls."$change"
		run_tool 65 eval_program --no-predict RUN halls
		one_error 'the predictions of halls were made by step 1 .* path .*/(first|second) list -, not by step 1'
		run_tool 0 eval_program RUN halls
	done
	[ "$(grep -c rgb/ <<<"$output")" = 3 ]
	[ "$(grep rgb/ <<<"$output")" != "$(grep rgb/ <<<"$before")" ]
	mkconfig RUN data.test.halls.path=first data.test.halls.size=
	run_tool 0 eval_program RUN halls
	[ "$output" = "$before" ]
}

@test "predicting with other settings takes the directory over; the earlier one stops and mixes nothing in" {
	copy_run
	rm -r RUN/predictions
	mkconfig RUN predict.steps=400
	predict RUN 2>message &
	first=$!
	until [ -e RUN/predictions/rooms/rgb/00000.npy ]; do sleep 0.01; done
	kill -STOP $first
	mkconfig RUN predict.steps=1
	run_tool 0 predict RUN
	kill -CONT $first
	status=0
	wait $first || status=$?
	[ "$status" -eq 70 ]
	grep -q 'predict: RUN/predictions/rooms: has been taken over' <(sed "s|$PWD/||" message)
	run_tool 0 eval_program --no-predict RUN
	cmp <(printf '%s\n' "$output") "$BATS_FILE_TMPDIR/rows"
}

@test "what is wrong with a run" {
	run_tool 66 eval_program nowhere
	one_error 'nowhere'
	copy_run
	run_tool 64 eval_program RUN halls
	one_error 'RUN: the run has no dataset halls; it has rooms$'
	run_tool 66 eval_program --step 5 RUN
	one_error 'there is none of step 5'
	run_tool 64 eval_program --step last RUN
	one_error 'last'
	echo nonsense >RUN/predictions/rooms/INFO
	run_tool 65 eval_program RUN
	one_error 'RUN/predictions/rooms/INFO: not an INFO file'
	rm -r RUN/checkpoints
	run_tool 66 eval_program RUN
	one_error 'has no checkpoint'
}

@test "a notice while predicting: 75, and the same command goes on" {
	copy_run
	rm -r RUN/predictions RUN/eval
	mkconfig RUN predict.steps=200
	"$ROOT/bin/eval" RUN >rows 2>message &
	while ! [ -e RUN/predictions/rooms/rgb/00000.npy ]; do sleep 0.01; done
	kill -TERM $!
	status=0
	wait $! || status=$?
	[ "$status" -eq 75 ]
	[ ! -s rows ]
	[ ! -e RUN/eval/rooms.tsv ]
	touch -d 2001-01-01 RUN/predictions/rooms/rgb/00000.npy
	run_tool 0 eval_program RUN
	[ "$(date -r RUN/predictions/rooms/rgb/00000.npy +%Y)" = 2001 ]
	[ "$(wc -l <RUN/eval/rooms.tsv)" -eq 8 ]
}

@test "a failing predict is passed on; with data.skip the sample is a row of nan" {
	copy_run
	tiny_data DIR 6
	mkconfig RUN data.{train,val,vis,test}.rooms.path=DIR
	truncate -s 100 DIR/rgb/00003.png
	run_tool 65 eval_program RUN
	one_error '^predict: ' 'DIR/rgb/00003.png'
	[ -z "$output" ]
	tiny_run SKIP train.steps=1 data.skip=true
	train-step-loop SKIP
	run_tool 0 eval_program SKIP
	[[ $stderr == *"eval: warning: $PWD/DIR/rgb/00003.png: has no prediction; its row is nan"* ]]
	[ "$(cut -f 2,3 <<<"${lines[5]}")" = "$(printf 'rgb/00003.png\tnan')" ]
}

# ---- real frames ----

# Truth as its own prediction, under the names of the images: after the fit nothing is left.
@test "frames of NYU, KITTI and a Kinect are read as they are" {
	frames=$ROOT/../shared/data
	[ -d "$frames" ] || skip "no $frames"
	mkdir nyu kitti kinect
	for id in 00000 00050; do cp "$frames/nyu/depth_$id.png" "nyu/pred_$id.png"; done
	for id in 05 50; do cp "$frames/kitti/depth_00000000$id.png" "kitti/pred_rgb_00000000$id.png"; done
	for id in 1 2 3 4 5; do cp "$frames/kinect/depth_$id.pgm" "kinect/color_$id.png"; done
	check() {
		run_tool 0 score "$@" --summary
		echo "$output"
		awk -F'\t' '!/^#/ { found = 1; if ($3 != 0 || $4 > 1e-5 || $9 != 1) exit 1 } END { exit !found }' <<<"$output"
	}
	check --layout nyu --truth "$frames/nyu" --prediction nyu --crop eigen
	[ "$(cut -f 2 <<<"${lines[2]}")" = 2 ]
	check --layout kitti --truth "$frames/kitti" --prediction kitti --crop garg --whole
	check --layout plain --truth "$frames/kitti" --prediction kitti --scale 256
	check --layout plain --truth "$frames/kinect" --prediction kinect
	[ "$(cut -f 2 <<<"${lines[2]}")" = 5 ]
	run_tool 65 score --layout kitti --truth "$frames/kitti" --prediction kitti
	one_error '1242x375 pixels where the truth has 1216x352'
}

@test "baselines: the constant of each image, and one map for all samples" {
	make-scenes depth -n 3 --size 16x24 rooms
	run_tool 0 "$ROOT/bin/eval" --task depth --layout plain --truth rooms --constant
	[ "${#lines[@]}" = 5 ]
	mkdir one
	cp rooms/depth/00000.png one
	constant=$output
	run_tool 0 "$ROOT/bin/eval" --task depth --layout plain --truth rooms --prediction one/00000.png
	column abs_relative_difference <(printf '%s\n' "$output") |
		awk 'NR == 1 { own = $1 } END { exit !(own < 1e-5 && $1 > 0.01) }'
	[ "$output" != "$constant" ]
	run_tool 64 "$ROOT/bin/eval" --task depth --layout plain --truth rooms --constant --prediction one
	one_error exclude
}
