# report: pages and lines about runs, of whatever is in their directories.

load helper

setup() {
	enter_scratch
}

# A run by hand: a configuration, nothing trained.
fake_run() {
	mkdir -p DIR
	tiny_run "$1"
	mkdir -p "$1/log"
}

# cells FILE: what stands in the cells and headings of a page's tables, one a line, entities undone.
cells() {
	tr '\n' ' ' <"$1" | sed 's#<#\n<#g' | sed -nE 's#^<t[dh][^>]*>(.+)#\1#p' |
		sed 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&#39;/'"'"'/g; s/&amp;/\&/g; s/ *$//'
}

# A page is well-formed, loads nothing, and holds no byte that is no text.
good_page() {
	xmllint --noout --nonet "$1"
	never grep -aqiE '(src|href|url|action|data)[ ]*[=(][ ]*["'"'"']?[ ]*(https?:|//|file:|javascript:)' "$1"
	never grep -qE '<(link|iframe|object|embed|base|form)\b|@import' "$1"
	never grep -qP '[\x00-\x08\x0b\x0c\x0e-\x1f]' "$1"
}

@test "a finished run: a well-formed page with everything, the numbers of the logs" {
	tiny_run run
	train-step-loop run 2>/dev/null
	"$ROOT/bin/eval" run >/dev/null 2>&1
	run_tool 0 report run
	[ "$output" = run/report.html ]
	[ -z "$stderr" ]
	good_page run/report.html
	for section in curves validation pictures evaluation shifts checkpoints configuration code messages; do
		grep -q "<h2 id=\"$section\">" run/report.html
		grep -q "<a href=\"#$section\">" run/report.html
	done
	grep -q '<span class="state done">done</span>' run/report.html
	# Every value of the validation, as exactly as the log has it.
	[ "$(column value run/log/val.tsv | wc -l)" -eq 30 ]
	column value run/log/val.tsv | while read -r value; do grep -qF "title=\"$value\"" run/report.html; done
	# The steps' losses under the pointer.
	loss=$(column loss run/log/step.tsv | awk '{ printf "%s%.5g", (NR > 1 ? " " : ""), $1 }')
	grep -qF "data-x=\"1 2 3 4 5 6 7 8 9 10 11 12\" data-y=\"$loss\"" run/report.html
	# The worst sample first, and the means.
	"$ROOT/bin/eval" run 2>/dev/null | grep -v '^#' | sort -t$'\t' -k3,3gr >rows
	cells run/report.html | grep '^rgb/' >shown
	diff shown <(cut -f2 rows | head -n 10)
	mean=$("$ROOT/bin/eval" --summary run 2>/dev/null | grep -v '^#' | cut -f4)
	grep -oE 'title="[0-9.]+"' run/report.html | tr -dc '0-9.\n' |
		awk -v mean="$mean" '{ d = $1 - mean; if (d * d < 1e-24) found = 1 } END { exit !found }'
}

@test "a classification: steps of its epochs, accuracy, classes of the worst clips" {
	tiny_classify run train.epochs=4
	run_tool 0 report --text run
	[ "$(column steps /dev/stdin <<<"$output")" = - ]
	train-step-loop run 2>/dev/null
	"$ROOT/bin/eval" run >rows 2>/dev/null
	run_tool 0 report --text run
	[ "$(column steps /dev/stdin <<<"$output")" = 10 ]
	[ "$(column state /dev/stdin <<<"$output")" = "done" ]
	report run
	good_page run/report.html
	grep -qF '4 epochs done' run/report.html
	accuracy=$(column accuracy run/log/step.tsv | awk '{ printf "%s%.5g", (NR > 1 ? " " : ""), $1 }')
	grep -qF "data-name=\"of a step\" data-x=\"1 2 3 4 5 6 7 8 9 10\" data-y=\"$accuracy\"" run/report.html
	cells run/report.html | grep -A9 "^$(sort -t$'\t' -k3,3gr rows | sed -n '1s/^[^\t]*\t\([^\t]*\).*/\1/p')\$" >worst
	grep -qx "$(sort -t$'\t' -k3,3gr rows | head -n 1 | cut -f8)" worst
}

@test "the same page twice, but for the time it was made" {
	tiny_run run
	train-step-loop run 2>/dev/null
	report -o a.html run
	report -o b.html run
	diff <(sed 's/^.*<p class="soft">Made by.*//' a.html) <(sed 's/^.*<p class="soft">Made by.*//' b.html)
}

