# What holds for every program: help, version, wrong command lines, a standard output that cannot be written.

load helper

setup() {
	enter_scratch
}

# By path: eval is a word of the shell.
programs() {
	local file
	for file in "$ROOT"/bin/*.c; do
		echo "${file%.c}"
	done
}

@test "help goes to stdout and nothing to stderr" {
	for program in $(programs); do
		run_tool 0 "$program" --help
		[[ ${lines[0]} == "usage: ${program##*/} "* ]]
		[ -z "$stderr" ]
		long=$output
		run_tool 0 "$program" -h
		[ "$output" = "$long" ]
	done
}

@test "help fits 100 columns" {
	for program in $(programs); do
		run_tool 0 "$program" --help
		[ "$(awk 'length > 100' <<<"$output")" = "" ]
	done
}

@test "version is one line" {
	for program in $(programs); do
		run_tool 0 "$program" --version
		[[ $output =~ ^${program##*/}\ \(Nightshift\)\ [0-9.]+$ ]]
	done
}

@test "an unknown option is one line that names the nearest, status 64" {
	for program in $(programs); do
		run_tool 64 "$program" --versoin
		one_error "^${program##*/}: " 'unknown option --versoin; did you mean --version\?'
		run_tool 64 "$program" -%
		one_error 'unknown option -%'
		[ -z "$output" ]
	done
}

@test "no operand where one is needed is status 64 and says what to write" {
	for program in $(programs); do
		run_tool 64 "$program"
		one_error "^${program##*/}: "
	done
}

@test "a full disk under stdout is status 74, not silence" {
	for program in $(programs); do
		status=0
		"$program" --help >/dev/full 2>message || status=$?
		[ "$status" -eq 74 ]
		[ "$(cat message)" = "${program##*/}: standard output: No space left on device" ]
	done
}

@test "the name in messages is the one the program was called by" {
	ln -s "$ROOT/bin/mkconfig" ns-mkconfig
	run_tool 64 ./ns-mkconfig --nothing
	one_error '^ns-mkconfig: '
}
