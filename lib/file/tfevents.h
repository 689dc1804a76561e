/*
 * TensorBoard event files (spec/formats.md section 1), messages by protobuf-c or encoded by hand for the five fields needed.
 *
 * One file a shift. Names sort by time: the seconds field is greater than that of every event file in the directory.
 * tfevents_sync() makes what was added durable and gives the length for the checkpoint.
 */
#ifndef NIGHTSHIFT_FILE_TFEVENTS_H
#define NIGHTSHIFT_FILE_TFEVENTS_H

#include <stddef.h>
#include <stdint.h>

struct tfevents;
/* Opens a new file in `directory` with file_version and session START at `first_step`. */
int tfevents_open(const char *directory, int64_t first_step, struct tfevents **events);
const char *tfevents_name(const struct tfevents *events); /* base name */
int tfevents_scalar(struct tfevents *events, int64_t step, const char *tag, double value);
int tfevents_image(struct tfevents *events, int64_t step, const char *tag, int width, int height, const void *png, size_t bytes);
int tfevents_text(struct tfevents *events, int64_t step, const char *tag, const char *markdown);
/* Flush and fsync; *bytes is the file's length. */
int tfevents_sync(struct tfevents *events, uint64_t *bytes);
int tfevents_close(struct tfevents *events); /* sync and free; NULL is fine */

/* Raw scan for tests and `report`: calls event(context, step, tag, value) for each scalar and image (value nan).
 * A torn last record ends the scan quietly (*torn = 1); a wrong checksum is STATUS_DATA. */
int tfevents_scan(const char *path, int (*event)(void *context, int64_t step, const char *tag, double value), void *context, int *torn);

#endif
