/*
 * Seeded mutations of every parser's samples: fuzz [TOTAL [PARSER]]. TOTAL (10,000) is shared out over the parsers.
 *
 * Each parser runs in a process of its own, so that a crash is one failure; the input at hand lies in shared memory and
 * is kept as build/fuzz-PARSER. The mutations follow from the parser's name and their number alone.
 */
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "check.h"
#include "parsers/fuzz.h"

enum { INPUT_LIMIT = 1 << 20, EDITS = 6, SECONDS_LIMIT = 20, STATUS_BROKEN = 99 };

/* A parser that asks for more than this for a few bytes trusts a number in its input. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "max_allocation_size_mb=256:allocator_may_return_null=0";
}

/* What the parent wants to know of a child that died. */
struct shared {
	size_t number, bytes, accepted;
	unsigned char input[INPUT_LIMIT];
};

struct corpus {
	size_t count;
	unsigned char **data;
	size_t *bytes;
};

static void corpus_release(struct corpus *corpus)
{
	for (size_t i = 0; i < corpus->count; i++)
		free(corpus->data[i]);
	free(corpus->data);
	free(corpus->bytes);
}

static int corpus_read(const char *parser, struct corpus *corpus)
{
	char directory[256];
	struct names names;
	snprintf(directory, sizeof directory, "tests/corpus/%s", parser);
	int status = file_list(directory, &names);
	if (status)
		return status;
	corpus->data = memory_new(names.count, sizeof *corpus->data);
	corpus->bytes = memory_new(names.count, sizeof *corpus->bytes);
	for (size_t i = 0; i < names.count && !status; i++) {
		char *path = path_join(directory, names.name[i]);
		status = file_read(path, INPUT_LIMIT, (char **)&corpus->data[i], &corpus->bytes[i]);
		corpus->count += !status;
		free(path);
	}
	names_release(&names);
	return status ? status : corpus->count ? 0 : error_set(STATUS_NO_INPUT, "%s: no samples", directory);
}

/* The random choices of one mutation. */
struct dice {
	struct random random;
	uint64_t number;
	uint32_t next;
};

static size_t roll(struct dice *dice, size_t bound)
{
	return bound ? random_below(dice->random, dice->number, 0, dice->next++, bound) : 0;
}

/* Writes a number that parsers stumble over, of 1, 2, 4 or 8 bytes, in either byte order. */
static void put_number(struct dice *dice, struct shared *shared)
{
	static const uint64_t favourites[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000,
		0xffffffff, INT64_MAX, UINT64_MAX};
	uint64_t value = favourites[roll(dice, sizeof favourites / sizeof *favourites)];
	size_t width = (size_t)1 << roll(dice, 4), big = roll(dice, 2);
	if (roll(dice, 4) == 0)
		value = shared->bytes + roll(dice, 3) - 1;
	if (shared->bytes < width)
		return;
	unsigned char *at = shared->input + roll(dice, shared->bytes - width + 1);
	for (size_t i = 0; i < width; i++)
		at[big ? width - 1 - i : i] = (unsigned char)(value >> 8 * i);
}

/* Puts in text that number parsers stumble over, over what is there. */
static void put_text(struct dice *dice, struct shared *shared)
{
	static const char *const favourites[] = {"-1", "0", "99999999999999999999", "4294967296", "1e999",
		"nan", "\t", "\n", "\"", "\\", "{", "}", "[", "]", "/", "..", "%s%n", ",", ":", "\xff\xfe",
		"\xed\xa0\x80"};
	const char *text = favourites[roll(dice, sizeof favourites / sizeof *favourites)];
	size_t length = strlen(text);
	if (shared->bytes >= length)
		memcpy(shared->input + roll(dice, shared->bytes - length + 1), text, length);
}

/* Puts `length` bytes in at `at` (what is behind moves on), as far as there is room. */
static void insert(struct shared *shared, size_t at, const unsigned char *data, size_t length)
{
	if (shared->bytes + length > INPUT_LIMIT)
		return;
	memmove(shared->input + at + length, shared->input + at, shared->bytes - at);
	memcpy(shared->input + at, data, length);
	shared->bytes += length;
}

static void insert_piece(struct dice *dice, struct shared *shared, const struct corpus *corpus)
{
	unsigned char piece[256];
	size_t other = roll(dice, corpus->count), length = roll(dice, sizeof piece);
	if (length > corpus->bytes[other])
		length = corpus->bytes[other];
	memcpy(piece, corpus->data[other] + roll(dice, corpus->bytes[other] - length + 1), length);
	insert(shared, roll(dice, shared->bytes + 1), piece, length);
}

static void delete_piece(struct dice *dice, struct shared *shared)
{
	size_t at = roll(dice, shared->bytes),
	       length = 1 + roll(dice, roll(dice, 2) ? 8 : shared->bytes - at);
	if (length > shared->bytes - at)
		length = shared->bytes - at;
	memmove(shared->input + at, shared->input + at + length, shared->bytes - at - length);
	shared->bytes -= length;
}

