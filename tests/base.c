/* lib/base: what every other part stands on. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/random.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/threads.h"
#include "check.h"
#include "comm/comm.h"

static void test_errors(void)
{
	check(error_set(STATUS_DATA, "%s:%d: bad", "a.cfg", 3) == 65, "error_set() returns the status");
	check(error_prefix("run %s", "r1") == 65, "error_prefix() keeps the status");
	check_text(error_message(), "run r1: a.cfg:3: bad", "the context stands in front");
	error_set(STATUS_FAILURE, "again: %s", error_message());
	check_text(error_message(), "again: run r1: a.cfg:3: bad",
		"the old message may be an argument of the new one");
	const int pairs[][2] = {{ENOENT, 66}, {EACCES, 77}, {EPERM, 77}, {EROFS, 77}, {ENOSPC, 73},
		{EDQUOT, 73}, {EFBIG, 73}, {EIO, 74}};
	bool good = true;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		errno = pairs[i][0];
		good = good && error_errno(0, "x") == pairs[i][1];
	}
	check(good, "statuses of errno");
	errno = ENOSPC;
	check(error_errno(STATUS_IO, "log") == 74, "a given status wins");
	check_text(error_message(), "log: No space left on device", "text of errno");
	char *longer = memory_new(5000, 1);
	memset(longer, 'x', 4999);
	error_set(STATUS_FAILURE, "%s", longer);
	error_prefix("%s", longer);
	check(strlen(error_message()) < 5000, "a long message is cut");
	free(longer);
	error_clear();
	check(!error_status() && !*error_message(), "error_clear()");
}

static void test_memory(void)
{
	size_t value;
	check(size_multiply(SIZE_MAX / 2, 3, &value) == STATUS_FAILURE, "product overflow");
	check(size_add(SIZE_MAX, 1, &value) == STATUS_FAILURE, "sum overflow");
	check(!size_multiply(3, 4, &value) && value == 12, "product");
	check(!memory_new(SIZE_MAX / 2, 3) && error_status() == STATUS_FAILURE,
		"memory_new() refuses an overflow");
	void *empty = memory_new(0, 8);
	check(empty, "a count of 0 gives a pointer");
	free(empty);
	int *numbers = NULL;
	size_t capacity = 0;
	bool zero = true;
	for (size_t count = 1; count < 1000 && !memory_grow(&numbers, &capacity, count, sizeof *numbers);
		count++) {
		zero = zero && numbers[count - 1] == 0;
		numbers[count - 1] = (int)count;
	}
	check(zero && numbers[0] == 1 && numbers[998] == 999,
		"growing keeps the old part and zeroes the new");
	free(numbers);
	float *aligned = memory_aligned(100);
	check((uintptr_t)aligned % 64 == 0 && aligned[24] == 0, "aligned and zeroed");
	free(aligned);
}

static const char *number_text(double value, struct text *text)
{
	text_clear(text);
	text_number(text, value);
	return text->data;
}

static void test_number_formats(void)
{
	struct text text = {0};
	check_text(number_text(0.1, &text), "0.1", "0.1 needs 15 digits at most");
	check_text(number_text(0.1 + 0.2, &text), "0.30000000000000004", "17 digits where they are needed");
	check_text(number_text(-0.0, &text), "-0", "minus zero");
	check_text(number_text(NAN, &text), "nan", "nan");
	check_text(number_text(-INFINITY, &text), "-inf", "-inf");
	struct random r = random_stream(1, "numbers");
	bool good = true;
	for (uint32_t i = 0; i < 20000 && good; i++) {
		uint64_t bits = random_bits(r, 0, 0, i);
		double value, back = 0;
		memcpy(&value, &bits, sizeof value);
		good = !isfinite(value) ||
		       (text_to_double(number_text(value, &text), &back) && back == value);
	}
	check(good, "20000 random bit patterns read back equal");
	text_clear(&text);
	text_field(&text, "a\tb\nc\\t");
	check_text(text.data, "a\\tb\\nc\\\\t", "escapes of a table field");
	text_unescape(text.data);
	check_text(text.data, "a\tb\nc\\t", "and back");
	text_release(&text);
}

static void test_parsing(void)
{
	int64_t i = 7;
	uint64_t u = 7;
	double d = 7;
	check(text_to_int64("-9223372036854775808", &i) && i == INT64_MIN, "smallest integer");
	i = 7;
	check(!text_to_int64("9223372036854775808", &i) && i == 7, "one more than the largest is refused");
	check(!text_to_int64("", &i) && !text_to_int64(" 1", &i) && !text_to_int64("1 ", &i) &&
			!text_to_int64("0x1", &i) && !text_to_int64("1.0", &i) && !text_to_int64("-", &i),
		"integers are strict");
	check(text_to_uint64("18446744073709551615", &u) && u == UINT64_MAX && !text_to_uint64("-1", &u),
		"unsigned");
	check(text_to_double("-1.5e-3", &d) && d == -1.5e-3 && text_to_double(".5", &d) && d == 0.5,
		"numbers");
	check(text_to_double("nan", &d) && isnan(d) && text_to_double("-inf", &d) && d == -INFINITY,
		"nan and -inf");
	check(!text_to_double("1e999", &d) && !text_to_double("0x1p3", &d) && !text_to_double("1,5", &d) &&
			!text_to_double("1e", &d) && !text_to_double(".", &d) &&
			!text_to_double("infinity", &d),
		"numbers are strict");
	check(text_to_bytes("18 GiB", &u) && u == 18ull << 30 && text_to_bytes("500 MB", &u) &&
			u == 500000000 && text_to_bytes("1.5K", &u) && u == 1536 &&
			text_to_bytes("123", &u) && u == 123,
		"sizes");
	check(!text_to_bytes("", &u) && !text_to_bytes("-1", &u) && !text_to_bytes("3 XB", &u) &&
			!text_to_bytes("1e30 GB", &u) && !text_to_bytes("99999999999 PiB", &u),
		"sizes are strict");
	static const struct {
		const char *text;
		double seconds;
	} times[] = {{"55m", 3300}, {"2h30m", 9000}, {"90s", 90}, {"1-02:03:04", 93784}, {"02:03:04", 7384},
		{"90", 90}, {"1d", 86400}, {"1.5h", 5400}, {"0", 0}, {"05:30", 330}};
	bool good = true;
	for (size_t k = 0; k < sizeof times / sizeof *times; k++)
		good = good && text_to_seconds(times[k].text, &d) && d == times[k].seconds;
	check(good, "times");
	static const char *const bad[] = {
		"", "m", "5x", "1m2h", "5m5m", "-5", "1:", ":1", "1:2:3:4", "2h30", "1-2:3", "-1:00", "1::2"};
	good = true;
	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
		good = good && !text_to_seconds(bad[k], &d);
	check(good, "times are strict");
}

static const char *const words[] = {"batch.size", "batch.micro", "train.steps"};

static const char *word(const void *context, size_t i)
{
	return ((const char *const *)context)[i];
}

static void test_text(void)
{
	struct text text = {0};
	for (int i = 0; i < 1000; i++)
		text_format(&text, "%d,", i);
	check(text.length == 3890 && !text_check(&text), "a text grows");
	char *taken = text_take(&text);
	check(strlen(taken) == 3890 && !text.data, "text_take() gives it away");
	free(taken);
	taken = text_take(&text);
	check_text(taken, "", "an empty one is an empty string");
	free(taken);
	char line[] = "a\t\tb\tc", *field[8];
	check(text_split(line, '\t', field, 3) == 3 && !*field[1] && !strcmp(field[2], "b\tc"),
		"the rest stays in the last field");
	check(text_distance("kitten", "sitting") == 3, "edit distance");
	const char *near = text_nearest("batch.sise", 3, word, words);
	check(near && !strcmp(near, "batch.size"), "nearest name");
	check(!text_nearest("zzzzzz", 3, word, words), "nothing is near");
	check(text_match("fc.*", "fc.weight") && text_match("*.b?as", "a.bias") &&
			!text_match("fc.?", "fc.") && text_match("*a*b", "xaxxb") &&
			!text_match("a*b", "a*bc"),
		"patterns");
	char buffer[32];
	check_text(text_of_bytes(1536, buffer), "1.5 KiB", "bytes for people");
	check_text(text_of_seconds(3723, buffer), "1:02:03", "seconds for people");
	check_text(text_of_seconds(93784, buffer), "1-02:03:04", "days for people");
}

/* A path below the scratch directory; sixteen at a time. */
static const char *scratch(const char *name)
{
	static char path[16][512];
	static int next;
	next = (next + 1) % 16;
	snprintf(path[next], sizeof path[next], "%s/%s", check_scratch(), name);
	return path[next];
}

