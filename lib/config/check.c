#include "config/check.h"

#include <inttypes.h>
#include <string.h>
#include "base/error.h"
#include "config/compose.h"
#include "config/tasks.h"

/* "a.b = 3 (demo.cfg:12)" of a key, for messages about several. */
static void show(const struct config *config, const char *key, struct text *out)
{
	int row = config_row(config_keys, key);
	text_format(out, "%s = ", key);
	value_word(config_keys[row].type, &config->slots[row].value, out);
	text_format(out, " (%s)", config->slots[row].source);
}

/* "a = 3 (demo.cfg:12) WHAT b = 8 (argv[3])" */
static int refuse_pair(const struct config *config, const char *a, const char *what, const char *b)
{
	struct text message = {0};
	show(config, a, &message);
	text_format(&message, " %s ", what);
	show(config, b, &message);
	int status = text_check(&message);
	if (!status)
		status = error_set(STATUS_CONFIG, "%s", message.data);
	text_release(&message);
	return status;
}

static int check_divides(const struct config *config, const char *list, const char *divisor)
{
	for (size_t i = 0; i < config_count(config, list); i++)
		if (config_integer_at(config, list, i) % config_integer(config, divisor) != 0)
			return refuse_pair(config, list, "must be multiples of", divisor);
	return STATUS_OK;
}

static int check_unet(const struct config *config)
{
	size_t levels = config_count(config, "model.widths");
	if (levels < 1 || levels > 8)
		return error_set(STATUS_CONFIG, "%s: model.widths must have 1 to 8 levels",
			config_source(config, "model.widths"));
	if (config_count(config, "model.heads") != levels)
		return refuse_pair(config, "model.heads", "must have one member a level, as", "model.widths");
	if (config_count(config, "model.attention") != levels)
		return refuse_pair(
			config, "model.attention", "must have one member a level, as", "model.widths");
	for (size_t i = 0; i < levels; i++)
		if (config_integer_at(config, "model.widths", i) %
				config_integer_at(config, "model.heads", i) !=
			0)
			return refuse_pair(config, "model.widths", "must be multiples, level by level, of",
				"model.heads");
	return check_divides(config, "model.widths", "model.norm_groups");
}

static bool is(const struct config *config, const char *key, const char *value)
{
	return strcmp(config_text(config, key), value) == 0;
}

static int refuse_key(const struct config *config, const char *key, const char *what)
{
	return error_set(STATUS_CONFIG, "%s: %s %s", config_source(config, key), key, what);
}

static int check_optimizer(const struct config *config)
{
	if (!is(config, "optimizer.name", "sgd") || !config_bool(config, "optimizer.nesterov"))
		return STATUS_OK;
	if (config_number(config, "optimizer.momentum") == 0)
		return refuse_pair(config, "optimizer.nesterov", "needs momentum:", "optimizer.momentum");
	if (config_number(config, "optimizer.dampening") != 0)
		return refuse_pair(
			config, "optimizer.nesterov", "goes without dampening:", "optimizer.dampening");
	return STATUS_OK;
}

#define MILESTONES 32 /* as many as a schedule holds */

static int check_milestones(const struct config *config, bool two)
{
	const char *key = "schedule.milestones";
	size_t count = config_count(config, key);
	if (two ? count != 2 : count < 1 || count > MILESTONES)
		return refuse_key(config, key,
			two ? "must be two numbers such as 300000,400000"
			    : "must be 1 to 32 numbers such as 50,100,150");
	for (size_t i = 1; i < count; i++)
		if (config_integer_at(config, key, i) < config_integer_at(config, key, i - 1))
			return refuse_key(config, key, "must rise");
	if (!(config_number(config, "schedule.gamma") > 0))
		return refuse_key(config, "schedule.gamma", "must be above 0");
	return STATUS_OK;
}

static int check_schedule(const struct config *config)
{
	bool two = is(config, "schedule.name", "two-steps"), plateau = is(config, "schedule.name", "plateau");
	if (two || is(config, "schedule.name", "multistep"))
		return check_milestones(config, two);
	if (plateau && config_number(config, "schedule.gamma") >= 1)
		return refuse_key(config, "schedule.gamma", "must be below 1: a plateau cuts the rate");
	if (plateau && config->lists[SYNTAX_VAL].count == 0)
		return refuse_key(config, "schedule.name",
			"plateau follows the loss of the first group of data.val, which is empty");
	if (!plateau && !is(config, "schedule.name", "constant") && is(config, "schedule.by", "step") &&
		config_integer(config, "schedule.warmup") >= config_integer(config, "schedule.total"))
		return refuse_pair(config, "schedule.warmup", "must be below", "schedule.total");
	return STATUS_OK;
}

