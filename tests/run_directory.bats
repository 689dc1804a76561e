# The run directory as a user meets it: damage, owners, files of newer versions, places that cannot be written.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	mkdir prepared
	cd prepared
	tiny_run RUN train.steps=8 checkpoint.every=4 validate.every=4 picture.every=8
	train-step-loop RUN
	cp -R RUN WHOLE
	mkconfig WHOLE train.steps=12
	train-step-loop WHOLE
	mkconfig RUN train.steps=12
}

setup() {
	enter_scratch
	cp -R "$BATS_FILE_TMPDIR/prepared/RUN" RUN
	whole=$BATS_FILE_TMPDIR/prepared/WHOLE
}

newest() { printf '%s\n' RUN/checkpoints/step-???????? | tail -n 1; }

# flip FILE BYTE: one bit of it.
flip() {
	local value
	value=$(od -An -tu1 -j "$2" -N 1 "$1")
	printf "$(printf '\\x%02x' $((value ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# The run went on to its end and is the one that was never disturbed.
is_whole() {
	same_files RUN "$whole" log/step.tsv log/epoch.tsv log/val.tsv pictures \
		checkpoints/step-00000012/model checkpoints/step-00000012/optimizer
	awk '$1 == "step" { found = $2 } END { exit found != 12 }' RUN/done
}

@test "a flipped bit in any file of the newest checkpoint: the older one is taken, the result is the same" {
	for file in MANIFEST train.cfg $(cd "$(newest)" && find model optimizer -type f); do
		rm -rf RUN
		cp -R "$BATS_FILE_TMPDIR/prepared/RUN" RUN
		flip "$(newest)/$file" 20
		run_tool 0 train-step-loop RUN
		[[ $stderr == *"warning: "*"step-00000008/"*"passed over"* ]]
		[[ $(column step RUN/shifts.tsv | tail -n 2 | head -n 1) == 4 ]]
		is_whole
	done
}

@test "a log that was shortened makes its checkpoint invalid" {
	truncate -s -1 RUN/log/val.tsv
	run_tool 0 train-step-loop RUN
	[[ $stderr == *"warning: "*"log/val.tsv"* ]]
	is_whole
}

@test "no checkpoint that can be used: refused, nothing is thrown away" {
	for directory in RUN/checkpoints/step-????????; do
		flip "$directory/train.cfg" 20
	done
	cp -R RUN before
	run_tool 65 train-step-loop RUN
	[[ ${stderr_lines[-1]} == "train-step-loop: "*"none of its 2 checkpoints can be used"*"start"* ]]
	same_files RUN before log checkpoints pictures $(cd before && echo events.out.tfevents.*)
}

@test "a checkpoint of another configuration is refused" {
	sed -i 's/^seed = .*;/seed = 7;/' RUN/config.cfg
	run_tool 78 train-step-loop RUN
	one_error 'step-00000008' 'identity key' 'config.history'
}

@test "files of a newer version are refused" {
	cp RUN/config.cfg config.cfg
	sed -i 's/^format = 1;/format = 2;/' RUN/config.cfg
	run_tool 78 train-step-loop RUN
	one_error 'config.cfg' 'newer'
	cp config.cfg RUN/config.cfg
	sed -i 's/^format = 1;/format = 2;/' RUN/platform.cfg
	run_tool 78 train-step-loop RUN
	one_error 'platform.cfg' 'newer'
}

@test "init.weights: a run, its checkpoint or a directory of weights; the digest is kept" {
	RUN=$BATS_FILE_TMPDIR/prepared/WHOLE
	step=$RUN/checkpoints/step-00000012
	weights=model/unet/diffusion_pytorch_model.safetensors
	for from in "$RUN" "$step" "$step/model" "$step/$weights"; do
		rm -rf new
		tiny_run new train.steps=2 checkpoint.every=1 optimizer.lr=0 init.weights="$from"
		run_tool 0 train-step-loop new
		[[ $stderr =~ starting\ from\ the\ weights\ of\ .*\ \(digest\ ([0-9a-f]{8})\) ]]
		digest=${BASH_REMATCH[1]}
		cmp "$step/$weights" new/checkpoints/step-00000001/$weights
		for name in new/checkpoints/step-*/train.cfg; do
			grep -q "^init = \"$digest $RUN.*\";$" "$name"
		done
	done
	[ "$(awk '$1 == "digest" { print $2 }' "$RUN/done")" != "$digest" ] # of one file, not of its MANIFEST
	tiny_run wide train.steps=1 model.widths=32,64 init.weights="$RUN"
	run_tool 65 train-step-loop wide
	[[ ${stderr_lines[-1]} == *"tensor "*" has another shape than in this network, ["*"] instead of ["*"]"* ]]
	tiny_run missing train.steps=1 init.weights=nowhere
	run_tool 66 train-step-loop missing
	[[ ${stderr_lines[-1]} == *"/nowhere: No such file or directory" ]]
	# What differs may be left to chance by name.
	tiny_run other train.steps=1 model.context_width=24 init.weights="$RUN"
	run_tool 65 train-step-loop other
	tiny_run ignoring train.steps=1 model.context_width=24 init.weights="$RUN" init.ignore='*attn2.to_?.weight'
	run_tool 0 train-step-loop ignoring
}

@test "training data that has changed: refused, and the run goes on when it is as it was" {
	cp -R "$BATS_FILE_TMPDIR/prepared/DIR" mine
	mkconfig RUN data.{train,val,vis,test}.rooms.path=mine
	mv mine/rgb/00003.png kept.png
	mv mine/depth/00003.png kept-depth.png
	run_tool 65 train-step-loop RUN
	[[ ${stderr_lines[-1]} == *"the training data has 11 samples, and had 12 up to step 8; bring them back, or begin a new run" ]]
	cp kept.png mine/rgb/00099.png
	cp kept-depth.png mine/depth/00099.png
	run_tool 65 train-step-loop RUN
	[[ ${stderr_lines[-1]} == *"other names than those that step 8 has seen"* ]]
	rm mine/rgb/00099.png mine/depth/00099.png
	mv kept.png mine/rgb/00003.png
	mv kept-depth.png mine/depth/00003.png
	run_tool 0 train-step-loop RUN
	is_whole
}

@test "another program than the first shift's: a warning and a word in shifts.tsv, or refused with --same-bits" {
	sed -i 's/^program = .*;/program = "0123";/' RUN/platform.cfg
	run_tool 69 train-step-loop --same-bits RUN
	one_error "not the first shift's program" 'same-bits'
	run_tool 0 train-step-loop RUN
	[[ $stderr == *"warning: "*"not the first shift's program; the numbers may differ"* ]]
	[ "$(awk -F'\t' '$1 == 2 && $2 == "start" { print $10 }' RUN/shifts.tsv)" = "not the first shift's program" ]
	is_whole
}

@test "a missing run, and one without a configuration" {
	run_tool 66 train-step-loop nowhere
	one_error 'nowhere' 'mkconfig'
	mkdir empty
	run_tool 66 train-step-loop empty
	one_error 'empty/config.cfg' 'mkconfig'
}

@test "a run that another process owns is refused, and taken over when asked" {
	mkconfig RUN train.steps=1000000 checkpoint.every=1000
	train-step-loop RUN 2>first.log &
	first=$!
	until [ "$(cat RUN/shifts/current)" = 2 ]; do sleep 0.02; done
	until [ "$(wc -l <RUN/log/step.tsv)" -gt 9 ]; do sleep 0.02; done
	run_tool 69 train-step-loop RUN
	one_error 'shift 2' "process $first" 'still runs'
	run_tool 69 mkconfig RUN train.steps=12
	[ "$(cat RUN/shifts/current)" = 2 ]
	kill -0 "$first"
	mkconfig --take-over RUN train.steps=30
	run_tool 0 train-step-loop --take-over RUN
	status=0
	wait "$first" || status=$?
	tail -n 3 first.log
	[ "$status" -eq 70 ]
	[[ $(tail -n 1 first.log) == *"shift 3 has taken over"* ]]
	[ "$(tail -n 1 RUN/log/step.tsv | cut -f 1)" = 30 ]
	[ "$(cut -f 1 RUN/log/step.tsv | sort | uniq -d)" = "" ]
	run_tool 0 cut -f 1,2 RUN/shifts.tsv
	[[ $output == *$'2\tlost'*$'3\tstart'*$'3\tend' ]]
}

@test "a run that cannot be written" {
	[ "$(id -u)" -ne 0 ] || skip "root may write everywhere"
	chmod -R a-w RUN
	run_tool 77 train-step-loop RUN
	one_error 'RUN/'
	chmod -R u+w RUN
}
