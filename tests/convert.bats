# Weights to and from files of PyTorch and safetensors, and runs that start from them.
# seconds: 15

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	tiny_run RUN train.steps=4 checkpoint.every=2
	train-step-loop RUN
	make-scenes clips -n 20 --seed 1 --size 24x32 --frames 8 --validation 2 clips
	small_clips CLIPS
	train-step-loop CLIPS
}

# small_clips NAME WORD ...: a run over the rendered clips.
small_clips() {
	local name=$1
	shift
	mkconfig "$name" classify-tiny data.train.clips.path="$BATS_FILE_TMPDIR/clips" clip.duration=4 train.epochs=1 train.steps=1 \
		validate.every=0 picture.every=0 "$@"
}

setup() {
	enter_scratch
	cp -R "$BATS_FILE_TMPDIR"/{RUN,CLIPS} .
	golden=$ROOT/tests/golden/torch
}

# The rows of --list without comments: the tensors.
tensors() {
	convert-weights --list "$@" | grep -v '^#' | sort
}

@test "a run becomes a .pth, a .safetensors, and a .pth again, with the same tensors and digest" {
	convert-weights RUN a.pth
	convert-weights a.pth b.safetensors
	convert-weights b.safetensors c.pth
	cmp a.pth c.pth
	tensors RUN >rows
	[ -s rows ]
	for file in a.pth b.safetensors c.pth; do
		tensors "$file" | diff rows -
		convert-weights --list "$file" | grep '^# digest' >>digests
	done
	[ "$(sort -u digests | wc -l)" -eq 1 ]
}

@test "a run that starts from a .pth is the run that starts from the .safetensors, and records the digest" {
	convert-weights RUN a.pth
	convert-weights RUN a.safetensors
	for kind in pth safetensors; do
		tiny_run "from-$kind" train.steps=2 checkpoint.every=2 init.weights="a.$kind"
		run train-step-loop "from-$kind"
		[ "$status" -eq 0 ]
		grep -q "starting from the weights of .*a.$kind (digest $(convert-weights --list a.pth | sed -n 's/^# digest //p'))" <<<"$output"
	done
	cmp from-pth/log/step.tsv from-safetensors/log/step.tsv
	diff <(tensors from-pth) <(tensors from-safetensors)
	grep -q "$(convert-weights --list a.pth | sed -n 's/^# digest //p')" from-pth/checkpoints/step-*/train.cfg
}

@test "--step chooses the checkpoint" {
	convert-weights --step 2 RUN two.pth
	convert-weights RUN/checkpoints/step-00000002 again.pth
	cmp two.pth again.pth
	convert-weights RUN four.pth
	never cmp -s two.pth four.pth
	run convert-weights --step 3 RUN three.pth
	[ "$status" -eq 66 ]
	[ ! -e three.pth ]
}

@test "what PyTorch saved is listed: values beside the weights, then tensors in its order" {
	convert-weights --list "$golden/save_3.pth" >list
	grep -qx '# arch resnet-18' list
	grep -qx '# optimizer.param_groups.0.momentum 0.9' list
	grep -qx '# scheduler.last_epoch 3' list
	[ "$(grep -v '^#' list | cut -f1 | paste -sd' ')" = "conv1.weight bn1.weight bn1.bias bn1.running_mean bn1.running_var bn1.num_batches_tracked fc.weight fc.bias" ]
	grep -q $'^bn1.num_batches_tracked\tI64\t\[\]\t' list
	diff <(tensors "$golden/save_3.pth") <(tensors "$golden/module.pth")
}

@test "its epoch and network are kept, changed or left out" {
	convert-weights "$golden/save_3.pth" kept.pth
	convert-weights --list kept.pth | grep -x '# epoch 3'
	convert-weights --list kept.pth | grep -x '# arch resnet-18'
	convert-weights --arch resnet-34 "$golden/save_3.safetensors" named.pth
	convert-weights --list named.pth | grep -x '# arch resnet-34'
	convert-weights --bare "$golden/save_3.pth" bare.pth
	never grep -q arch <(convert-weights --list bare.pth)
	diff <(tensors kept.pth) <(tensors bare.pth)
}

