/* The "Spectral" colour table (spec/marigold.md 7.8): near to far, 256 entries, bytes equal to the original's. */
#ifndef NIGHTSHIFT_DATA_COLOUR_H
#define NIGHTSHIFT_DATA_COLOUR_H

#include <stddef.h>
#include <stdint.h>

/* value in [0,1] (clamped; nan becomes black) -> 3 bytes each. */
void colour_spectral(const float *value, size_t count, uint8_t *rgb);

#endif