@test "nothing but the page is written, and a read-only run can be shown elsewhere" {
	tiny_run run
	train-step-loop run 2>/dev/null
	find run -type f -exec md5sum {} + | sort >before
	report -o page.html run
	report --text run
	find run -type f -exec md5sum {} + | sort >after
	diff before after
	report run
	[ "$(find run -newer page.html -type f)" = run/report.html ]
	[ "$(ls -A run | grep -c 'report')" -eq 1 ]
}

@test "before the first step" {
	tiny_run run
	run_tool 0 report run
	good_page run/report.html
	grep -q 'No step has been logged yet' run/report.html
	grep -q '<span class="state new">new</span>' run/report.html
	run_tool 0 report --text run
	[ "${lines[0]}" = "#run	state	step	steps	loss	last_write	shift	left_s	checkpoint" ]
	[ "${lines[1]}" = "run	new	0	12	-	-	-	-	-" ]
}

@test "a killed shift: lost, and the steps that are left" {
	tiny_run run
	NIGHTSHIFT_FAULT_PATH='*checkpoints*' with_fault rename:2:KILL train-step-loop run 2>/dev/null || true
	run_tool 0 report --text run
	IFS=$'\t' read -r name state step steps loss write shift left checkpoint <<<"${lines[1]}"
	[ "$name $state $steps $shift" = "run lost 12 1" ]
	[ "$step" -lt 12 ]
	[[ $write =~ ^20[0-9-]+T[0-9:]+Z$ ]]
	[[ $checkpoint == step-0000000* || $checkpoint == - ]]
	run_tool 0 report run
	good_page run/report.html
}

@test "while the trainer runs, and once it was stopped" {
	tiny_run run train.steps=1000000 validate.every=0 picture.every=0 checkpoint.every=0 2>/dev/null
	for how in notice stop; do
		train-step-loop run 2>/dev/null &
		trainer=$!
		until [ "$(report --text run | column state /dev/stdin)" = running ]; do sleep 0.05; done
		until [ "$(report --text run | column left_s /dev/stdin | tr -d -)" ]; do sleep 0.05; done
		report --text run >line
		report run
		if [ "$how" = notice ]; then kill -USR2 "$trainer"; else touch run/stop; fi
		wait "$trainer" || [ $? -eq 75 ]
		[ "$(column state line)" = running ]
		[ "$(column left_s line)" -gt 0 ]
		good_page run/report.html
		grep -q '<span class="state running">' run/report.html
		report --text run >line
		[ "$(column state line)" = "$([ "$how" = notice ] && echo waiting || echo stopped)" ]
		[ "$(column loss line)" = "$(column loss run/log/step.tsv | tail -n 1)" ]
		[ "$(column checkpoint line)" = "step-$(printf %08d "$(column step line)")" ]
	done
	[ "$(cat run/shifts/current)" = 2 ]
}

# states EVENT-ROW ... : the state that these rows of shifts.tsv (without "#") make
state_of() {
	{
		echo '#shift	event	time	job	restart	nodes	world	step	status	reason'
		printf '%b\n' "$@"
	} >run/shifts.tsv
	report --text run | column state /dev/stdin
}

@test "states by the rows of the shifts" {
	fake_run run
	start='1\tstart\t2026-01-31T12:00:00Z\t77\t0\t1\t1\t0\t-\t-'
	[ "$(state_of "$start" '1\tend\t2026-01-31T12:01:00Z\t77\t0\t1\t1\t5\t75\tnotice')" = waiting ]
	[ "$(state_of "$start" '1\tend\t2026-01-31T12:01:00Z\t77\t0\t1\t1\t5\t75\tstopped')" = stopped ]
	[ "$(state_of "$start" '1\tend\t2026-01-31T12:01:00Z\t77\t0\t1\t1\t5\t70\tnot finite')" = failed ]
	[ "$(state_of "$start" '1\tlost\t2026-01-31T12:01:00Z\t77\t0\t1\t1\t5\t-\t-')" = lost ]
	[ "$(state_of "$start" '1\tend\t2026-01-31T12:01:00Z\t77\t0\t1\t1\t5\t74\tx' '1\trequeue\t2026-01-31T12:01:00Z\t77\t0\t-\t-\t-\t74\tx')" = waiting ]
	[ "$(state_of "$start" '1\tend\t2026-01-31T12:01:00Z\t77\t0\t1\t1\t5\t74\tx' '1\tfail\t2026-01-31T12:01:00Z\t77\t0\t-\t-\t-\t74\tx')" = failed ]
	[ "$(report --text run | column last_write /dev/stdin)" = 2026-01-31T12:01:00Z ]
	[ "$(state_of "$start")" = unknown ]
}