static bool holds(const char *path, const char *text)
{
	char *data;
	size_t bytes;
	if (file_read(path, 1 << 20, &data, &bytes))
		return false;
	bool same = bytes == strlen(text) && !memcmp(data, text, bytes);
	free(data);
	return same;
}

static size_t entries(const char *directory)
{
	struct names names;
	size_t count = file_list(directory, &names) ? 0 : names.count;
	names_release(&names);
	return count;
}

static void test_files(void)
{
	char *data;
	size_t bytes;
	const char *directory = scratch("f"), *path = scratch("f/a");
	check_status(file_make_directories(scratch("f/deep/er")), 0, "directories");
	check_status(file_make_directories(scratch("f/deep/er")), 0, "again");
	check_status(file_remove_tree(scratch("f/deep")), 0, "a tree goes");
	check_status(file_publish(path, "hello\n", 6), 0, "publish");
	check(holds(path, "hello\n") && entries(directory) == 1, "the content, and no temporary file");
	check_status(file_read(path, 5, &data, &bytes), STATUS_DATA, "longer than the limit");
	check_status(file_read(path, 6, &data, &bytes), 0, "exactly the limit");
	check(data[6] == 0, "a NUL behind it");
	free(data);
	check_status(file_read(scratch("f/none"), 5, &data, &bytes), STATUS_NO_INPUT, "missing file");
	check(strstr(error_message(), "f/none: No such file"), "the message names it");
	check_status(file_read(directory, 5, &data, &bytes), STATUS_NO_INPUT, "a directory is no file");
	check(!file_read("/proc/self/status", 1 << 20, &data, &bytes) && bytes > 100,
		"files without a size are read whole");
	free(data);
	check_status(
		file_publish(scratch("none/a"), "x", 1), STATUS_CANNOT_CREATE, "no directory to publish in");
	check_status(file_cut(path, 3), 0, "cut");
	check(holds(path, "hel"), "the first bytes are left");
	check_status(file_cut(path, 3), 0, "a cut to the present length");
	check_status(file_cut(path, 4), STATUS_DATA, "a cut beyond the end");
	check(holds(path, "hel") && entries(directory) == 1, "leaves all as it was");
	check_status(file_remove(scratch("f/none")), 0, "removing what is missing");
	check_status(symlink("/", scratch("f/link")), 0, "symbolic link");
	check_status(file_remove_tree(directory), 0, "a tree with a link to / goes");
	check(file_is_directory("/") && !file_exists(directory), "the link was not followed");
}

