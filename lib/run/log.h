/*
 * The logs of a run: append-only tables whose recorded length decides what exists (DESIGN section 3).
 *
 * "Exact" logs (step.tsv, epoch.tsv, val.tsv, the event files) are flushed and fsynced before the checkpoint that records
 * their lengths is published, and cut to those lengths on resume. "Loose" ones (time.tsv, train.log) are only appended to.
 */
#ifndef NIGHTSHIFT_RUN_LOG_H
#define NIGHTSHIFT_RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "run/shift.h"

struct log_length {
	char name[128]; /* relative to RUN: "log/step.tsv", "events.out.tfevents...." */
	uint64_t bytes;
};
struct log_lengths {
	struct log_length *item; /* owned */
	size_t count;
};
void log_lengths_release(struct log_lengths *lengths);
int log_lengths_add(struct log_lengths *lengths, const char *name, uint64_t bytes);

/* Whether the exact logs of RUN are at least as long as `lengths` says: STATUS_DATA names one that is not (the checkpoint that
 * records them is then invalid) or that is no log's name. One that is missing altogether does not count: a user removed it, and no older
 * checkpoint knows its rows better; but an event file that is missing while one stands that is not named is STATUS_DATA. Changes
 * nothing. */
int logs_check(const struct run *run, const struct log_lengths *lengths);

struct logs;
/* Fence; cuts the exact logs to `lengths` (those of the checkpoint resumed from; NULL: a fresh start, all exact logs go); opens the
 * tables for appending, creating them with their header line; opens a new event file that starts at first_step.
 * A cut copies the first bytes to a new file and renames that over the old one, always: a late line of an older shift that still
 * has the old file open is lost with it. Tables and event files that are not named are removed; one
 * that is named and missing is a warning. `columns` ("accuracy\ttop5", "" for none) stand behind those that every step.tsv and
 * epoch.tsv has. */
int logs_open(const struct shift *shift, const struct log_lengths *lengths, int64_t first_step, const char *columns,
	struct logs **logs);
enum log_table { LOG_STEP, LOG_EPOCH, LOG_VAL, LOG_TIME };
/* Adds one line (fields separated by tabs, without the newline). Buffered. */
int logs_row(struct logs *logs, enum log_table table, const char *line);
int logs_scalar(struct logs *logs, int64_t step, const char *tag, double value);
int logs_image(struct logs *logs, int64_t step, const char *tag, int width, int height, const void *png, size_t bytes);
/* A line of log/train.log (time, shift, text), written at once, also by a shift that is fenced. */
int logs_text(struct logs *logs, const char *text);
/* Fence, then flush and fsync everything; *lengths (released and refilled) are those of the exact logs, the event files of earlier
 * shifts included. STATUS_IO when somebody else wrote to or replaced a log meanwhile. */
int logs_sync(struct logs *logs, struct log_lengths *lengths);
/* Flushes without fsync (so that people see progress); fence first. */
int logs_flush(struct logs *logs);
int logs_close(struct logs *logs); /* syncs and frees; NULL is fine */
/* Frees without writing what is still buffered: for a shift that was fenced or failed. NULL is fine. */
void logs_discard(struct logs *logs);

#endif
