# shellcheck shell=bash disable=SC2154
# Real videos from ../shared/data/video: every frame as ffmpeg extracts it.
load ../helper
setup() {
	command -v ffmpeg >/dev/null || skip "ffmpeg is not installed"
	[ -f "$ROOT/build/nightshift-film.so" ] || skip "built without FFmpeg's libraries"
	enter_scratch
}

same_as_extraction() { # NAME FRAMES
	local file=$ROOT/../shared/data/video/$1
	[ -f "$file" ] || skip "$file is not there"
	mkdir frames
	ffmpeg -nostdin -v error -i "$file" -compression_level 1 frames/image_%05d.png
	"$ROOT/build/tests/tools/frame-sums" frames frames >expected
	"$ROOT/build/tests/tools/frame-sums" video "$file" >found
	diff expected found
	[ "$(sed 1d found | wc -l)" -eq "$2" ]
}

@test "a cockatoo, 1280x720" {
	same_as_extraction cockatoo.mp4 280
}

@test "a talk with slides, 480x270" {
	same_as_extraction nasa_13013.mp4 390
}