static void test_publish(void)
{
	struct publish publish = {0};
	const char *path = scratch("p");
	publish_abandon(&publish);
	file_publish(path, "old", 3);
	publish_tag("shift-7");
	check_status(publish_open(&publish, path), 0, "open");
	check(strstr(publish.temporary, "shift-7"), "the tag is in the temporary name");
	publish_tag(NULL);
	publish_write(&publish, "12345", 5);
	publish_write(&publish, "6789", 4);
	check(publish.crc == 0xe3069283 && publish.bytes == 9, "checksum while writing");
	check(holds(path, "old"), "the old file stands until the commit");
	publish_abandon(&publish);
	check(holds(path, "old") && entries(check_scratch()) == 1, "abandoned: nothing is left");
	/* A limit on the file size is a full disk that needs no mount. */
	struct rlimit limit = {.rlim_cur = 1 << 16, .rlim_max = RLIM_INFINITY}, before;
	getrlimit(RLIMIT_FSIZE, &before);
	limit.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &limit);
	char *block = memory_new(1 << 17, 1);
	check_status(file_publish(path, block, 1 << 17), STATUS_CANNOT_CREATE, "a write that fails half way");
	setrlimit(RLIMIT_FSIZE, &before);
	check(holds(path, "old") && entries(check_scratch()) == 1, "leaves the old file and nothing else");
	free(block);
	file_remove(path);
}

