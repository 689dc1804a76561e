/* The "Spectral" colour table. */
#include "data/colour.h"

#include <math.h>
#include <string.h>

enum { ENTRIES = 256, ANCHORS = 11 };

static const uint8_t anchors[ANCHORS][3] = {{158, 1, 66}, {213, 62, 79}, {244, 109, 67}, {253, 174, 97},
	{254, 224, 139}, {255, 255, 191}, {230, 245, 152}, {171, 221, 164}, {102, 194, 165}, {50, 136, 189},
	{94, 79, 162}};

/* Entry i lies at 10 i / 255 between the anchors: whole numbers suffice. In two entries the original's floating point
 * falls just below an integer. */
static void make_table(uint8_t table[ENTRIES][3])
{
	static const uint8_t rounded_down[][4] = {{68, 250, 152, 86}, {85, 253, 190, 110}};
	for (int i = 0; i < ENTRIES; i++) {
		int place = i * (ANCHORS - 1), last = ENTRIES - 1;
		int anchor = place / last < ANCHORS - 1 ? place / last : ANCHORS - 2;
		int part = place - anchor * last;
		for (int k = 0; k < 3; k++)
			table[i][k] = (uint8_t)((anchors[anchor][k] * (last - part) +
							anchors[anchor + 1][k] * part) /
						last);
	}
	for (size_t i = 0; i < sizeof rounded_down / sizeof *rounded_down; i++)
		memcpy(table[rounded_down[i][0]], &rounded_down[i][1], 3);
}

void colour_spectral(const float *value, size_t count, uint8_t *rgb)
{
	uint8_t table[ENTRIES][3];
	make_table(table);
	for (size_t i = 0; i < count; i++, rgb += 3) {
		float place = value[i] * ENTRIES;
		if (isnan(place))
			memset(rgb, 0, 3);
		else
			memcpy(rgb, table[place < 0 ? 0 : place >= ENTRIES ? ENTRIES - 1 : (int)place], 3);
	}
}
