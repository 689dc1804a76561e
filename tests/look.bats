# Looking inside: the graph as text and drawing, the profile, the watch for what is not finite.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR"
	tiny_run run train.steps=6 checkpoint.every=4
	train-step-loop run
	mkconfig run train.steps=12
}

setup() {
	enter_scratch
	cp -R "$BATS_FILE_TMPDIR/run" run
	# Where a test makes a run of its own, it reads the same rooms.
	ln -s "$BATS_FILE_TMPDIR/DIR" DIR
}

@test "the graph as text has every operation once, with shapes, bytes and offsets, and is not written to the run" {
	find run -type f -exec sha256sum {} + | sort >before
	run_tool 0 train-step-loop --dump-graph graph.txt run
	find run -type f -exec sha256sum {} + | sort >after
	diff before after
	run_tool 0 train-step-loop --dump-graph - run
	diff graph.txt <(printf '%s\n' "$output")
	# Within each graph nodes are numbered from 0 on, none missing, none twice.
	awk -F'\t' '/^#graph/ { n = 0; graphs++; next } /^#/ { next } $1 != n++ || NF != 8 { exit 1 } END { exit graphs < 1 }' graph.txt
	# Every tensor has bytes: four an element. Results have a place in memory.
	awk -F'\t' '/^#/ { next } { m = split($4 " " $5, tensor, " "); for (i = 1; i <= m; i++) { if (tensor[i] == "-") continue
		if (split(tensor[i], part, /[:=@]/) < 3) exit 1
		n = split(part[2], dim, "x"); bytes = 4; for (d = 1; d <= n; d++) bytes *= dim[d]
		if (bytes != part[3] || (part[1] ~ /^[+]?[ag]/) != (part[4] != "")) { print tensor[i]; exit 1 } } }' graph.txt
	[[ $(grep -c $'\tconvolution\t' graph.txt) -gt 4 ]]
	grep -q $'\tconvolution-weight\t' graph.txt
}

@test "the floating-point operations of the dump are those of the dry run" {
	train-step-loop --dump-graph graph.txt run
	wanted=$(train-step-loop --dry-run run | awk -F'\t' '$1 == "flops_per_step" { print $2 }')
	awk -F'\t' -v wanted="$wanted" '/^#graph/ { training = $3 == "training"; next } /^#/ { next } training { sum += $6 }
		END { ratio = wanted / sum; exit !(ratio == int(ratio) && ratio >= 1) }' graph.txt
}

@test "the drawing has every operation once and only arrows between what is drawn" {
	train-step-loop --dump-graph graph.txt run
	train-step-loop --dump-graph graph.dot run
	[ "$(grep -cE '^		g[0-9]+n[0-9]+ \[label=' graph.dot)" = "$(grep -vc '^#' graph.txt)" ]
	[ -z "$(grep -oE '^		g[0-9]+n[0-9]+ \[' graph.dot | sort | uniq -d)" ]
	if command -v dot; then
		dot -Tcanon graph.dot >/dev/null
	fi
	# Braces and quotes are in pairs; both ends of an arrow stand before it.
	awk '{ line = $0; gsub(/\\["\\]/, "", line); if (gsub(/"/, "", line) % 2) exit 1 }
		/[{]$/ { open++ } /^\t*[}]$/ { open-- }
		/ -> / { to = $3; sub(/;$/, "", to); arrows++; if (!($1 in known) || !(to in known)) { print; bad = 1; exit } next }
		/^\t\tg/ { known[$1] = 1 }
		END { exit bad || open || !arrows }' graph.dot
}