static void check_path(char *path, const char *expected, const char *name)
{
	check_text(path, expected, name);
	free(path);
}

static void test_paths(void)
{
	check_path(path_join("a", "b"), "a/b", "join");
	check_path(path_join("a/", "b"), "a/b", "join with a slash there");
	check_path(path_join("a", "/b"), "/b", "join with an absolute one");
	check_path(path_join("", "b"), "b", "join with nothing");
	check_path(path_absolute("/a/./b/../c//d/"), "/a/c/d", "absolute");
	check_path(path_absolute("/../.."), "/", "not above the root");
	check_path(path_directory("a/b"), "a", "directory");
	check_path(path_directory("a"), ".", "directory of a plain name");
	check_path(path_directory("/a"), "/", "directory below the root");
	check_path(path_directory("a/b//"), "a", "directory of a name that ends in slashes");
	check_text(path_base("a/b.c"), "b.c", "base");
	check(path_is_inside("a/b") && path_is_inside("a/..b") && !path_is_inside("/a") &&
			!path_is_inside("a/../b") && !path_is_inside("") && !path_is_inside(".."),
		"what stays inside");
}

static void test_clock(void)
{
	char buffer[32];
	double wall = 0;
	check_text(clock_text(1769862896, buffer), "2026-01-31T12:34:56Z", "time as text");
	setenv("TZ", "UTC0", 1);
	tzset();
	check(!clock_parse("2026-01-31T12:34:56", &wall) && wall == 1769862896, "date and time");
	check(!clock_parse("2026-01-31T12:34", &wall) && wall == 1769862840, "without seconds");
	check(!clock_parse("1769862896", &wall) && wall == 1769862896, "epoch seconds");
	double now = clock_wall();
	check(!clock_parse("03:00", &wall) && wall > now - 1 && wall <= now + 86400 &&
			fmod(wall, 86400) == 10800,
		"the next 03:00");
	static const char *const bad[] = {"", "3:00", "24:00", "12:60", "12:00:", "12", "2026-02-30T00:00",
		"2026-13-01T00:00", "2026-01-31", "2026-01-31T12", "noon", "-5", "12:00x"};
	bool good = true;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (strcmp(bad[i], "12") && !clock_parse(bad[i], &wall))
			good = check_report(false, bad[i], "was taken as a time");
	check(good, "what is no time is refused");
	double before = clock_seconds();
	clock_sleep(0.02);
	check(clock_seconds() - before >= 0.02, "sleep");
}

static void test_digest(void)
{
	unsigned char data[1000];
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (unsigned char)(i * 7 + i / 256);
	check(crc32c(0, "123456789", 9) == 0xe3069283, "CRC-32C check value");
	unsigned char zeros[32] = {0};
	check(crc32c(0, zeros, 32) == 0x8a9136aa, "CRC-32C of 32 zeros (RFC 3720)");
	bool same = true, joins = true;
	for (size_t start = 0; start < 9; start++)
		for (size_t length = 0; length + start < sizeof data; length += 13) {
			uint32_t all = crc32c(0, data + start, length),
				 head = crc32c(0, data + start, length / 3);
			uint32_t tail = crc32c(0, data + start + length / 3, length - length / 3);
			same = same && all == crc32c_software(0, data + start, length);
			joins = joins && all == crc32c_combine(head, tail, length - length / 3);
			joins = joins && all == crc32c(head, data + start + length / 3, length - length / 3);
		}
	check(same, "software and hardware agree");
	check(joins, "parts join");
	struct sha256 sha;
	char hex[65];
	sha256_init(&sha);
	sha256_update(&sha, "a", 1);
	sha256_update(&sha, "bc", 2);
	sha256_hex(&sha, hex);
	check_text(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"SHA-256 of abc (FIPS 180-2)");
}

