/* Numbers, sizes, times and fields as users and files write them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "fuzz.h"

static int parse_text(const void *data, size_t bytes)
{
	int64_t integer;
	uint64_t size;
	double number;
	char buffer[32], *field[4];
	struct text back = {0};
	char *text = memory_new(bytes + 1, 1);
	if (!text)
		return error_status();
	if (bytes)
		memcpy(text, data, bytes);
	bool taken = text_to_int64(text, &integer);
	if (text_to_bytes(text, &size))
		taken = *text_of_bytes(size, buffer);
	if (text_to_seconds(text, &number))
		taken = *text_of_seconds(number, buffer);
	if (!clock_parse(text, &number))
		taken = *clock_text(number, buffer);
	if (text_to_double(text, &number)) {
		double again = 0;
		text_number(&back, number);
		if (!text_to_double(back.data, &again) || (again != number && !isnan(number)))
			abort(); /* what we print does not read back */
		taken = true;
	}
	text_unescape(text);
	text_split(text, '\t', field, 4);
	text_release(&back);
	free(text);
	return taken ? STATUS_OK : STATUS_DATA;
}

const struct fuzz_parser fuzz_base[] = {{"text", parse_text}, {0}};
