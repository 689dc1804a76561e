/* Configuration files: what composes must read back bit-equal. */
#include <stdlib.h>
#include <string.h>

#include "config/compose.h"
#include "fuzz.h"

static void check_read_back(const struct config *config)
{
	char *second = NULL, *first = config_canonical(config);
	struct config *again = NULL;
	if (first && !config_load(fuzz_path(first, strlen(first)), &again))
		second = config_canonical(again);
	if (!second || strcmp(first, second) != 0 || strcmp(config_id(config), config_id(again)) != 0)
		abort();
	config_free(again);
	free(first);
	free(second);
}

static int parse_config(const void *data, size_t bytes)
{
	struct config *config = NULL;
	setenv("NIGHTSHIFT_FUZZ", "7", 0);
	struct config_layer layer = {.text = fuzz_path(data, bytes), .kind = LAYER_FILE};
	int status = config_compose(&layer, 1, &config);
	if (!status)
		check_read_back(config);
	config_free(config);
	return status;
}

const struct fuzz_parser fuzz_config[] = {{"config", parse_config}, {0}};