static int check_training(const struct config *config)
{
	if (config_integer(config, "batch.size") % config_integer(config, "batch.micro") != 0)
		return refuse_pair(config, "batch.size", "must be a multiple of", "batch.micro");
	if (is(config, "batch.rest", "short") &&
		config_integer(config, "batch.size") != config_integer(config, "batch.micro"))
		return refuse_pair(
			config, "batch.rest", "needs one micro-batch a step, as large as", "batch.size");
	if (check_optimizer(config) || check_schedule(config))
		return error_status();
	return STATUS_OK;
}

static int check_diffusion(const struct config *config)
{
	if (config_number(config, "diffusion.beta_start") > config_number(config, "diffusion.beta_end"))
		return refuse_pair(config, "diffusion.beta_start", "must not be above", "diffusion.beta_end");
	if (config_bool(config, "diffusion.zero_snr") &&
		strcmp(config_text(config, "diffusion.prediction"), "epsilon") == 0)
		return refuse_pair(config, "diffusion.prediction",
			"says nothing about the image at the last step, which is all noise with",
			"diffusion.zero_snr");
	if (config_integer(config, "validate.steps") > config_integer(config, "diffusion.timesteps"))
		return refuse_pair(config, "validate.steps", "must not be above", "diffusion.timesteps");
	if (config_integer(config, "predict.steps") > config_integer(config, "diffusion.timesteps"))
		return refuse_pair(config, "predict.steps", "must not be above", "diffusion.timesteps");
	return STATUS_OK;
}

/* One value for each channel of the network's input, or none. */
static int check_channels(const struct config *config, const char *key)
{
	size_t channels = strcmp(config_text(config, "model.input"), "flow") == 0 ? 2 : 3,
	       count = config_count(config, key);
	if (count == 0 || count == channels)
		return STATUS_OK;
	return error_set(STATUS_CONFIG, "%s: %s has %zu values; model.input = %s has %zu channels",
		config_source(config, key), key, count, config_text(config, "model.input"), channels);
}

static int check_clips(const struct config *config)
{
	int status = check_channels(config, "clip.mean");
	if (!status)
		status = check_channels(config, "clip.std");
	if (!status && config_count(config, "clip.jitter") != 4)
		status = error_set(STATUS_CONFIG,
			"%s: clip.jitter must have four values: brightness, contrast, saturation, hue",
			config_source(config, "clip.jitter"));
	if (!status && config_number_at(config, "clip.jitter", 3) > 0.5)
		status = error_set(STATUS_CONFIG, "%s: clip.jitter: a hue of more than 0.5 is all hues",
			config_source(config, "clip.jitter"));
	return status;
}

/* ===== data groups ===== */

static const struct config_slot *field(const struct config_group *group, const char *name)
{
	return &group->slots[config_row(config_group_keys, name)];
}

static int refuse_group(int list, const struct config_group *group, const char *name, const char *what)
{
	return error_set(STATUS_CONFIG, "%s: %s.%s.%s %s", field(group, name)->source,
		syntax_list_names[list], group->name, name, what);
}

static int check_depth_group(int list, const struct config_group *group)
{
	const struct config_value *size = &field(group, "size")->value;
	double minimum = field(group, "min")->value.numbers[0],
	       maximum = field(group, "max")->value.numbers[0];
	if (size->count != 0 && size->count != 2)
		return refuse_group(list, group, "size", "must be height,width such as 96,128, or empty");
	for (size_t i = 0; i < size->count; i++)
		if (size->integers[i] % 8 != 0)
			return refuse_group(
				list, group, "size", "must be multiples of 8 (pixels of a latent cell)");
	if ((minimum != 0 || maximum != 0) && minimum >= maximum)
		return refuse_group(list, group, "min",
			"must be below max (give both, or neither for the layout's range)");
	return STATUS_OK;
}

