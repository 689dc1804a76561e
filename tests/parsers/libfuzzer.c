/* libFuzzer's entry: NIGHTSHIFT_PARSER names the row. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct fuzz_parser *parser;
	const char *name = getenv("NIGHTSHIFT_PARSER");
	if (!parser && (!name || !(parser = fuzz_find(name)))) {
		fprintf(stderr, "libfuzzer: NIGHTSHIFT_PARSER=%s is no parser\n", name ? name : "");
		exit(64);
	}
	parser->parse(data, bytes);
	return 0;
}
