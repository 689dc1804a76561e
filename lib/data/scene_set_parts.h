/* For the kinds of scene sets: what a kind does, and what is the same for all. */
#ifndef NIGHTSHIFT_DATA_SCENE_SET_PARTS_H
#define NIGHTSHIFT_DATA_SCENE_SET_PARTS_H

#include <stdbool.h>

#include "base/text.h"
#include "data/scene_set.h"

struct scene_maker {
	void (*settings)(const struct scene_set *set, struct text *text); /* scenes.txt */
	int (*directories)(const struct scene_set *set);
	/* Renders scene `index` unless it is there; *made: it was not. */
	int (*scene)(const struct scene_set *set, int64_t index, bool *made);
	int (*table)(const struct scene_set *set);
};
extern const struct scene_maker scene_clips_maker;

/* DIRECTORY/BEFORE00017AFTER; owned by the caller, NULL with a message. */
char *scene_path(const struct scene_set *set, const char *before, int64_t index, const char *after);
/* STATUS_AGAIN once a notice has come. */
int scene_may_go_on(int64_t index);

#endif
