# shellcheck shell=bash disable=SC2154
# Lists of the datasets become annotations; what is wrong with videos is found before anything is queued.
load helper
setup() { enter_scratch; }

# some_frames DIR COUNT: a directory of that many frames.
some_frames() {
	[ -d pool ] || make-scenes clips -n 1 --frames 12 --size 32x32 pool
	mkdir -p "$1"
	for ((i = 1; i <= $2; i++)); do
		cp pool/moving-right/clip-00000/image_000"$(printf %02d "$i")".png "$1/"
	done
}

@test "kinetics: classes in the order of the training list, ids with six digits, the row of the original" {
	mkdir lists
	printf 'label,youtube_id,time_start,time_end,split\nb cls,id5,5,6,train\n"a, \303\251",id6,0,10,train\n' >lists/kinetics-400_train.csv
	printf 'label,youtube_id,time_start,time_end,split\r\nb cls,id8,5,6,val\r\n"a, \303\251",id9,1,2,val\r\n' >lists/kinetics-400_val.csv
	printf 'youtube_id,time_start,time_end,split\nzz,1,2,test\n' >lists/kinetics-400_test.csv
	some_frames 'data/b cls/id5_000005_000006' 5
	some_frames 'data/b cls/id8_000005_000006' 3
	some_frames $'data/a, \303\251/id6_000000_000010' 2
	some_frames $'data/a, \303\251/id9_000001_000002' 2
	run_tool 65 make-annotation -o out.json kinetics lists data
	[ "${#lines[@]}" -eq 2 ]
	[[ ${lines[1]} == $'missing\ttesting\t-\tzz_000001_000002\t'* ]]
	cat >expected <<-'END'
		{"labels": ["b cls", "a, \u00e9"], "database": {"id5_000005_000006": {"subset": "training", "annotations": {"label": "b cls", "segment": [1, 6]}}, "id6_000000_000010": {"subset": "training", "annotations": {"label": "a, \u00e9", "segment": [1, 3]}}, "id8_000005_000006": {"subset": "validation", "annotations": {"label": "b cls", "segment": [1, 4]}}, "id9_000001_000002": {"subset": "validation", "annotations": {"label": "a, \u00e9", "segment": [1, 3]}}, "zz_000001_000002": {"subset": "testing", "annotations": {}}}}
	END
	diff <(cat out.json && echo) expected
}

@test "what is wrong is one row each" {
	mkdir lists
	printf 'label,youtube_id,time_start,time_end\na,good,0,1\na,gap,0,1\na,torn,0,1\na,none,0,1\na,gone,0,1\nb,gone,0,1\n' >lists/train.csv
	printf 'label,youtube_id,time_start,time_end\na,good,0,1\nc,other,0,1\n' >lists/validate.csv
	for name in good gap torn; do some_frames data/a/"${name}_000000_000001" 6; done
	rm data/a/gap_000000_000001/image_00003.png
	head -c 500 data/a/torn_000000_000001/image_00006.png >x && mv x data/a/torn_000000_000001/image_00006.png
	mkdir data/a/none_000000_000001
	run_tool 65 make-annotation -o out.json kinetics lists data
	[ "$(printf '%s\n' "${lines[@]}" | cut -f1,4 | sed 1d | sort | tr '\t\n' ' ,')" = \
		'duplicate gone_000000_000001,duplicate good_000000_000001,empty none_000000_000001,gap gap_000000_000001,label other_000000_000001,missing gone_000000_000001,no-training -,no-validation -,unreadable torn_000000_000001,' ]
	[[ $output == *'1 of 6 frames are missing, the first is 3'* ]]
	# The annotation is usable all the same, and a second look finds the same.
	run_tool 65 make-annotation check out.json data
	[[ $output == *$'gap\ttraining\ta\tgap_000000_000001'* ]]
	[[ $stderr == *' 3 of them with frames'* ]]
	# Elsewhere there are none, and what was looked for is said.
	mkdir elsewhere
	run_tool 65 make-annotation check out.json elsewhere
	[[ $stderr == *' 0 of them with frames'*'the directory that holds CLASS/VIDEO'*'it was elsewhere, and --layout frames'* ]]
	run_tool 65 make-annotation --decode none check out.json data
	never grep -q unreadable <<<"$output"
}