static int check_clips_group(const struct config *config, int list, const struct config_group *group)
{
	if (strcmp(config_text(config, "model.input"), "flow") == 0 &&
		strcmp(field(group, "layout")->value.texts[0], "hdf5") != 0)
		return refuse_group(list, group, "layout", "must be hdf5 for model.input = flow");
	return STATUS_OK;
}

static int check_group(const struct config *config, int list, const struct config_group *group)
{
	if (!field(group, "path")->value.texts[0][0])
		return refuse_group(list, group, "path", "is missing: say where the data is");
	return strcmp(config_task(config), "depth") == 0 ? check_depth_group(list, group)
							 : check_clips_group(config, list, group);
}

/* "auto" means something else in the training data. */
static int check_subset(
	int list, const struct config_group *group, int other, const struct config_group *same)
{
	const char *subset = field(group, "subset")->value.texts[0];
	if (!field(group, "annotation")->value.texts[0][0] || strcmp(subset, "auto") != 0 ||
		list == SYNTAX_TRAIN || other != SYNTAX_TRAIN ||
		strcmp(field(same, "subset")->value.texts[0], subset) != 0)
		return STATUS_OK;
	return error_set(STATUS_CONFIG,
		"%s: %s.%s is another subset than %s.%s: give it another name, or both a subset",
		field(group, "path")->source, syntax_list_names[list], group->name, syntax_list_names[other],
		group->name);
}

/* A name is one dataset everywhere: where it stands again, all fields but the weight must be the same. */
static int check_same(const struct config *config, int list, const struct config_group *group)
{
	for (int other = 0; other < list; other++) {
		const struct config_group *same = config_group_find(config, other, group->name);
		if (same && strcmp(config_task(config), "classify") == 0 &&
			check_subset(list, group, other, same))
			return error_status();
		for (int row = 0; same && config_group_keys[row].key; row++) {
			const struct config_key *key = &config_group_keys[row];
			if (strcmp(key->key, "weight") == 0 ||
				value_equal(key->type, &group->slots[row].value, &same->slots[row].value))
				continue;
			return error_set(STATUS_CONFIG,
				"%s: %s.%s.%s differs from that of %s (%s): give the other dataset another "
				"name",
				group->slots[row].source, syntax_list_names[list], group->name, key->key,
				syntax_list_names[other], same->slots[row].source);
		}
	}
	return STATUS_OK;
}

#define LIST_GROUPS 64 /* as many as the sampler takes */

static int check_data(const struct config *config)
{
	const struct config_list *train = &config->lists[SYNTAX_TRAIN];
	double weight = 0;
	int status = STATUS_OK;
	if (train->count == 0)
		return error_set(STATUS_CONFIG,
			"there is no training data: name a preset, or add data.train.NAME.path=DIR");
	for (size_t i = 0; i < train->count; i++)
		weight += field(&train->group[i], "weight")->value.numbers[0];
	if (!(weight > 0))
		return refuse_group(SYNTAX_TRAIN, &train->group[0], "weight", "and all others are 0");
	for (int list = 0; list < SYNTAX_LISTS && !status; list++) {
		if (config->lists[list].count > LIST_GROUPS)
			status = error_set(STATUS_CONFIG, "%s has more than %d groups",
				syntax_list_names[list], LIST_GROUPS);
		for (size_t i = 0; i < config->lists[list].count && !status; i++) {
			status = check_group(config, list, &config->lists[list].group[i]);
			if (!status)
				status = check_same(config, list, &config->lists[list].group[i]);
		}
	}
	return status;
}

int config_check(const struct config *config)
{
	bool depth = strcmp(config_task(config), "depth") == 0;
	int status = depth ? check_unet(config) : check_clips(config);
	if (!status)
		status = check_training(config);
	if (!status && depth)
		status = check_diffusion(config);
	if (!status)
		status = check_data(config);
	return status;
}

void config_warn(const struct config *config)
{
	const char *cadence =
		config_integer(config, "validate.every") > 0 ? "validate.every" : "validate.epochs";
	if (config_integer(config, cadence) > 0 && config->lists[SYNTAX_VAL].count == 0)
		warn("%s = %" PRId64
		     " but data.val is empty: there will be no validation and no best weights",
			cadence, config_integer(config, cadence));
	if (config_integer(config, "checkpoint.every") == 0 &&
		config_number(config, "checkpoint.minutes") == 0)
		warn("checkpoint.every and checkpoint.minutes are both 0: a run that is killed loses all of "
		     "its shift");
}