/* The head of this sample and the tail of another one. */
static void splice(struct dice *dice, struct shared *shared, const struct corpus *corpus)
{
	size_t other = roll(dice, corpus->count), from = roll(dice, corpus->bytes[other]);
	size_t length = corpus->bytes[other] - from;
	shared->bytes = roll(dice, shared->bytes + 1);
	if (shared->bytes + length > INPUT_LIMIT)
		return;
	memcpy(shared->input + shared->bytes, corpus->data[other] + from, length);
	shared->bytes += length;
}

static void edit(struct dice *dice, struct shared *shared, const struct corpus *corpus)
{
	unsigned char *at = shared->input + roll(dice, shared->bytes);
	switch (shared->bytes ? roll(dice, 9) : 6) {
	case 0:
	case 1:
		*at ^= (unsigned char)(1 << roll(dice, 8));
		break;
	case 2:
		*at = (unsigned char)roll(dice, 256);
		break;
	case 3:
		put_number(dice, shared);
		break;
	case 4:
		put_text(dice, shared);
		break;
	case 5:
		delete_piece(dice, shared);
		break;
	case 6:
		insert_piece(dice, shared, corpus);
		break;
	case 7:
		splice(dice, shared, corpus);
		break;
	default:
		shared->bytes = roll(dice, shared->bytes + 1);
	}
}

/* The samples themselves come first, then mutations of them in turn. */
static void make_input(const struct fuzz_parser *parser, const struct corpus *corpus, struct shared *shared)
{
	size_t sample = shared->number % corpus->count;
	shared->bytes = corpus->bytes[sample];
	memcpy(shared->input, corpus->data[sample], shared->bytes);
	if (shared->number < corpus->count)
		return;
	struct dice dice = {.random = random_stream(0, parser->name), .number = shared->number};
	for (size_t edits = 1 + roll(&dice, EDITS); edits; edits--)
		edit(&dice, shared, corpus);
}

/* In the child. The copy is as long as the input, so that the sanitizer sees one byte beyond. */
static int run_parser(
	const struct fuzz_parser *parser, const struct corpus *corpus, size_t count, struct shared *shared)
{
	for (shared->number = 0; shared->number < count; shared->number++) {
		make_input(parser, corpus, shared);
		void *copy = memory_copy(shared->input, shared->bytes);
		if (!copy)
			return STATUS_BROKEN;
		alarm(SECONDS_LIMIT);
		shared->accepted += parser->parse(copy, shared->bytes) == 0;
		free(copy);
	}
	alarm(0);
	return 0;
}

static void test_parser(const struct fuzz_parser *parser, size_t count, struct shared *shared)
{
	char name[128], kept[128];
	struct corpus corpus = {0};
	int status = 0;
	double started = clock_seconds();
	memset(shared, 0, sizeof *shared);
	if (corpus_read(parser->name, &corpus)) {
		check_report(false, parser->name, "%s", error_message());
		corpus_release(&corpus);
		return;
	}
	count += corpus.count;
	pid_t child = fork();
	if (!child) {
		status = run_parser(parser, &corpus, count, shared);
		corpus_release(&corpus);
		exit(status);
	}
	waitpid(child, &status, 0);
	corpus_release(&corpus);
	if (status && shared->number < count) {
		snprintf(kept, sizeof kept, "build/fuzz-%s", parser->name);
		file_publish(kept, shared->input, shared->bytes);
		check_report(false, parser->name, "mutation %zu: %s; the input is kept as %s", shared->number,
			WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "the sanitizer stopped it", kept);
		return;
	}
	snprintf(name, sizeof name, "%s: %zu inputs, %zu accepted, %.1f s", parser->name, count,
		shared->accepted, clock_seconds() - started);
	check_report(
		!status && shared->accepted, name, status ? "memory was not freed" : "no input was accepted");
}

int main(int argc, char **argv)
{
	int64_t total = 10000;
	size_t parsers = 0;
	if (argc > 1 && (!text_to_int64(argv[1], &total) || total < 0))
		return STATUS_USAGE;
	struct shared *shared =
		mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return STATUS_FAILURE;
	for (size_t table = 0; fuzz_tables[table]; table++)
		for (const struct fuzz_parser *parser = fuzz_tables[table]; parser->name; parser++)
			parsers += argc < 3 || !strcmp(argv[2], parser->name);
	for (size_t table = 0; fuzz_tables[table]; table++)
		for (const struct fuzz_parser *parser = fuzz_tables[table]; parser->name; parser++)
			if (argc < 3 || !strcmp(argv[2], parser->name))
				test_parser(parser, (size_t)total / parsers + 1, shared);
	return check_summary();
}
