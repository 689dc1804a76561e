/* Frame rates for ActivityNet's annotation. */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/error.h"
#include "data/video_list.h"
#include "file/film.h"

/* Hundredths: the original's tool reads them off what ffprobe prints. */
static int read_rate(const char *path, double *rate)
{
	struct source_place place = {.path = (char *)(uintptr_t)path};
	struct film *film;
	int status = file_size(path, &place.bytes);

	if (!status)
		status = film_open(path, &place, 1, &film);
	if (status)
		return status;
	*rate = rint(film_rate(film) * 100) / 100;
	film_close(film);
	return *rate > 0 ? STATUS_OK : error_set(STATUS_DATA, "%s: does not state a frame rate", path);
}

/* The file of a video, whatever its container; owned by the caller; the first name where there is none. */
static char *find_file(const char *data, const char *id)
{
	static const char *const suffixes[] = {".mp4", ".webm", ".mkv", ".avi", ".mov"};
	struct text path = {0};

	for (int i = 0; i <= 5; i++) {
		text_clear(&path);
		text_format(&path, "%s/v_%s%s", data, id, suffixes[i % 5]);
		if (path.failed || (i < 5 && file_exists(path.data)))
			break;
	}
	return text_take(&path);
}

static int add_rate(
	json_t *value, const char *data, const char *id, struct video_problems *problems, size_t *found)
{
	struct video_entry entry = {.id = (char *)(uintptr_t)id, .label = -1, .subset = -1};
	const char *subset = json_string_value(json_object_get(value, "subset"));
	char *path;
	double rate = 0;
	int status = json_is_object(value) && path_is_inside(id)
			     ? STATUS_OK
			     : error_set(STATUS_DATA, "entry \"%s\" is none of a video", id);

	if (status)
		return status;
	entry.subset = subset ? video_subset_find(subset) : -1;
	path = find_file(data, id);
	status = path ? read_rate(path, &rate) : error_status();
	free(path);
	if (!status) {
		++*found;
		return json_object_set_new(value, "fps", json_real(rate))
			       ? error_set(STATUS_FAILURE, "out of memory")
			       : STATUS_OK;
	}
	if (status != STATUS_NO_INPUT && status != STATUS_DATA)
		return status;
	video_problem(problems, NULL, &entry, status == STATUS_NO_INPUT ? "missing" : "unreadable", "%s",
		error_message());
	error_clear();
	return STATUS_OK;
}

int video_rates(const char *path, const char *data, struct text *json, struct video_problems *problems,
	size_t *count, size_t *found)
{
	char *text = NULL;
	const char *id;
	size_t bytes = 0;
	json_error_t error;
	json_t *root = NULL, *value;
	int status = file_read(path, VIDEO_ANNOTATION_LIMIT, &text, &bytes);

	if (status)
		return status;
	root = json_loadb(text, bytes, 0, &error);
	free(text);
	if (!root)
		return error_set(STATUS_DATA, "%s:%d: no JSON: %s", path, error.line, error.text);
	if (!json_is_object(json_object_get(root, "database")) || !json_object_get(root, "taxonomy"))
		status = error_set(STATUS_DATA,
			"no annotation of ActivityNet's: \"taxonomy\" and \"database\" are expected");
	*count = *found = 0;
	json_object_foreach(json_object_get(root, "database"), id, value)
	{
		++*count;
		if (status || (status = add_rate(value, data, id, problems, found)))
			break;
	}
	if (!status)
		status = video_json_write(root, json);
	json_decref(root);
	return status ? error_prefix("%s", path) : STATUS_OK;
}