@test "an annotation of more videos than are there: the trainer says what helps, and it does" {
	tiny_clips clips
	gone=$(find clips/growing -mindepth 1 -maxdepth 1 | sort | head -n 1)
	rm -r "$gone"
	mkconfig first classify-tiny data.train.clips.path="$PWD/clips"
	run_tool 66 train-step-loop first
	[[ $stderr == *'1 data files are missing, the first is '*"$gone"*'make-annotation -o NEW.json check ANNOTATION DATA'* ]]
	run_tool 65 make-annotation -o new.json check clips/annotation.json clips
	[[ $stderr == *'40 videos, 39 of them with frames; written to new.json'* ]]
	mkconfig second classify-tiny data.train.clips.path="$PWD/clips" data.train.clips.annotation=new.json
	run_tool 0 train-step-loop --dry-run second
}

@test "numbers that lie are found" {
	make-scenes clips -n 20 --frames 6 --size 32x32 --validation 2 shapes
	run_tool 0 make-annotation --decode all check shapes/annotation.json shapes
	[ "${#lines[@]}" -eq 1 ]
	sed -i 's/\[1, 7\]/[1, 9]/' shapes/annotation.json
	run_tool 65 make-annotation check shapes/annotation.json shapes
	[[ $output == *$'count\t'*'the annotation has frames 1 to 8, there are 1 to 6'* ]]
}

@test "ucf101" {
	mkdir lists
	printf '1 Apply\n2 Bow\n' >lists/classInd.txt
	printf 'Bow/v_Bow_g08_c01.avi 2\nApply/v_Apply_g08_c01.avi 1\n' >lists/trainlist02.txt
	printf 'Bow/v_Bow_g01_c01.avi\nApply/v_Apply_g01.c01.avi\n' >lists/testlist02.txt
	for name in Bow/v_Bow_g08_c01 Apply/v_Apply_g08_c01 Bow/v_Bow_g01_c01 Apply/v_Apply_g01.c01; do some_frames "data/$name" 2; done
	run_tool 0 make-annotation --split 2 -o out.json ucf101 lists data
	[ "$(cat out.json)" = '{"labels": ["Apply", "Bow"], "database": {"v_Bow_g08_c01": {"subset": "training", "annotations": {"label": "Bow", "segment": [1, 3]}}, "v_Apply_g08_c01": {"subset": "training", "annotations": {"label": "Apply", "segment": [1, 3]}}, "v_Bow_g01_c01": {"subset": "validation", "annotations": {"label": "Bow", "segment": [1, 3]}}, "v_Apply_g01.c01": {"subset": "validation", "annotations": {"label": "Apply", "segment": [1, 3]}}}}' ]
	run_tool 66 make-annotation --split 3 ucf101 lists data
	one_error 'trainlist03.txt'
	printf 'nonsense\n' >lists/trainlist02.txt
	run_tool 65 make-annotation --split 2 ucf101 lists data
	one_error 'trainlist02.txt:1: "Class/file.avi" is expected'
}

@test "hmdb51: a stray file adds no class, marks 0 are passed over" {
	mkdir lists
	printf 'x_turn_1.avi 1 \ny_turn_2.avi 2 \nz_turn_3.avi 0 \n' >lists/turn_test_split1.txt
	printf 'a #1.avi 1\nb.avi 2\n' >lists/brush_hair_test_split1.txt
	printf 'c.avi 1\n' >lists/brush_hair_test_split2.txt
	touch lists/README lists/_test_split1.txt
	for name in turn/x_turn_1 turn/y_turn_2 'brush_hair/a #1' brush_hair/b; do some_frames "data/$name" 2; done
	run_tool 0 make-annotation -o out.json hmdb51 lists data
	[[ $(cat out.json) == '{"labels": ["brush_hair", "turn"], "database": {"a #1": {"subset": "training", "annotations": {"label": "brush_hair", "segment": [1, 3]}}, "b": {"subset": "validation"'* ]]
	[ "$(grep -o '"subset"' out.json | wc -l)" -eq 4 ]
}

