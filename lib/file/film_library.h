/*
 * What reading video files needs of FFmpeg's libraries. They take a tenth of a second to load, so they are a plugin that is loaded
 * with the first video file; it exports `const struct film_library nightshift_film` and knows nothing of the programs that load it.
 * Functions return 0, FILM_END, or another status of base/error.h with a text in `message`.
 */
#ifndef NIGHTSHIFT_FILE_FILM_LIBRARY_H
#define NIGHTSHIFT_FILE_FILM_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#define FILM_LIBRARY_VERSION 2
enum { FILM_END = -1, FILM_MESSAGE = 256 };

/* Bytes offset .. offset + bytes - 1 of an open file. */
struct film_file {
	int descriptor;
	uint64_t offset, bytes;
	const char *name; /* its suffix helps to tell the container */
	int threads;      /* for decoding */
};

struct film_handle;
struct film_library {
	int version;
	int (*open)(const struct film_file *file, struct film_handle **film, char message[FILM_MESSAGE]);
	void (*close)(struct film_handle *film);
	/* Makes frame `number` (from 1) the present one; FILM_END: there are fewer. Going back begins anew. */
	int (*go)(struct film_handle *film, int64_t number, char message[FILM_MESSAGE]);
	void (*size)(const struct film_handle *film, int *height, int *width); /* of the present frame */
	/* The present frame as RGB, [height,width,3]. */
	int (*pixels)(struct film_handle *film, uint8_t *rgb, char message[FILM_MESSAGE]);
	/* Frames that went by so far; all of them once go() said FILM_END. */
	int64_t (*count)(const struct film_handle *film);
	double (*rate)(const struct film_handle *film); /* frames a second, the mean that the container states; 0: unknown */
};

#endif