/* Random123's kat_vectors, philox 4x32 with 10 rounds. */
static void test_philox(void)
{
	static const struct {
		uint32_t counter[4], key[2], out[4];
	} known[] = {
		{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
			{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};
	bool good = true;
	for (size_t i = 0; i < 3; i++) {
		uint32_t out[4];
		random_philox(known[i].key, known[i].counter, out);
		good = good && !memcmp(out, known[i].out, sizeof out);
	}
	check(good, "Philox 4x32-10 known answers");
}

static void test_exact(void)
{
	struct random r = random_stream(2, "exact");
	double worst[4] = {0};
	for (uint32_t i = 0; i < 200000; i++) {
		double x = (random_uniform(r, 0, 0, i) - 0.5) * (i % 2 ? 20 : 0x1p20);
		double e = (random_uniform(r, 1, 0, i) - 0.5) * 1400, value = exp(e);
		worst[0] = fmax(worst[0], fabs(exact_sin(x) - sin(x)));
		worst[1] = fmax(worst[1], fabs(exact_cos(x) - cos(x)));
		worst[2] = fmax(worst[2], fabs(exact_log(value) - log(value)) / fmax(1, fabs(log(value))));
		worst[3] = fmax(worst[3], fabs(exact_exp(e) - value) / fmax(1, value));
	}
	check_close(worst[0], 0, 1e-15, "sine");
	check_close(worst[1], 0, 1e-15, "cosine");
	check_close(worst[2], 0, 1e-15, "logarithm");
	check_close(worst[3], 0, 1e-14, "exponential");
	check(exact_exp(0) == 1 && exact_exp(-INFINITY) == 0 && isinf(exact_exp(1e9)) &&
			isnan(exact_log(-1)) && exact_log(0) == -INFINITY && exact_log(1) == 0 &&
			exact_cos(0) == 1 && isfinite(exact_log(5e-324)),
		"ends of the ranges");
}

static void test_normal(void)
{
	enum { COUNT = 400000 };
	float *x = memory_new(COUNT, sizeof *x), part[7];
	struct random r = random_stream(3, "noise");
	random_normal(r, 5, 1, 0, x, COUNT);
	double sum[5] = {0}, lag = 0;
	size_t beyond = 0;
	for (size_t i = 0; i < COUNT; i++) {
		double p = 1;
		for (int k = 0; k < 5; k++, p *= x[i])
			sum[k] += p / COUNT;
		lag += i ? (double)x[i] * x[i - 1] / COUNT : 0;
		beyond += fabsf(x[i]) > 1.959964f;
	}
	/* Five standard errors each. */
	check_close(sum[1], 0, 5 / sqrt(COUNT), "normals: mean");
	check_close(sum[2], 1, 5 * sqrt(2.0 / COUNT), "normals: variance");
	check_close(sum[3], 0, 5 * sqrt(15.0 / COUNT), "normals: third moment");
	check_close(sum[4], 3, 5 * sqrt(96.0 / COUNT), "normals: fourth moment");
	check_close(lag, 0, 5 / sqrt(COUNT), "normals: neighbours");
	check_close((double)beyond / COUNT, 0.05, 5 * sqrt(0.05 * 0.95 / COUNT), "normals: two-sided tail");
	random_normal(r, 5, 1, 1234567 % COUNT, part, 7);
	check(!memcmp(part, x + 1234567 % COUNT, sizeof part),
		"an element does not depend on where the call begins");
	random_normal(r, 6, 1, 0, part, 7);
	check(memcmp(part, x, sizeof part), "another step, other numbers");
	random_normal(random_stream(3, "noisf"), 5, 1, 0, part, 7);
	check(memcmp(part, x, sizeof part), "another stream, other numbers");
	free(x);
	/* The same bytes on every machine: and from every compiler. */
	random_normal(random_stream(2024, "noise"), 7, 3, 5, part, 7);
	uint32_t crc = crc32c(0, part, sizeof part);
	check_report(crc == 0xbc7b27b1, "normals have the recorded bytes", "%08" PRIx32, crc);
}

static void test_permutation(void)
{
	static const uint64_t counts[] = {1, 2, 3, 5, 64, 65, 795, 1000, 4097};
	struct random r = random_stream(4, "order");
	bool good = true;
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		unsigned char *hit = memory_new(counts[c], 1);
		for (uint64_t i = 0; i < counts[c]; i++) {
			uint64_t at = random_permute(r, c, i, counts[c]);
			good = good && at < counts[c] && !hit[at]++;
		}
		free(hit);
	}
	check(good, "every index once");
	check(random_permute(r, 0, 123456789012, 1000000000000) < 1000000000000, "a large count");
	/* All 24 orders of four come up about equally often: chi-square with 23 degrees of freedom, 0.1%
	 * point 49.7. */
	unsigned seen[256] = {0};
	for (uint64_t pass = 0; pass < 24000; pass++) {
		unsigned code = 0;
		for (uint64_t i = 0; i < 4; i++)
			code = code * 4 + (unsigned)random_permute(r, pass, i, 4);
		seen[code]++;
	}
	double chi = 0;
	for (int code = 0; code < 256; code++)
		chi += seen[code] ? (seen[code] - 1000.0) * (seen[code] - 1000.0) / 1000 : 0;
	check_report(chi < 49.7, "orders of four are equally likely", "chi-square %.1f", chi);
	unsigned below[10] = {0};
	for (uint32_t i = 0; i < 100000; i++)
		below[random_below(r, 0, 0, i, 10)]++;
	good = true;
	for (int k = 0; k < 10; k++)
		good = good && abs((int)below[k] - 10000) < 500;
	check(good, "integers below a bound");
}

struct counted {
	atomic_int done[500];
	size_t fails_at;
};

static int count_job(void *context, size_t index)
{
	struct counted *counted = context;
	counted->done[index]++;
	if (index >= counted->fails_at)
		return error_set(STATUS_DATA, "job %zu", index);
	return 0;
}

static void test_threads(void)
{
	struct counted counted = {.fails_at = 1000};
	check(threads_available() >= 1, "processors");
	check_status(threads_run(4, 500, count_job, &counted), 0, "all jobs");
	bool good = true;
	for (int i = 0; i < 500; i++)
		good = good && counted.done[i] == 1;
	check(good, "each once");
	check_status(threads_run(4, 0, count_job, &counted), 0, "no jobs");
	good = true;
	for (int repeat = 0; repeat < 50; repeat++) {
		struct counted failing = {.fails_at = 100};
		good = good && threads_run(4, 500, count_job, &failing) == STATUS_DATA &&
		       !strcmp(error_message(), "job 100");
		for (int i = 0; i < 100; i++)
			good = good && failing.done[i] == 1;
	}
	check(good, "the first failure by index is reported, those before it are done");
}

/* Somebody who listens to the messages, for as long as `there` says so. */
struct listening {
	atomic_bool there, stop;
	atomic_int heard, late;
};

static void listen(const char *line, void *context)
{
	struct listening *listening = context;
	(void)line;
	sched_yield();
	listening->heard++;
	listening->late += !listening->there;
}

static int speak_or_listen(void *context, size_t index)
{
	struct listening *listening = context;
	for (int i = 0; index && !listening->stop; i++)
		note("message %d of thread %zu", i, index);
	for (int i = 0; !index && (i < 300 || listening->heard < 10); i++) {
		listening->there = true;
		error_tee(listen, listening);
		sched_yield();
		error_tee(NULL, NULL);
		listening->there = false;
	}
	listening->stop = true;
	return 0;
}

static void test_tee(void)
{
	struct listening listening = {0};
	int errors = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	dup2(null, STDERR_FILENO);
	int status = threads_run(4, 4, speak_or_listen, &listening);
	dup2(errors, STDERR_FILENO);
	close(errors);
	close(null);
	check(!status && listening.heard >= 10 && !listening.late,
		"nobody is told of a message after having stopped to listen");
}

static void test_signals(void)
{
	signal(SIGUSR2, SIG_IGN); /* as nohup and some launchers leave it */
	signals_block();
	raise(SIGTERM);
	check(signals_notice() == NOTICE_NONE, "blocked until the handler stands");
	check_status(signals_install(), 0, "install");
	check(signals_notice() == NOTICE_TERM && signals_notice_time() > 0,
		"a signal that came meanwhile is not lost");
	raise(SIGUSR2);
	check(signals_notice() == NOTICE_TERM, "TERM is more urgent than USR2");
	signal(SIGTERM, SIG_DFL);
}

static void test_options(void)
{
	bool dry = false, done;
	const char *list = NULL, *operands[16];
	int64_t count = 0;
	double seconds = 0, number = 0;
	uint64_t bytes = 0;
	int operand_count;
	const struct option_row rows[] = {{"dry-run", 'n', NULL, "say what would be done", &dry, OPTION_FLAG},
		{"list", 'l', "FILE", "a list", &list, OPTION_TEXT},
		{"count", 'c', "N", "how many", &count, OPTION_INTEGER},
		{"exit-after", 0, "TIME", "leave", &seconds, OPTION_SECONDS},
		{"min", 0, "M", "least", &number, OPTION_NUMBER},
		{"memory", 0, "BYTES", "most", &bytes, OPTION_BYTES}, {0}};
	const struct program program = {"tool", "RUN", "does", rows};
	char *all[] = {"tool", "-nc5", "RUN", "--list=a=b", "--exit-after", "55m", "--min", "-1.5",
		"--memory=2GiB", "--", "-x", NULL};
	check_status(
		options_parse(&program, 11, all, operands, &operand_count, &done), 0, "a full command line");
	check(dry && count == 5 && seconds == 3300 && number == -1.5 && bytes == 2ull << 30 && !done,
		"its values");
	check_text(list, "a=b", "a value with =");
	check(operand_count == 2 && !strcmp(operands[0], "RUN") && !strcmp(operands[1], "-x"),
		"operands before and behind --");
	static const struct {
		const char *word[3];
		const char *says;
	} wrong[] = {{{"--dry-rum"}, "did you mean --dry-run?"}, {{"--zzz"}, "unknown option --zzz"},
		{{"-z"}, "unknown option -z"}, {{"--count"}, "--count needs N behind it"},
		{{"--count", "five"}, "--count wants an integer, not 'five'"},
		{{"--dry-run=1"}, "--dry-run takes no value"}, {{"--min", "nan"}, "--min wants a number"},
		{{"--exit-after=x"}, "--exit-after wants a time"},
		{{"--memory", "1 XB"}, "--memory wants a size"}};
	bool good = true;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		char *argv[] = {"tool", (char *)wrong[i].word[0], (char *)wrong[i].word[1], NULL};
		int status = options_parse(
			&program, wrong[i].word[1] ? 3 : 2, argv, operands, &operand_count, &done);
		if (status != STATUS_USAGE || !strstr(error_message(), wrong[i].says))
			good = check_report(false, wrong[i].word[0], "%d, %s", status, error_message());
	}
	check(good, "wrong command lines say what is wrong");
}