@test "hostile, cut, foreign and missing files are one line and leave no file" {
	for case in hostile:65:system hostile_legacy:65:system list:65:'no state dict' script:65:TorchScript complex:65:ComplexFloatStorage; do
		IFS=: read -r name code words <<<"$case"
		run convert-weights "$golden/$name.pth" out.safetensors
		[ "$status" -eq "$code" ]
		[ "$(wc -l <<<"$output")" -eq 1 ]
		grep -q "$words" <<<"$output"
		[ ! -e out.safetensors ]
	done
	[ ! -e hostile-was-here ]
	head -c 3000 "$golden/save_3.pth" >cut.pth
	run convert-weights cut.pth out.safetensors
	[ "$status" -eq 65 ]
	grep -q 'cut.pth: .*cut' <<<"$output"
	run convert-weights nowhere.pth out.safetensors
	[ "$status" -eq 66 ]
	run convert-weights "$golden/save_3.pth" out.txt
	[ "$status" -eq 64 ]
}

@test "a full disk leaves what was there" {
	echo old >out.pth
	run bash -c 'ulimit -f 1; convert-weights RUN out.pth'
	[ "$status" -eq 73 ]
	[ "$(cat out.pth)" = old ]
	[ -z "$(find . -name '.out.pth*')" ]
}

@test "a run of classify becomes the original's checkpoint: its order, optimizer and schedule" {
	convert-weights CLIPS clips.pth
	convert-weights --list clips.pth >list
	grep -qx '# arch resnet-10' list
	grep -qx '# optimizer.param_groups.0.initial_lr 0.05' list
	grep -qx '# scheduler.gamma 0.1' list
	# One number a trained tensor, and an int64 scalar behind each running_var.
	names=$(grep -v '^#' list | cut -f1)
	[ "$(head -n 6 <<<"$names" | paste -sd' ')" = "conv1.weight bn1.weight bn1.bias bn1.running_mean bn1.running_var bn1.num_batches_tracked" ]
	[ "$(tail -n 2 <<<"$names" | paste -sd' ')" = "fc.weight fc.bias" ]
	trained=$(grep -cvE 'running|tracked' <<<"$names")
	[ "$(sed -n 's/^# optimizer.param_groups.0.params .*,//p' list)" -eq $((trained - 1)) ]
	[ "$(grep -A1 'running_var$' <<<"$names" | grep -c tracked)" -eq "$(grep -c 'running_var$' <<<"$names")" ]
	grep -q $'bn1.num_batches_tracked\tI64\t\[\]\t' list
	tensors CLIPS | diff - <(tensors clips.pth)
}

@test "an optimizer that does not belong to the weights beside it is left out" {
	small_clips averaged optimizer.ema=0.9
	train-step-loop averaged 2>log
	convert-weights averaged averaged.pth
	convert-weights --list averaged.pth >list
	grep -qx '# arch resnet-10' list
	never grep -E '^# (optimizer|scheduler)' list
	small_clips matrices optimizer.decay_vectors=false
	train-step-loop matrices 2>log
	convert-weights matrices matrices.pth
	convert-weights --list matrices.pth >list
	grep -qx '# arch resnet-10' list
	never grep -E '^# (optimizer|scheduler)' list
}

@test "the original's scheduler gets milestones as often as they count, and the optimizer the rate of the next step" {
	small_clips twice schedule.name=multistep schedule.by=epoch schedule.milestones=3,3,5
	train-step-loop twice
	convert-weights twice twice.pth
	convert-weights --list twice.pth >list
	grep -qx '# scheduler.milestones.3 2' list
	grep -qx '# scheduler.milestones.5 1' list
	for steps in 1 2; do
		small_clips falls-$steps schedule.name=exponential schedule.by=step schedule.warmup=0 schedule.total=10 \
			schedule.final_ratio=0.01
		mkconfig falls-$steps train.epochs=0 train.steps=$steps
		train-step-loop falls-$steps
	done
	convert-weights falls-1 falls.pth
	rate=$(convert-weights --list falls.pth | sed -n 's/^# optimizer.param_groups.0.lr //p')
	[ "$rate" = "$(tail -n 1 falls-2/log/step.tsv | cut -f6)" ]
	[ "$rate" != "$(tail -n 1 falls-1/log/step.tsv | cut -f6)" ]
}

