/*
 * Layers: defaults, files in order, words. The last one that sets a key wins; each value remembers its
 * source.
 *
 * Strings may hold "${other.key}" and "${env:NAME}" (declared variables alone), resolved once all layers
 * stand, so that what is overridden is never looked up; "$${" is a plain "${". Relative paths start at the
 * file's directory, in words at the current one. A list of data groups in a file replaces the list whole;
 * words and named groups change fields. Words that empty a list (data.train=()) count before all other words.
 */
#ifndef NIGHTSHIFT_CONFIG_COMPOSE_H
#define NIGHTSHIFT_CONFIG_COMPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include "config/config.h"

struct config_layer {
	const char *text;   /* name of a file, or "key=value" */
	const char *source; /* words: how messages name it ("argv[3]"); NULL for files */
	enum config_layer_kind {
		LAYER_FILE,
		LAYER_RUN, /* a run's config.cfg: format = 1, no includes, no interpolation */
		LAYER_WORD
	} kind;
};
/* Composes, converts and checks (config/check.h). Files first, in their order, whatever the order of files
 * and words. */
int config_compose(const struct config_layer *layers, size_t count, struct config **config);

/* The declared environment variables, NULL at the end; "NIGHTSHIFT_*" is a pattern. */
extern const char *const config_environment[];

/* Where a value came from: "demo.cfg:12", "argv[3]", "default". */
const char *config_source(const struct config *config, const char *key);

#endif
