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

/* The parts of a resume. A file of tensors of the model or the optimizer: */
bool checkpoint_is_tensors(const struct manifest_file *file);
/* takes over its bytes (from malloc) as tensors; */
int checkpoint_take_tensors(const char *directory, const struct manifest_file *file, char *data, struct checkpoint *checkpoint);
/* once all are there: path, digest, and what must hold over all files; */
int checkpoint_finish(const char *directory, const struct manifest *manifest, struct checkpoint *checkpoint);
int checkpoint_read_state(const char *directory, const struct manifest_file *file, struct train_state *state);
/* checks the state of step-S and replaces it by that of a valid step-S.phase; */
int checkpoint_later_phase(const struct run *run, int64_t step, const char *path, const struct manifest *manifest,
	struct train_state *state);
/* the error when there are checkpoints but none is good. */
int checkpoint_none_usable(const struct run *run, size_t seen);

/* STATUS_OK when a resume would accept it: MANIFEST, every file, train.cfg, logs (weights-*: MANIFEST and files). `cold`: read from
 * the storage, not from memory. */
int checkpoint_judge(const struct run *run, const struct checkpoint_entry *entry, bool cold);
/* True for a status that says "this one is no good", false for one that says "this program cannot go on". */
bool checkpoint_is_damage(int status);

/* Removes a file or tree and keeps the present error message. */
void checkpoint_discard(const char *path);

#endif