@test "words from files are words, never markup" {
	evil='</title><script>alert(1)</script><img src=x onerror="alert(2)">&amp; '"'"'q'"'"
	tiny_run run
	train-step-loop run 2>/dev/null
	mkdir -p run/eval
	printf '#dataset\tsample\terror <b>\n# %s\nd\t%s\t0.5\n' "$evil" "$evil" >"run/eval/<i>x.tsv"
	printf '100\t%s\t%s\t0.25\t3\t0\n' "$evil" "a<b" >>run/log/val.tsv
	printf '2\tstart\t%s\t%s\t0\t1\t1\t3\t-\t%s\n' "$evil" "$evil" "$evil" >>run/shifts.tsv
	printf 'x\tshift 1\t%s\n' "$evil" >>run/log/train.log
	printf '#time\tjob\tkey\told\tnew\n%s\t%s\tseed\t%s\t\377\001\n' "$evil" "$evil" "$evil" >run/config.history
	mv run "$PWD/<u>&"
	run_tool 0 report -o page.html '<u>&'
	good_page page.html
	[ "$(grep -c '<script' page.html)" -eq 1 ]
	never grep -q '<img src=x' page.html
	never grep -qE '<(u|i|b)>[^0-9]?x?' <(grep -v figcaption page.html)
	cells page.html | grep -qxF "$evil"
	# A byte that is no UTF-8, and a control character.
	grep -qF $'\xef\xbf\xbd\xef\xbf\xbd' page.html
	report -o several.html '<u>&' '<u>&'
	good_page several.html
	report --text '<u>&'
}

@test "runs of different datasets: a table has the runs that know the dataset" {
	tiny_classify first
	tiny_classify second
	mkdir -p first/log second/log
	printf '#step\tdataset\tmetric\tvalue\tn\tn_nan\n4\tred\ttop1\t0.5\t8\t0\n' >first/log/val.tsv
	printf '#step\tdataset\tmetric\tvalue\tn\tn_nan\n4\tblue\ttop1\t0.75\t8\t0\n' >second/log/val.tsv
	report -o both.html first second
	good_page both.html
	[ "$(sed -n '/<h2 id="validation">/,/<h2 id="configuration">/p' both.html | grep -oE '<(h3|td)>(red|blue|first|second)<' | tr '\n' ' ')" = \
		'<h3>red< <td>first< <h3>blue< <td>second< ' ]
}

@test "values that are not finite are told, not drawn" {
	fake_run run
	{
		printf '#step\tepoch\tsamples\tloss\tgrad_norm\tlr\n'
		printf '1\t0\t4\tnan\tinf\t0.1\n2\t0\t8\t2.5\t-inf\t0.1\n3\t0\t12\tinf\t1e308\t0.1\n4\t0\t16\t0.5\t1e-300\t0.1\n'
	} >run/log/step.tsv
	printf '#step\tdataset\tmetric\tvalue\tn\tn_nan\n2\td\tm\tnan\t0\t7\n4\td\tm\tinf\t1\t6\n' >run/log/val.tsv
	run_tool 0 report run
	good_page run/report.html
	never grep -qE '(d|data-[xy]|viewBox|data-range)="[^"]*(nan|inf)' run/report.html
	grep -q '2 not finite' run/report.html
	cells run/report.html | grep -qx nan
	never grep -q 'class="number best"' run/report.html
	printf '#step\tepoch\tsamples\tloss\n1\t0\t4\tnan\n' >run/log/step.tsv
	run_tool 0 report --text run
	[ "$(column loss /dev/stdin <<<"$output")" = nan ]
	run_tool 0 report run
	good_page run/report.html
}

