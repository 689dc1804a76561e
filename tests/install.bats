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

@test "an installed kit snapshots itself where the submit directory is no work tree, its programs among it" {
	make -s -C "$ROOT" BUILD=build install PREFIX="$PWD/kit" PROGRAM_PREFIX=ns-
	tiny_data DIR
	NIGHTSHIFT_HOME='' run_tool 0 bash kit/share/nightshift/slurm/train_marigold.sh run depth-tiny data.train.rooms.path=DIR
	tar tzf run/code.tar.gz >files
	grep -qx presets/depth-tiny.cfg files
	never grep -q rooms files
	for file in "$ROOT"/bin/*.c; do
		grep -q "^program"$'\t'"$PWD/kit/bin/ns-$(basename "$file" .c)"$'\t' run/code.manifest
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

@test "an installed script trains with the installed programs, whatever they are called" {
	run_tool 0 make -s -C "$ROOT" BUILD=build install PREFIX="$PWD/here" PROGRAM_PREFIX=ns-
	mkdir scratch
	here/bin/ns-make-scenes depth -n 4 --size 32x48 rooms
	run_tool 0 env -u NIGHTSHIFT_HOME PATH=/usr/bin:/bin bash here/share/nightshift/slurm/train_marigold.sh run depth-tiny \
		data.train.rooms.path="$PWD/rooms" train.steps=4 stage.to="$PWD/scratch"
	grep -q '^step 4$' run/done
	[ -s run/eval/rooms.tsv ]
}

@test "uninstall leaves no file behind" {
	make_install install
	make_install uninstall
	[ -z "$(find root -type f -o -type l)" ]
}