@test "the profile adds up to the step, is sorted, and leaves the run untouched" {
	find run -exec stat -c '%n %Y %s' {} + | sort >before
	find run -type f -exec sha256sum {} + | sort >>before
	run_tool 0 train-step-loop --profile 3 --trace trace.json run
	[ -z "$stderr" ]
	printf '%s\n' "$output" >table
	find run -exec stat -c '%n %Y %s' {} + | sort >after
	find run -type f -exec sha256sum {} + | sort >>after
	diff before after
	[ "$(head -n 1 table)" = $'#operation\tcalls\tseconds\tshare\tgflops\tgbytes_s\tof_product\tof_copy' ]
	# The rows are the step to the last digit printed, none is negative.
	awk -F'\t' '/^#/ { next } $3 < 0 { exit 1 } $1 == "step" { step = $3; next } { sum += $3; share += $4; rows++ }
		$1 == "other" { other = $3 } $1 != "other" { if (rows > 1 && $3 > last) exit 1; last = $3 }
		END { d = sum - step; exit !(rows > 10 && step > 0 && d < 1e-5 * rows && -d < 1e-5 * rows && other > 0) }' table
	grep -q $'^convolution\t' table
	grep -q $'^data\t' table
	# Calls are those of the graph, times the micro-batches.
	train-step-loop --dump-graph graph.txt run
	awk -F'\t' 'FNR == NR { if (/^#graph/) training = $3 == "training"; else if (!/^#/ && training) nodes[$2]++; next }
		/^#/ || !($1 in nodes) || $1 == "copy" { next } $2 / nodes[$1] != int($2 / nodes[$1]) { print; exit 1 }' graph.txt table
	# The trace: an event a call, three steps of them.
	[ "$(grep -c '"cat":"convolution"' trace.json)" = "$(awk -F'\t' '$1 == "convolution" { print 3 * $2 }' table)" ]
	if command -v python3; then
		python3 -c 'import json; events = json.load(open("trace.json"))["traceEvents"]; assert all(e["ph"] == "X" and e["dur"] >= 0 and e["ts"] >= 0 for e in events)'
	fi
}

@test "where operations are large, almost nothing of a step is outside the rows" {
	make-scenes depth -n 4 --seed 2 --size 128x192 LARGE
	mkconfig large depth-tiny data.train.rooms.path="$PWD/LARGE"
	train-step-loop --profile 2 large >table
	awk -F'\t' '$1 == "other" { other = $4 } END { exit !(other > 0 && other < 0.2) }' table
	# The fastest of the large products is no faster than the machine, within what a busy one differs.
	awk -F'\t' '/^#/ { next } $7 > 10 { print; exit 1 }' table
}

@test "a run goes on after a profile as if there had been none, and with --debug to the same bits" {
	cp -R run other
	train-step-loop --profile 1 run
	train-step-loop --debug run
	train-step-loop other
	cmp run/log/step.tsv other/log/step.tsv
	grep -qx 'step 12' run/done
	[ "$(grep ^digest run/done)" = "$(grep ^digest other/done)" ]
}

@test "--debug names the layer, its operation and the samples" {
	tiny_run wild optimizer.lr=100 optimizer.clip=0 train.steps=200 schedule.warmup=0 validate.every=0 picture.every=0 checkpoint.every=0
	run_tool 70 train-step-loop --debug wild
	name=$(sed -nE 's/.*not finite: .* (made|read) by ([a-z0-9_.]+) \(([a-z-]+)\) of graph .*samples of the batch: [^)]*rgb.*/\2/p' <<<"$stderr")
	[ -n "$name" ]
	# That operation is one of the graph.
	train-step-loop --dump-graph - wild | cut -f3 | grep -qxF "$name"
	# Without the option the shift ends at the same step or later, since only the loss and the norm are looked at.
	tiny_run plain optimizer.lr=100 optimizer.clip=0 train.steps=200 schedule.warmup=0 validate.every=0 picture.every=0 checkpoint.every=0
	named=$(sed -nE 's/.*step ([0-9]+): not finite.*/\1/p' <<<"$stderr")
	run_tool 70 train-step-loop plain
	[ "$named" -le "$(sed -nE 's/.*step ([0-9]+): .*not finite.*/\1/p' <<<"$stderr")" ]
	grep -q $'\tend\t.*\t70\tnot finite' wild/shifts.tsv
	[ -z "$(ls wild/checkpoints 2>/dev/null)" ]
}

@test "what does not go together is one line, status 64" {
	for words in "--trace t" "--profile 0" "--profile -1" "--profile 1 --dry-run" "--dump-graph a --profile 1"; do
		# shellcheck disable=SC2086
		run_tool 64 train-step-loop $words run
		one_error
	done
	run_tool 73 train-step-loop --dump-graph missing/graph.dot run || run_tool 66 train-step-loop --dump-graph missing/graph.dot run
	one_error missing/graph.dot
}
