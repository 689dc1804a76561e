# shellcheck shell=bash disable=SC2154
# Video files read directly: frame numbers, count and pixels are those of ffmpeg's extraction.
load helper
setup() {
	command -v ffmpeg >/dev/null || skip "ffmpeg is not installed"
	[ -f "$ROOT/build/nightshift-film.so" ] || skip "built without FFmpeg's libraries"
	enter_scratch
	export PATH="$ROOT/build/tests/tools:$PATH"
}

# A source of 40 frames with movement, edges and soft colours; more ffmpeg words follow.
encode() { # FILE WORD ...
	local file=$1
	shift
	ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=174x98:rate=25:duration=1.6 "$@" -y "$file"
}

# same_as_extraction FILE: all frames, then some out of order.
same_as_extraction() {
	rm -rf frames
	mkdir frames
	ffmpeg -nostdin -v error -i "$1" frames/image_%05d.png
	frame-sums frames frames >expected
	frame-sums video "$1" >found
	diff expected found
	[ "$(wc -l <found)" -gt 20 ]
	for number in 17 5 18; do grep "^$number	" expected; done >expected.some
	diff expected.some <(frame-sums video "$1" 17 5 18 | sed 1d)
}

@test "mp4: H.264 with frames out of order" {
	encode a.mp4 -c:v libx264 -pix_fmt yuv420p -bf 3 -g 12
	same_as_extraction a.mp4
	[ "$(sed 1d found | wc -l)" -eq 40 ]
}

@test "mp4: BT.709 colours, full range, 4:4:4 of odd size" {
	encode a.mp4 -c:v libx264 -pix_fmt yuv420p -colorspace bt709 -color_range tv
	same_as_extraction a.mp4
	encode b.mp4 -c:v libx264 -pix_fmt yuvj420p
	same_as_extraction b.mp4
	encode c.mp4 -c:v libx264 -pix_fmt yuv444p -vf crop=171:97
	same_as_extraction c.mp4
}

@test "webm: VP9 and VP8, mkv with open groups" {
	encode a.webm -c:v libvpx-vp9 -b:v 300k -deadline realtime -cpu-used 8
	same_as_extraction a.webm
	encode b.webm -c:v libvpx -b:v 300k
	same_as_extraction b.webm
	encode c.mkv -c:v libx264 -pix_fmt yuv420p -x264-params open-gop=1:keyint=8
	same_as_extraction c.mkv
}

@test "avi: MPEG-4 with frames out of order, Motion JPEG" {
	encode a.avi -c:v mpeg4 -bf 2
	same_as_extraction a.avi
	encode b.avi -c:v mjpeg
	same_as_extraction b.avi
}

@test "frames that come unevenly are repeated and dropped as the extraction does" {
	encode a.mp4 -c:v libx264 -pix_fmt yuv420p -vf "select='not(eq(mod(n,5),2))',setpts='if(gt(N,20),PTS+0.3/TB,PTS)'" -vsync vfr
	same_as_extraction a.mp4
	encode b.webm -c:v libvpx -b:v 300k -vf "settb=1/1000,setpts='floor(N*31.3+25*random(1))'" -vsync passthrough
	same_as_extraction b.webm
}

@test "sound that begins before the picture" {
	encode a.mp4 -c:v libx264 -pix_fmt yuv420p
	ffmpeg -nostdin -v error -itsoffset 0.4 -i a.mp4 -f lavfi -i sine=duration=2 -map 0:v -map 1:a -c:v copy -c:a aac b.mp4
	same_as_extraction b.mp4
}

@test "the end of a longer video, cut out without coding it again" {
	encode a.mp4 -c:v libx264 -pix_fmt yuv420p -g 10
	ffmpeg -nostdin -v error -ss 0.5 -i a.mp4 -c copy b.mp4
	same_as_extraction b.mp4
}

@test "videos of a turned camera" {
	encode a.mp4 -c:v libx264 -pix_fmt yuv420p
	for turn in 90 180 270; do
		ffmpeg -nostdin -v error -i a.mp4 -c copy -metadata:s:v rotate=$turn "$turn.mp4"
		same_as_extraction $turn.mp4
	done
	[ "$(sed -n 2p found | cut -f2,3)" = $'98\t174' ]
}

