/*
 * TensorBoard event files (spec/formats.md section 1). The few messages needed are encoded by hand.
 *
 * One file a shift. Names sort by time: the seconds field is greater than that of every event file in the directory.
 * Events are collected in memory and written as whole records; tfevents_sync() makes what was added durable and gives
 * the length for the checkpoint. Steps are 0 or more.
 */
#ifndef NIGHTSHIFT_FILE_TFEVENTS_H
#define NIGHTSHIFT_FILE_TFEVENTS_H

#include <stddef.h>
#include <stdint.h>

struct tfevents;
/* Opens (and makes durable) a new file in `directory` with file_version and session START at `first_step`. */
int tfevents_open(const char *directory, int64_t first_step, struct tfevents **events);
const char *tfevents_name(const struct tfevents *events); /* base name */
int tfevents_scalar(struct tfevents *events, int64_t step, const char *tag, double value);
/* `png` is a whole PNG file of that size, grey or RGB. */
int tfevents_image(struct tfevents *events, int64_t step, const char *tag, int width, int height,
	const void *png, size_t bytes);
int tfevents_text(struct tfevents *events, int64_t step, const char *tag, const char *markdown);
int tfevents_flush(struct tfevents *events); /* writes what was added, so that readers see it */
/* Flush and fsync; *bytes is the file's length. */
int tfevents_sync(struct tfevents *events, uint64_t *bytes);
int tfevents_close(struct tfevents *events); /* sync and free; NULL is fine */

/* The format's masked CRC-32C. */
uint32_t tfevents_checksum(const void *data, size_t bytes);
/* Raw scan for tests and `report`: calls event(context, step, tag, value) for each value (nan where it is not a scalar);
 * its status, when not 0, ends the scan. A torn last record ends the scan quietly (*torn = 1); a wrong checksum or
 * a message that is not well-formed is STATUS_DATA. */
int tfevents_scan(const char *path, int (*event)(void *context, int64_t step, const char *tag, double value),
	void *context, int *torn);
/* The same from memory; `name` is for messages. */
int tfevents_scan_bytes(const char *name, const void *data, size_t bytes,
	int (*event)(void *context, int64_t step, const char *tag, double value), void *context, int *torn);

#endif
