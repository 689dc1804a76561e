/*
 * Video files (mp4, mov, mkv, webm, avi) by FFmpeg's libraries: frames by number, from 1, each with the number and the pixels that
 * `ffmpeg -i FILE image_%05d.png` gives it where the video has 8 bits (others are brought to 8 bits). One thread at a time.
 */
#ifndef NIGHTSHIFT_FILE_FILM_H
#define NIGHTSHIFT_FILE_FILM_H

#include <stdint.h>

#include "file/source.h"

struct film;
/* `name` is for messages; decoding takes up to `threads` threads, to the same frames. STATUS_UNAVAILABLE: this build has no such part. STATUS_DATA: no video that can be read. */
int film_open(const char *name, const struct source_place *place, int threads, struct film **film);
void film_close(struct film *film);
/* Makes frame `number` the present one, going forward from the present, or from the beginning. STATUS_NO_INPUT: there are fewer. */
int film_go(struct film *film, int64_t number);
void film_size(const struct film *film, int *height, int *width); /* of the present frame */
int film_pixels(struct film *film, uint8_t *rgb);                 /* of the present frame, [height,width,3] */
/* Decodes all that is left. */
int film_count(struct film *film, int64_t *count);
double film_rate(const struct film *film); /* frames a second, as the file states it; 0: it does not */

#endif
