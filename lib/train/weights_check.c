/* Whether weights fit a network, and in words what is wrong where they do not. */
#include <string.h>
#include "base/error.h"
#include "base/text.h"
#include "train/weights.h"

#define COUNTED ".running_mean"
#define COUNTER ".num_batches_tracked"

/* What does not fit, by kind: how many, the first, and what all of them have in common. */
struct misfit {
	size_t count;
	const char *first;
	size_t module; /* letters of the first name up to its first dot that all begin with */
	bool shortcut; /* all are of projections on the shortcuts */
};
enum { MISSING, SHAPED, LEFT_OVER, KINDS };

bool weights_same_shape(const struct safetensor *tensor, const struct parameter *parameter)
{
	if (tensor->dims != parameter->dims)
		return false;
	for (int i = 0; i < tensor->dims; i++)
		if (tensor->dim[i] != parameter->dim[i])
			return false;
	return true;
}

static void add(struct misfit *misfit, const char *name)
{
	if (!misfit->count++) {
		misfit->first = name;
		misfit->module = strcspn(name, ".");
		misfit->shortcut = true;
	}
	if (strcspn(name, ".") != misfit->module || strncmp(name, misfit->first, misfit->module) != 0)
		misfit->module = 0;
	misfit->shortcut = misfit->shortcut && strstr(name, ".downsample.");
}

/* NAME.num_batches_tracked of a batch norm that the network has. */
static bool is_counter(const struct store *store, const char *name)
{
	struct text statistic = {0};
	bool found = false;

	if (!text_ends(name, COUNTER))
		return false;
	text_append(&statistic, name, strlen(name) - strlen(COUNTER));
	text_add(&statistic, COUNTED);
	if (!text_check(&statistic))
		found = store_find(store, statistic.data) >= 0;
	text_release(&statistic);
	return found;
}

static void compare(const struct store *store, const struct checkpoint *checkpoint, const char *ignore,
	struct misfit misfits[KINDS])
{
	for (size_t i = 0; i < store_count(store); i++) {
		const struct parameter *parameter = store_parameter(store, i);
		const struct safetensor *tensor = checkpoint_model(checkpoint, parameter->name);

		if (text_match(ignore, parameter->name))
			continue;
		if (!tensor)
			add(&misfits[MISSING], parameter->name);
		else if (!weights_same_shape(tensor, parameter))
			add(&misfits[SHAPED], parameter->name);
	}
	for (int f = 0; f < checkpoint->model_files; f++)
		for (size_t i = 0; i < checkpoint->model[f].count; i++) {
			const char *name = checkpoint->model[f].tensor[i].name;

			if (store_find(store, name) < 0 && !is_counter(store, name) &&
				!text_match(ignore, name))
				add(&misfits[LEFT_OVER], name);
		}
}

/* ---- in words ---- */

static void add_shape(struct text *out, int dims, const int64_t *dim)
{
	text_add(out, "[");
	for (int i = 0; i < dims; i++)
		text_format(out, "%s%lld", i ? "," : "", (long long)dim[i]);
	text_add(out, "]");
}

static void describe_first(struct text *out, const struct store *store, const struct checkpoint *checkpoint,
	const struct misfit misfits[KINDS])
{
	const struct misfit *missing = &misfits[MISSING], *shaped = &misfits[SHAPED];

	if (shaped->count) {
		const struct safetensor *tensor = checkpoint_model(checkpoint, shaped->first);
		const struct parameter *parameter =
			store_parameter(store, (size_t)store_find(store, shaped->first));

		text_format(out, "tensor %s has another shape than in this network, ", shaped->first);
		add_shape(out, tensor->dims, tensor->dim);
		text_add(out, " instead of ");
		add_shape(out, parameter->dims, parameter->dim);
	} else if (missing->count) {
		text_format(out, "tensor %s is missing", missing->first);
	} else {
		text_format(out, "tensor %s is not part of this network", misfits[LEFT_OVER].first);
	}
}

static void describe_counts(struct text *out, const struct misfit misfits[KINDS])
{
	static const char *const words[KINDS] = {"missing", "of another shape", "left over"};
	const char *between = " (in all ";

	if (misfits[MISSING].count + misfits[SHAPED].count + misfits[LEFT_OVER].count < 2)
		return;
	for (int i = 0; i < KINDS; i++) {
		if (!misfits[i].count)
			continue;
		text_format(out, "%s%zu %s", between, misfits[i].count, words[i]);
		between = ", ";
	}
	text_add(out, ")");
}

/* A name of the file that ends in the name that is missing: saved with a wrapper around the network. */
static const char *wrapped_name(const struct checkpoint *checkpoint, const char *name)
{
	size_t length = strlen(name);

	for (int f = 0; f < checkpoint->model_files; f++)
		for (size_t i = 0; i < checkpoint->model[f].count; i++) {
			const char *other = checkpoint->model[f].tensor[i].name;
			size_t more = strlen(other);

			if (more > length + 1 && other[more - length - 1] == '.' && text_ends(other, name))
				return other;
		}
	return NULL;
}

/* The first module, where all that does not fit is inside it. */
static const struct misfit *common_module(const struct misfit misfits[KINDS])
{
	const struct misfit *common = NULL;

	for (int i = 0; i < KINDS; i++) {
		const struct misfit *misfit = &misfits[i];

		if (!misfit->count)
			continue;
		if (!misfit->module ||
			(common && (common->module != misfit->module ||
					   strncmp(common->first, misfit->first, misfit->module) != 0)))
			return NULL;
		common = misfit;
	}
	return common;
}

/* What to do, where it can be told. */
static void add_hint(
	struct text *out, const struct checkpoint *checkpoint, const struct misfit misfits[KINDS])
{
	const struct misfit *missing = &misfits[MISSING], *over = &misfits[LEFT_OVER];
	const struct misfit *module = common_module(misfits);
	const char *wrapped = missing->count && over->count ? wrapped_name(checkpoint, missing->first) : NULL;

	if (wrapped)
		text_format(
			out, "; the file calls it %s: save the state dict of the network inside", wrapped);
	else if (missing->count && missing->shortcut && !misfits[SHAPED].count && !over->count)
		text_add(out, "; it was made without projections on the shortcuts: model.shortcut=A");
	else if (over->count && over->shortcut && !misfits[SHAPED].count && !missing->count)
		text_add(out, "; it was made with projections on the shortcuts: model.shortcut=B");
	else if (module && (misfits[SHAPED].count || missing->count))
		text_format(out, "; init.ignore=\"%.*s.*\" starts that part anew", (int)module->module,
			module->first);
	if (checkpoint->arch[0])
		text_format(out, "; the file says that it is a %s", checkpoint->arch);
}

int weights_check(const struct store *store, const struct checkpoint *checkpoint, const char *ignore)
{
	struct misfit misfits[KINDS] = {0};
	struct text out = {0};

	compare(store, checkpoint, ignore, misfits);
	if (!misfits[MISSING].count && !misfits[SHAPED].count && !misfits[LEFT_OVER].count)
		return 0;
	describe_first(&out, store, checkpoint, misfits);
	describe_counts(&out, misfits);
	add_hint(&out, checkpoint, misfits);
	int status = text_check(&out);
	if (!status)
		status = error_set(STATUS_DATA, "%s: %s", checkpoint->path, out.data);
	text_release(&out);
	return status;
}