@test "a file that was cut in half is one line" {
	encode a.webm -c:v libvpx -b:v 300k
	encode b.avi -c:v mpeg4
	encode c.mp4 -c:v libx264 -movflags +faststart
	encode d.mkv -c:v libx264
	for file in a.webm b.avi c.mp4 d.mkv; do
		head -c $(($(stat -c %s $file) / 2)) $file >cut-$file
		run_tool 65 frame-sums video cut-$file
		one_error "cut-$file: the file ends early"
	done
	: >empty.mp4
	run_tool 65 frame-sums video empty.mp4
	head -c 5000 /dev/zero >zeros.mp4
	run_tool 65 frame-sums video zeros.mp4
	one_error 'no video file that can be read'
	printf '#EXTM3U\n#EXTINF:1,\n/etc/passwd\n' >list.mp4
	run_tool 65 frame-sums video list.mp4
	ffmpeg -nostdin -v error -f lavfi -i sine=duration=1 -c:a aac sound.mp4
	run_tool 65 frame-sums video sound.mp4
	one_error 'no video in this file'
}

@test "without the plugin it says what to do" {
	encode a.mp4 -c:v libx264
	mkdir -p elsewhere/bin
	cp "$ROOT/build/tests/tools/frame-sums" elsewhere/bin/
	run_tool 69 elsewhere/bin/frame-sums video a.mp4
	one_error 'this build reads no video files'
}

@test "an annotation of video files" {
	mkdir -p data/one data/two
	encode data/one/a.mp4 -c:v libx264 -pix_fmt yuv420p
	encode data/one/b.webm -c:v libvpx -b:v 300k -t 1
	encode data/two/c.avi -c:v mpeg4
	run_tool 0 make-annotation --layout video -o out.json --validation 0 folders data
	[ "$(cat out.json)" = '{"labels": ["one", "two"], "database": {"a": {"subset": "training", "annotations": {"label": "one", "segment": [1, 41]}}, "b": {"subset": "training", "annotations": {"label": "one", "segment": [1, 26]}}, "c": {"subset": "training", "annotations": {"label": "two", "segment": [1, 41]}}}}' ]
	head -c 5000 data/two/c.avi >x && mv x data/two/c.avi
	run_tool 65 make-annotation --layout video check out.json data
	[[ $output == *$'unreadable\ttraining\ttwo\tc\t'*'c.avi: the file ends early'* ]]
}

@test "activitynet: frame rates of the video files join the annotation" {
	mkdir data
	encode data/v_one.mp4 -c:v libx264 -pix_fmt yuv420p -r 30000/1001
	encode data/v_two.webm -c:v libvpx -b:v 300k
	head -c 300 data/v_one.mp4 >data/v_torn.mp4
	cat >in.json <<-'END'
		{"version": "1.3", "taxonomy": [{"nodeId": 0, "nodeName": "Root", "parentId": null, "parentName": null}, {"nodeId": 1, "nodeName": "Polo", "parentId": 0, "parentName": "Root"}], "database": {"one": {"subset": "training", "annotations": [{"label": "Polo", "segment": [0.25, 1.5]}], "duration": 1.6}, "two": {"subset": "testing", "annotations": []}, "gone": {"subset": "validation", "annotations": []}, "torn": {"subset": "validation", "annotations": []}}}
	END
	run_tool 65 make-annotation -o out.json activitynet in.json data
	[ "$(printf '%s\n' "${lines[@]}" | cut -f1,2,4)" = $'#problem\tsubset\tvideo\nmissing\tvalidation\tgone\nunreadable\tvalidation\ttorn' ]
	[[ $(cat out.json) == *'"segment": [0.25, 1.5]}], "duration": 1.6'*', "fps": 29.97'*'}, "two": {"subset": "testing", "annotations": [], "fps": 25.0}, "gone": {"subset": "validation", "annotations": []},'* ]]
	printf '{"database": {}}' >none.json
	run_tool 65 make-annotation activitynet none.json data
	one_error 'none.json: no annotation of ActivityNet'
}
