#include "task/classify_stored.h"

#include <math.h>
#include <stdlib.h>
#include "base/error.h"
#include "base/files.h"
#include "file/npy.h"

char *stored_path(const char *directory, const struct classify_set *set, size_t sample)
{
	char *stem = classify_set_stem(set, sample);
	struct text path = {0};

	if (!stem)
		return NULL;
	text_format(&path, "%s/%s.npy", directory, stem);
	free(stem);
	return text_take(&path);
}

static int check(const struct stored *stored, const struct npy *array)
{
	if (array->dims != 2 || array->dim[0] < 1 || array->dim[1] < 1)
		return error_set(STATUS_DATA, "%s: not the probabilities of a video's windows; remove it",
			stored->path);
	for (size_t i = 0; i < array->count; i++)
		if (!isfinite(array->data[i]))
			return error_set(
				STATUS_DATA, "%s: holds a value that is not finite; remove it", stored->path);
	return STATUS_OK;
}

int stored_read(const char *directory, const struct classify_set *set, size_t sample, struct stored *stored)
{
	struct npy array = {0};
	int status;

	*stored = (struct stored){.path = stored_path(directory, set, sample)};
	if (!stored->path)
		return error_status();
	status = npy_read(stored->path, &array);
	if (!status)
		status = check(stored, &array);
	if (!status) {
		stored->probability = array.data;
		stored->windows = (size_t)array.dim[0];
		stored->classes = (size_t)array.dim[1];
		array.data = NULL;
	}
	npy_release(&array);
	return status;
}

void stored_release(struct stored *stored)
{
	free(stored->path);
	free(stored->probability);
	*stored = (struct stored){0};
}

int stored_labels(const char *directory, struct classify_labels *labels)
{
	char *path = path_join(directory, STORED_LABELS);
	int status = path ? classify_labels_load(path, labels) : error_status();

	free(path);
	return status;
}
