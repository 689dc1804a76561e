# make install, with a prefix of one's own and renamed programs.

load helper

setup() {
	enter_scratch
}

make_install() {
	run_tool 0 make -s -C "$ROOT" BUILD=build "$@" DESTDIR="$PWD/root" PREFIX=/prefix PROGRAM_PREFIX=ns-
}

@test "installed programs run under their prefixed names, and the scripts' links find them" {
	make_install install
	for file in "$ROOT"/bin/*.c; do
		name=$(basename "$file" .c)
		run_tool 0 "root/prefix/bin/ns-$name" --version
		run_tool 0 "root/prefix/share/nightshift/bin/$name" --version
	done
}

@test "man pages and presets are installed" {
	make_install install
	for page in "$ROOT"/man/*.[157]; do
		section=${page##*.}
		name=$(basename "$page")
		[ "$section" != 1 ] || name=ns-$name
		[ -s "root/prefix/share/man/man$section/$name" ]
	done
	diff -r "$ROOT/slurm/presets" root/prefix/share/nightshift/slurm/presets
}

@test "an installed mkconfig finds the installed presets" {
	make_install install
	run_tool 0 env -u NIGHTSHIFT_HOME root/prefix/bin/ns-mkconfig --explain run depth-tiny data.train.rooms.path=/data
	[[ $output == *root/prefix/share/nightshift/slurm/presets/depth-tiny.cfg* ]]
}

@test "installed scripts know their home" {
	make_install install
	run_tool 0 grep -rhoE '^: "\$\{NIGHTSHIFT_HOME:=[^}]*\}"' root/prefix/share/nightshift/slurm
	while read -r line; do
		[ "$line" = ': "${NIGHTSHIFT_HOME:=/prefix/share/nightshift}"' ]
	done <<<"$output"
}

@test "uninstall leaves no file behind" {
	make_install install
	make_install uninstall
	[ -z "$(find root -type f -o -type l)" ]
}
