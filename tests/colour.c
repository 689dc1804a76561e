/* The colour table against matplotlib's (tests/golden/colour.tsv). */
#include "check.h"

#include "base/files.h"
#include "base/text.h"
#include "data/colour.h"

/* Whether our colour of the row's value is the row's. */
static bool row_agrees(char **field)
{
	double value;
	int64_t byte;
	uint8_t rgb[3];
	bool good = text_to_double(field[0], &value);
	float single = (float)value;
	colour_spectral(&single, 1, rgb);
	for (int i = 0; i < 3; i++)
		good = good && text_to_int64(field[1 + i], &byte) && byte == rgb[i];
	return good;
}

static void test_matplotlib(void)
{
	char *table, *line, *rest;
	size_t bytes;
	int rows = 0, wrong = 0;
	if (!check_status(
		    file_read("tests/golden/colour.tsv", 1 << 20, &table, &bytes), 0, "read colour.tsv"))
		return;
	rest = table;
	while ((line = strsep(&rest, "\n"))) {
		char *field[4];
		if (*line == '#' || text_split(line, '\t', field, 4) != 4)
			continue;
		rows++;
		wrong += !row_agrees(field);
	}
	check(rows > 1000, "a thousand values and more");
	check_report(!wrong, "bytes of matplotlib's Spectral", "%d of %d values differ", wrong, rows);
	free(table);
}

static void test_sums(void)
{
	static const int expected[3] = {48395, 42249, 34596};
	int sum[3] = {0};
	float value[256];
	uint8_t rgb[3 * 256];
	for (int i = 0; i < 256; i++)
		value[i] = (float)i / 256;
	colour_spectral(value, 256, rgb);
	for (int i = 0; i < 3 * 256; i++)
		sum[i % 3] += rgb[i];
	check(!memcmp(sum, expected, sizeof sum), "sums over the table");
	check(rgb[3 * 127] == 254 && rgb[3 * 127 + 1] == 254 && rgb[3 * 127 + 2] == 189, "entry 127");
}

static void test_nan(void)
{
	float value[2] = {NAN, 0};
	uint8_t rgb[6];
	colour_spectral(value, 2, rgb);
	check(!rgb[0] && !rgb[1] && !rgb[2] && rgb[3] == 158, "nan is black");
	colour_spectral(value, 0, NULL);
}

int main(void)
{
	test_matplotlib();
	test_sums();
	test_nan();
	return check_summary();
}
