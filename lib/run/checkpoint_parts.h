/* What the files of the checkpoint module share: names, listing, text of the state, the judgement of one directory. */
#ifndef NIGHTSHIFT_RUN_CHECKPOINT_PARTS_H
#define NIGHTSHIFT_RUN_CHECKPOINT_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/text.h"
#include "run/checkpoint.h"
#include "run/manifest.h"

enum checkpoint_kind { CHECKPOINT_STEP, CHECKPOINT_WEIGHTS };
struct checkpoint_entry {
	enum checkpoint_kind kind;
	int64_t step;
};
/* RUN/checkpoints/step-00012000 or weights-00012000, with `suffix` behind it; owned by the caller. */
char *checkpoint_name(const struct run *run, enum checkpoint_kind kind, int64_t step, const char *suffix);
/* All of them, highest step first, of equal steps weights-* first; owned by the caller. Other names are passed over. */
int checkpoint_list(const struct run *run, struct checkpoint_entry **entries, size_t *count);

/* train.cfg's text. */
void train_state_format(const struct train_state *state, struct text *text);
/* Takes over `data`. Newer formats are STATUS_CONFIG, anything wrong is STATUS_DATA. */
int train_state_take(const char *path, char *data, size_t bytes, struct train_state *state);
/* Whether the state is of this step and this configuration (STATUS_CONFIG) and the logs reach as far as it says. */
int train_state_check(const struct train_state *state, const struct run *run, const char *path, int64_t step);

/* step-S.phase: the state's text, the sum of the MANIFEST it belongs to, and its own sum. *found false: none, or (with a warning)
 * one that is damaged or of another step-S. */
int phase_read(const struct run *run, int64_t step, uint32_t manifest, bool *found, struct train_state *state);

/* STATUS_OK when a resume would accept it: MANIFEST, every file, train.cfg, logs (weights-*: MANIFEST and files). `cold`: read from
 * the storage, not from memory. */
int checkpoint_judge(const struct run *run, const struct checkpoint_entry *entry, bool cold);
/* True for a status that says "this one is no good", false for one that says "this program cannot go on". */
bool checkpoint_is_damage(int status);

/* Removes a file or tree and keeps the present error message. */
void checkpoint_discard(const char *path);

#endif
