/*
 * Directories of synthetic scenes, as make-scenes(1) describes them: rooms with depth (layout "plain"), and clips (frame
 * directories with an annotation).
 *
 * A directory holds scenes of one kind, seed and size: its scenes.txt says which, and is written before any scene. A scene
 * that is there is not rendered again, and each appears whole or not at all, so that a call which was interrupted is repeated.
 */
#ifndef NIGHTSHIFT_DATA_SCENE_SET_H
#define NIGHTSHIFT_DATA_SCENE_SET_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum scene_kind { SCENES_DEPTH, SCENES_CLIPS };

struct scene_set {
	enum scene_kind kind;
	const char *directory;
	int64_t seed, first, count;
	int height, width;
	int frames;         /* of a clip */
	int64_t validation; /* every validation-th clip of each class is for validation; 0: none */
	atomic_size_t rendered; /* scenes that were not there; filled */
};

/* Renders what is missing of scenes first .. first+count-1 on all processors, then writes the table of all scenes that are
 * there (list.txt, annotation.json). STATUS_DATA: other scenes are there; STATUS_AGAIN: signals_notice(). */
int scene_set_make(struct scene_set *set);

#endif
