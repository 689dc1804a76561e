/*
 * Fuzzing: every parser of bytes that we did not write is one row here, and has its samples in tests/corpus/NAME/.
 *
 * `make check` runs seeded mutations of the samples under the address and undefined-behaviour sanitizers (tests/fuzz.c),
 * `make fuzz` lets libFuzzer loose on the same rows (tests/parsers/libfuzzer.c). A parser may refuse or accept its input; it
 * must come back soon, leave no memory, and ask for no more memory than its input explains. What is found joins the corpus.
 */
#ifndef NIGHTSHIFT_TESTS_FUZZ_H
#define NIGHTSHIFT_TESTS_FUZZ_H

#include <stddef.h>

struct fuzz_parser {
	const char *name;
	int (*parse)(const void *data, size_t bytes); /* status; `data` is exactly this long, without a NUL */
};

/* One table for each module with parsers, in tests/parsers/MODULE.c; each ends with a row without a name. */
extern const struct fuzz_parser fuzz_base[];
extern const struct fuzz_parser fuzz_file[];
extern const struct fuzz_parser fuzz_config[];
extern const struct fuzz_parser fuzz_run[];
extern const struct fuzz_parser fuzz_data[];
extern const struct fuzz_parser *const fuzz_tables[]; /* all of them, then NULL */

const struct fuzz_parser *fuzz_find(const char *name); /* NULL when there is none */
/* For parsers that open files: a path at which these bytes can be read until the next call; NULL on failure. */
const char *fuzz_path(const void *data, size_t bytes);

#endif