@test "counters of batch norms go into a run and out of it again" {
	convert-weights CLIPS clips.pth
	small_clips again init.weights=clips.pth optimizer.lr=0 batch.norm=micro
	train-step-loop again
	before=$(convert-weights --list CLIPS | grep tracked | cut -f4 | sort -u)
	after=$(convert-weights --list again | grep tracked | cut -f4 | sort -u)
	[ -n "$before" ]
	[ "$before" != "$after" ] # a step more
	diff <(tensors CLIPS | grep -v bn | grep -v downsample.1) <(tensors again | grep -v bn | grep -v downsample.1)
}

@test "weights that do not fit: what, how much, and what to do" {
	convert-weights CLIPS b.pth
	small_clips A model.shortcut=A
	train-step-loop A
	small_clips one model.shortcut=A init.weights=b.pth
	run_tool 65 train-step-loop one
	one_error 'downsample.0.weight is not part of this network' 'all 18 left over' 'model.shortcut=B' 'says that it is a resnet-10'
	small_clips two init.weights=A
	run_tool 65 train-step-loop two
	one_error 'downsample.0.weight is missing' 'model.shortcut=A'
	small_clips three model.depth=18 init.weights=b.pth
	run_tool 65 train-step-loop three
	one_error 'layer1.1.conv1.weight is missing' 'says that it is a resnet-10'
	small_clips four model.n_classes=12 init.weights=b.pth
	run_tool 65 train-step-loop four
	# beside the error there is one warning
	[ "${stderr_lines[0]}" = 'train-step-loop: warning: model.n_classes = 12, but the data has 10 labels; 0 means as many as there are' ]
	stderr_lines=("${stderr_lines[@]:1}")
	stderr=${stderr#*$'\n'}
	one_error 'tensor fc.weight has another shape than in this network, \[10,64\] instead of \[12,64\]' 'init.ignore="fc.\*"'
	small_clips five model.n_classes=12 init.weights=b.pth 'init.ignore=fc.*'
	run_tool 0 train-step-loop five
}

# prefixed PREFIX: the safetensors file on stdin with the prefix in front of all names; the data stay as they are.
prefixed() {
	perl -e 'local $/; my $data = <STDIN>; my $n = unpack "Q<", $data; my $head = substr $data, 8, $n;
		$head =~ s/"(?=[a-z0-9_.]+":\{"dtype")/"$ARGV[0]/g;
		$head .= " " while length($head) % 8;
		print pack("Q<", length $head), $head, substr($data, 8 + $n)' "$1"
}

@test "a wrapper's prefix is taken off in both kinds of files, and named where it cannot be" {
	convert-weights CLIPS clips.safetensors
	prefixed module. <clips.safetensors >wrapped.safetensors
	grep -q module.conv1.weight wrapped.safetensors
	diff <(tensors clips.safetensors) <(tensors wrapped.safetensors)
	small_clips one init.weights=wrapped.safetensors
	run_tool 0 train-step-loop one
	prefixed net. <clips.safetensors >net.safetensors
	small_clips two init.weights=net.safetensors
	run_tool 65 train-step-loop two
	one_error 'conv1.weight is missing' 'the file calls it net.conv1.weight'
}

@test "a network that PyTorch saved predicts what it predicts there" {
	# torch_logits.py --make net.pth resnet-10 10 2 --legacy; --scores net.pth CLIPS >net.tsv
	mkconfig net classify-tiny data.train.clips.path="$BATS_FILE_TMPDIR/clips" model.widen_factor=0.03125 init.weights="$golden/net.pth"
	predict net
	while read -r video scores; do
		[ -e "net/predictions/clips-val/$video.npy" ] || continue
		tail -c 40 "net/predictions/clips-val/$video.npy" | od -An -v -tf4 -w40 >ours
		echo "$scores" >theirs
		paste -d' ' ours theirs
	done <"$golden/net.tsv" >both
	[ "$(wc -l <both)" -eq 10 ]
	awk '{ for (i = 1; i <= 10; i++) { d = $i - $(i + 10); if (d < 0) d = -d; if (d > worst) worst = d } }
		END { print "largest distance", worst; exit !(worst < 1e-6) }' both
}
