/*
 * The run directory (DESIGN section 3): paths, the user's stop file, the done file, platform.cfg, staged/HOST.tsv.
 */
#ifndef NIGHTSHIFT_RUN_RUN_H
#define NIGHTSHIFT_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"

struct run {
	char *path;            /* absolute */
	struct config *config; /* RUN/config.cfg, owned */
};
/* STATUS_NO_INPUT when RUN or its config.cfg is missing (says how to make one). */
int run_open(const char *path, struct run *run);
void run_close(struct run *run);
/* RUN/relative, formatted; owned by the caller; NULL with a message. */
char *run_path(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* RUN/stop: made by the user. */
bool run_stop_asked(const struct run *run);
int run_stop_remove(const struct run *run);

/* RUN/done: "key value" lines step, digest, job, restart, epoch (0 in those of earlier versions). */
struct run_done {
	int64_t step;
	char digest[16];
	char job[64];
	int64_t restart;
	int64_t epoch;
};
int run_done_read(const struct run *run, bool *found, struct run_done *done);
int run_done_write(const struct run *run, const struct run_done *done);
int run_done_remove(const struct run *run);

/* RUN/platform.cfg, written by the first shift, obeyed by later ones. */
struct run_platform {
	int threads;           /* per process */
	char isa[16];          /* "plain", "avx2", "avx512" */
	char precision[16];    /* "f32", "bf16-amx", "bf16-avx512" */
	char device[16];       /* "cpu" */
	char model[128];       /* processor or device */
	char libraries[256];   /* names and versions */
	char program[65];      /* SHA-256 of the first shift's train-step-loop */
};
int run_platform_read(const struct run *run, bool *found, struct run_platform *platform);
int run_platform_write(const struct run *run, const struct run_platform *platform);

/* Where the data group `name` was staged on this host: the path from RUN/staged/HOST.tsv (NULL when there is none, when it was made
 * of something else than `source`, which is configured now, or when it is gone). Owned by the caller. */
int run_staged(const struct run *run, const char *name, const char *source, char **path);

#endif