@test "damaged files: what can be read is shown, the rest is told" {
	tiny_run run
	train-step-loop run 2>/dev/null
	"$ROOT/bin/eval" run >/dev/null 2>&1
	newest=run/checkpoints/step-00000012
	printf 'X' | dd of="$(find $newest/model -name '*.safetensors')" bs=1 seek=3000 conv=notrunc 2>/dev/null
	head -c 40 run/pictures/step-00000012/rooms-00000.png >torn && mv torn run/pictures/step-00000012/rooms-00000.png
	printf '13\t4\t99' >>run/log/step.tsv
	printf 'no\tnumbers\there\n\0\0\0\n12\n' >>run/log/val.tsv
	head -c 300000 /dev/zero | tr '\0' x >>run/log/time.tsv
	echo >>run/log/time.tsv
	run_tool 0 report --text run
	[ "$(column checkpoint /dev/stdin <<<"$output")" = step-00000008 ]
	[ "$(column step /dev/stdin <<<"$output")" = 12 ]
	run_tool 0 report run
	[[ $stderr == *'log/time.tsv: 1 damaged lines were passed over'* ]]
	good_page run/report.html
	grep -q 'Not all of this run can be read' run/report.html
	grep -q 'rooms-00000.png: ' run/report.html
	cells run/report.html | grep -q 'model/.*\(CRC\|sum\|damaged\|differ\)'
	echo 'format = 1; nonsense' >run/config.cfg
	run_tool 0 report run
	good_page run/report.html
	grep -q '<span class="state damaged">' run/report.html
	run_tool 0 report --text run
	[ "$(column state /dev/stdin <<<"$output")" = damaged ]
	rm -r run/config.cfg run/log/step.tsv run/shifts.tsv
	mkdir run/log/step.tsv run/shifts.tsv
	mkfifo run/platform.cfg.new && mv run/platform.cfg.new run/platform.cfg
	run_tool 0 report run
	good_page run/report.html
}

@test "a long log makes no long page, and no value that stands out is lost" {
	fake_run run
	awk 'BEGIN { print "#step\tepoch\tsamples\tloss\tgrad_norm\tlr"
		for (i = 1; i <= 200000; i++) printf "%d\t0\t%d\t%.17g\t1\t0.001\n", i, 4 * i, i == 123456 ? 77.125 : 2 + (i % 7) / 8 }' >run/log/step.tsv
	report run
	[ "$(stat -c %s run/report.html)" -lt 250000 ]
	good_page run/report.html
	grep -q '_77.125' run/report.html
	[ "$(report --text run | column step /dev/stdin)" = 200000 ]
}

@test "several runs: one page with their curves and what differs" {
	tiny_run one
	tiny_run two optimizer.lr=0.0005 train.steps=8
	for run in one two; do
		train-step-loop "$run" 2>/dev/null
		"$ROOT/bin/eval" "$run" >/dev/null 2>&1
	done
	run_tool 0 report -o both.html one two
	[ "$output" = both.html ]
	[ ! -e one/report.html ]
	good_page both.html
	cells both.html >cells
	[ "$(grep -A2 -x optimizer.lr cells | tr '\n' ' ')" = "optimizer.lr 0.001 0.0005 " ]
	[ "$(grep -A2 -x train.steps cells | tr '\n' ' ')" = "train.steps 12 8 " ]
	never grep -qx seed cells
	for run in one two; do
		loss=$(column loss $run/log/step.tsv | awk '{ printf "%s%.5g", (NR > 1 ? " " : ""), $1 }')
		grep -qF "data-name=\"$run\" " both.html
		grep -qF "data-y=\"$loss\"" both.html
	done
	# The best of each metric over both, marked; runs of one name are told apart.
	[ "$(grep -o 'class="number best"' both.html | wc -l)" -ge 20 ]
	mkdir -p sub && cp -r one sub/one
	report -o same.html one sub/one
	cells same.html | grep -qx sub/one
	cells same.html | grep -qx 'in nothing'
	run_tool 0 report one two
	[ "$output" = "one/report.html
two/report.html" ]
	run_tool 0 report --text one two
	[ "${#lines[@]}" -eq 3 ]
}

@test "what is no run: 66, and the others are shown all the same" {
	tiny_run run
	mkdir empty
	run_tool 66 report empty
	one_error 'empty: no run'
	run_tool 66 report nowhere
	one_error 'nowhere'
	run_tool 66 report --text nowhere run empty
	[ "${#lines[@]}" -eq 2 ]
	[[ ${lines[1]} == "run	new	"* ]]
	[ "${#stderr_lines[@]}" -eq 2 ]
	[ -z "$(ls -A empty)" ]
	run_tool 64 report
	one_error 'RUN is missing'
	run_tool 64 report --text -o x run
	one_error '--text prints lines'
}

@test "a page that cannot be written leaves the old one" {
	tiny_run run
	report run
	cp run/report.html old
	for what in ENOSPC:73 EIO:74; do
		NIGHTSHIFT_FAULT_PATH='*report.html*' run_tool "${what#*:}" with_fault "write:1+:${what%:*}" report run
		one_error 'report.html'
		cmp old run/report.html
		[ "$(ls -A run | grep -c 'report.html')" -eq 1 ]
	done
	run_tool 73 report -o nowhere/page.html run
	[ "$(id -u)" -ne 0 ] || return 0
	chmod 555 run
	run_tool 77 report run
	chmod 755 run
}