@test "mit" {
	mkdir lists
	printf 'zipping,0\nadult+male+singing,1\n' >lists/moments_categories.txt
	printf 'zipping/one.mp4,zipping,3,0\nadult+male+singing/two.mp4,adult+male+singing,3,0\n' >lists/trainingSet.csv
	printf 'zipping/three.mp4,zipping,3,0\nadult+male+singing/five.mp4,adult+male+singing,3,0\n' >lists/validationSet.csv
	printf 'four.mp4\n' >lists/testingSet.csv
	for name in zipping/one adult+male+singing/two zipping/three adult+male+singing/five test/four; do some_frames "data/$name" 2; done
	run_tool 0 make-annotation -o out.json mit lists data
	[[ $(cat out.json) == '{"labels": ["zipping", "adult+male+singing"], "database": {"one": {"subset": "training"'*'"four": {"subset": "testing", "annotations": {"segment": [1, 3]}}}}' ]]
}

@test "folders: a share of each class is for validation, the same for the same seed" {
	make-scenes clips -n 40 --frames 3 --size 16x16 shapes
	run_tool 0 make-annotation --validation 0.25 -o one.json folders shapes
	[[ $stderr == *'10 classes, 40 videos, 40 of them with frames; written to one.json'* ]]
	[ "$(grep -o '"validation"' one.json | wc -l)" -eq 10 ]
	run_tool 0 make-annotation --validation 0.25 -o two.json folders shapes
	cmp one.json two.json
	run_tool 0 make-annotation --validation 0.25 --seed 9 -o three.json folders shapes
	never cmp -s one.json three.json
}

@test "calls that cannot be are one line" {
	mkdir lists data
	run_tool 64 make-annotation
	one_error 'the form of the lists comes first'
	run_tool 64 make-annotation kinetics lists
	one_error 'takes the lists'
	run_tool 64 make-annotation --decode most folders data
	one_error 'none, some or all'
	run_tool 66 make-annotation kinetics lists data
	one_error 'no list \*train.csv there'
	printf 'label,youtube_id\na,b\n' >lists/train.csv
	run_tool 65 make-annotation kinetics lists data
	one_error 'train.csv:2: a column of label'
	printf 'label,youtube_id,time_start,time_end\n"a,b,1,2\n' >lists/train.csv
	run_tool 65 make-annotation kinetics lists data
	one_error 'train.csv:2: a quote is never closed'
	run_tool 66 make-annotation check nowhere.json data
	one_error 'nowhere.json'
	run_tool 78 make-annotation --layout tapes folders data
	one_error 'layout tapes: must be one of frames'
}

# packed DIR: the path of its pack.
packed() {
	mkdir -p there
	stage-data --pack --to there "$1" 2>/dev/null | tail -n 1 | cut -f2
}

@test "a pack reads as its directory: frames, hdf5, video files" {
	make-scenes clips -n 20 --frames 4 --size 32x32 --validation 2 shapes
	pack=$(packed shapes)
	[ -f "$pack" ]
	run_tool 0 make-annotation --decode all check shapes/annotation.json "$pack"
	mkdir -p tapes/a films/a
	cp "$ROOT"/tests/golden/video/{plain,latest}.hdf5 tapes/a/
	cp "$ROOT/tests/corpus/film/vp8.webm" "$ROOT/tests/corpus/film/h264.mp4" films/a/
	for set in "frames shapes" "hdf5 tapes" "video films"; do
		read -r layout directory <<<"$set"
		[ "$layout" != video ] || [ -f "$ROOT/build/nightshift-film.so" ] || continue
		pack=$(packed "$directory")
		make-annotation --layout "$layout" -o there.json folders "$pack" 2>/dev/null
		make-annotation --layout "$layout" -o here.json folders "$directory" 2>/dev/null
		cmp here.json there.json
		"$ROOT/build/tests/tools/frame-sums" "$layout" "$directory" >here
		"$ROOT/build/tests/tools/frame-sums" "$layout" "$pack" >there.sums
		diff here there.sums
		[ "$(wc -l <here)" -gt 3 ]
	done
}
