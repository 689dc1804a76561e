/* The order in which the original registers tensors, from their names alone. */
#include <ctype.h>
#include <string.h>
#include "model/resnet3d.h"

/* Where a part of a name stands among its siblings. */
struct rank {
	int group, number, order;
};
enum { FIRST, BLOCKS, LAST, HEAD, GROUPS };

/* The number at the end of the letters, 0 without one; *rest points behind it. */
static int number_behind(const char *text, size_t length, const char **rest)
{
	int number = 0;

	while (length && isdigit((unsigned char)*text) && number < 100000) {
		number = number * 10 + (*text++ - '0');
		length--;
	}
	*rest = text;
	return number;
}

static bool begins(const char *part, size_t length, const char *word)
{
	return length >= strlen(word) && !strncmp(part, word, strlen(word));
}

/* weight, bias, running_mean, running_var, num_batches_tracked; -1 for other words. */
static int leaf(const char *part, size_t length)
{
	static const char *const leaves[] = {
		"weight", "bias", "running_mean", "running_var", "num_batches_tracked"};

	for (int i = 0; i < 5; i++) {
		if (length == strlen(leaves[i]) && begins(part, length, leaves[i]))
			return i;
	}
	return -1;
}

/* conv1, bn1, norm1, conv1_s, bn1_t, norm, conv; false for other words. */
static bool layer(const char *part, size_t length, bool norm_first, struct rank *rank)
{
	bool convolution = begins(part, length, "conv");
	const char *rest = part + (convolution || begins(part, length, "norm") ? 4 : 2);
	const char *end = part + length;

	if (!convolution && !begins(part, length, "norm") && !begins(part, length, "bn"))
		return false;
	rank->number = number_behind(rest, (size_t)(end - rest), &rest);
	rank->order = (end - rest == 2 && rest[1] == 't' ? 2 : 0) + (convolution == norm_first);
	return true;
}

static struct rank rank_of(const char *part, size_t length, bool norm_first)
{
	static const struct {
		const char *word;
		int group, factor, offset;
	} words[] = {{"layer", BLOCKS, 1, 0}, {"denseblock", BLOCKS, 2, 0}, {"transition", BLOCKS, 2, 1},
		{"denselayer", BLOCKS, 1, 0}, {"downsample", BLOCKS, 1, 0}, {"features", FIRST, 1, 0},
		{"fc", HEAD, 1, 0}, {"classifier", HEAD, 1, 0}};
	struct rank rank = {GROUPS, 0, 0};
	const char *rest;

	if (leaf(part, length) >= 0)
		return (struct rank){FIRST, leaf(part, length), 0};
	if (length == 5 && begins(part, length, "norm5"))
		return (struct rank){LAST, 0, 0};
	if (layer(part, length, norm_first, &rank)) {
		rank.group = FIRST;
		return rank;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		size_t letters = strlen(words[i].word);

		if (begins(part, length, words[i].word)) {
			rank.group = words[i].group;
			rank.number =
				number_behind(part + letters, length - letters, &rest) * words[i].factor +
				words[i].offset;
			return rank;
		}
	}
	rank.number = number_behind(part, length, &rest);
	return rank;
}

static int compare_ranks(struct rank a, struct rank b)
{
	if (a.group != b.group)
		return a.group < b.group ? -1 : 1;
	if (a.number != b.number)
		return a.number < b.number ? -1 : 1;
	return (a.order > b.order) - (a.order < b.order);
}

int resnet3d_compare_names(enum resnet3d_family family, const char *a, const char *b)
{
	const char *one = a, *two = b;
	bool norm_first = false;

	while (*one && *two) {
		size_t first = strcspn(one, "."), second = strcspn(two, ".");
		int order = compare_ranks(rank_of(one, first, norm_first), rank_of(two, second, norm_first));

		if (order || first != second || strncmp(one, two, first) != 0)
			return order ? order : strcmp(one, two);
		norm_first = begins(one, first, "denselayer") || begins(one, first, "transition") ||
			     (family == RESNET3D_PRERESNET && begins(one, first, "layer")) ||
			     (norm_first && isdigit((unsigned char)*one));
		one += first + (one[first] == '.');
		two += second + (two[second] == '.');
	}
	return strcmp(one, two);
}
