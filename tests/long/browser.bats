#!/usr/bin/env bats
# The pages of report in a real browser: headless Chromium, spoken to over its debugging pipe.

load ../helper

setup() {
	enter_scratch
	command -v chromium >/dev/null || skip "needs chromium"
	command -v jq >/dev/null || skip "needs jq"
	mkfifo commands answers
	# Both ends stay open here, so that neither side waits for the other to open.
	exec 7<>commands 8<>answers
	chromium --headless=new --no-sandbox --disable-gpu --no-first-run --user-data-dir="$PWD/profile" --window-size=1300,900 \
		--remote-debugging-pipe 3<&7 4>&8 7<&- 8<&- >browser.log 2>&1 &
	browser=$!
	echo 0 >number
}

teardown() {
	[ -z "${browser:-}" ] || { kill "$browser" && wait "$browser"; } 2>/dev/null || true
}

# ask METHOD [PARAMETERS]: prints the result; what the browser says meanwhile is added to the file events.
ask() {
	local id answer
	id=$(($(cat number) + 1))
	echo "$id" >number
	jq -jnc --arg method "$1" --argjson params "${2:-"{}"}" --arg session "${session:-}" --argjson id "$id" \
		'{id: $id, method: $method, params: $params} + if $session == "" then {} else {sessionId: $session} end' >&7
	printf '\0' >&7
	while IFS= read -r -t 60 -d '' answer <&8; do
		if [ "$(jq ".id == $id" <<<"$answer")" = true ]; then
			jq -c .result <<<"$answer"
			return
		fi
		printf '%s\n' "$answer" >>events
	done
	echo "no answer to $1" >&2
	return 1
}

# value_of EXPRESSION: what it is in the page.
value_of() {
	ask Runtime.evaluate "$(jq -n --arg expression "$1" '{expression: $expression, returnByValue: true, awaitPromise: true}')" |
		jq -r .result.value
}

open_page() { # FILE
	local target domain
	target=$(ask Target.createTarget '{"url": "about:blank"}' | jq .targetId)
	session=$(ask Target.attachToTarget "{\"targetId\": $target, \"flatten\": true}" | jq -r .sessionId)
	: >events
	for domain in Runtime Log Network Page; do ask $domain.enable; done >/dev/null
	ask Page.navigate "{\"url\": \"file://$PWD/$1\"}" >/dev/null
	value_of 'new Promise(done => document.readyState == "complete" ? done(1) : addEventListener("load", () => done(1)))' >/dev/null
}

# What the browser complained of or asked for beside the page itself.
complaints() {
	jq -c 'select(.method == "Log.entryAdded" or .method == "Runtime.exceptionThrown" or .method == "Runtime.consoleAPICalled") | .params' events
	jq -r 'select(.method == "Network.requestWillBeSent") | .params.request.url' events | grep -v "^file://$PWD/[a-z/]*\.html$" |
		grep -v '^data:image/png;base64,'
}

# The page is no wider than the window, at any width.
fits() {
	local width
	for width in 1300 700 380; do
		ask Emulation.setDeviceMetricsOverride "{\"width\": $width, \"height\": 900, \"deviceScaleFactor\": 1, \"mobile\": false}" >/dev/null
		[ "$(value_of 'document.documentElement.scrollWidth')" -le "$width" ] || return 1
	done
	ask Emulation.clearDeviceMetricsOverride >/dev/null
}

@test "a run's page: nothing is asked for or refused, nothing overflows, values follow the pointer" {
	tiny_run run
	train-step-loop run 2>/dev/null
	"$ROOT/bin/eval" run >/dev/null 2>&1
	report run
	open_page run/report.html
	[ "$(value_of 'document.querySelectorAll("svg.chart").length')" -ge 14 ]
	[ "$(value_of 'Array.from(document.images).filter(image => image.naturalWidth > 0).length')" -ge 1 ]
	[ "$(value_of 'Array.from(document.images).every(image => image.complete && image.naturalWidth > 0)')" = true ]
	# The pointer at the right end of the loss: the last step's value in the log.
	read -r x y < <(value_of '(box => `${Math.round(box.right - box.width * .04)} ${Math.round(box.top + box.height / 2)}`)(document.querySelector("svg.chart").getBoundingClientRect())')
	ask Input.dispatchMouseEvent "{\"type\": \"mouseMoved\", \"x\": $x, \"y\": $y}" >/dev/null
	loss=$(column loss run/log/step.tsv | tail -n 1)
	text=$(value_of 'document.querySelector("figure output").textContent')
	[[ $text == "step 12: of a step $(printf %.5g "$loss")"* ]]
	# Dark where the reader wants it, and readable on paper.
	light=$(value_of 'getComputedStyle(document.body).backgroundColor')
	ask Emulation.setEmulatedMedia '{"features": [{"name": "prefers-color-scheme", "value": "dark"}]}' >/dev/null
	[ "$(value_of 'getComputedStyle(document.body).backgroundColor')" != "$light" ]
	ask Emulation.setEmulatedMedia '{"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}' >/dev/null
	[ "$(value_of 'getComputedStyle(document.body).backgroundColor')" = "$light" ]
	ask Emulation.setEmulatedMedia '{"media": ""}' >/dev/null
	fits
	[ -z "$(complaints)" ]
}

@test "hostile words in a browser: no script of theirs runs, none of their markup exists" {
	tiny_run run
	train-step-loop run 2>/dev/null
	evil='</script><script>window.stolen = 1</script><img src="http://example.org/x" onerror="window.stolen = 2">'
	mkdir -p run/eval
	printf '#dataset\tsample\terror\n# %s\nd\t%s\t0.5\n' "$evil" "$evil" >run/eval/d.tsv
	printf '100\t%s\t%s\t0.25\t3\t0\n' "$evil" "$evil" >>run/log/val.tsv
	printf '2\tstart\t%s\t%s\t0\t1\t1\t3\t-\t%s\n' "$evil" "$evil" "$evil" >>run/shifts.tsv
	report -o page.html run
	report -o several.html run run
	for page in page.html several.html; do
		session=
		open_page $page
		[ "$(value_of 'String(window.stolen)')" = undefined ]
		[ "$(value_of 'document.scripts.length')" -eq 1 ]
		[ "$(value_of 'document.querySelectorAll("img:not([src^=\"data:image/png\"])").length')" -eq 0 ]
		[ "$(value_of 'document.body.textContent.includes("window.stolen = 1")')" = true ]
		# Even a page with foreign script in it would not run it: only the script of the page's own digest may.
		sed 's#</header>#</header><script>window.stolen = 3</script>#' "$page" >changed.html
		[ -z "$(complaints)" ]
		session=
		open_page changed.html
		[ "$(value_of 'String(window.stolen)')" = undefined ]
		[ -n "$(complaints)" ]
	done
}

@test "several runs, a run before its first step and a damaged one" {
	tiny_run one
	tiny_run two optimizer.lr=0.0005
	tiny_run new
	for run in one two; do train-step-loop $run 2>/dev/null; done
	cp -r one broken
	echo nonsense >broken/config.cfg
	head -c 20 one/log/time.tsv >broken/log/time.tsv
	report -o several.html one two new broken
	report new broken
	for page in several.html new/report.html broken/report.html; do
		session=
		open_page "$page"
		[ "$(value_of 'document.querySelector("h1").textContent.length')" -gt 0 ]
		fits
		[ -z "$(complaints)" ]
	done
}