/* What comm_open() says where several processes were launched, from a child: MPI is loaded there, and leaves memory behind. */
static int open_launched(void)
{
	int status = 0;
	pid_t child = fork();
	if (!child) {
		struct comm *comm;
		_exit(comm_open(&comm));
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_FAILURE;
}

static void test_comm(void)
{
	struct comm *comm;
	static const char *const launched[] = {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS",
		"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "RANK"};
	for (size_t i = 0; i < sizeof launched / sizeof *launched; i++)
		unsetenv(launched[i]);
	check_status(comm_open(&comm), 0, "one process");
	int64_t value = 3;
	check(comm->size == 1 && comm->rank == 0 && !comm->maximum(comm, &value, 1) && value == 3 &&
			!comm->barrier(comm),
		"self");
	comm->close(comm);
	setenv("SLURM_PROCID", "0", 1);
	setenv("SLURM_NTASKS", "4", 1);
	check_status(comm_open(&comm), 0, "a batch script that asked for tasks is one process");
	comm->close(comm);
	setenv("SLURM_STEP_ID", "4294967291", 1);
	check_status(comm_open(&comm), 0, "the batch step is one process");
	comm->close(comm);
	setenv("SLURM_STEP_ID", "0", 1);
	check_status(open_launched(), STATUS_UNAVAILABLE, "srun with four tasks");
	setenv("SLURM_NTASKS", "1", 1);
	check_status(comm_open(&comm), 0, "srun with one task");
	comm->close(comm);
	setenv("OMPI_COMM_WORLD_RANK", "1", 1);
	setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
	check_status(open_launched(), STATUS_UNAVAILABLE, "mpirun with two ranks");
}

int main(void)
{
	error_program("base");
	test_errors();
	test_memory();
	test_number_formats();
	test_parsing();
	test_text();
	test_files();
	test_publish();
	test_paths();
	test_clock();
	test_digest();
	test_philox();
	test_exact();
	test_normal();
	test_permutation();
	test_threads();
	test_tee();
	test_signals();
	test_options();
	test_comm();
	return check_summary();
}
