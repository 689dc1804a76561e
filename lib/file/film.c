/* Video files: the plugin, and what its answers mean. */
#include "file/film.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "file/film_library.h"

struct film {
	const struct film_library *library;
	struct film_handle *handle;
	char *name;
	int descriptor; /* -1: none */
};

static int answer(const struct film *film, int status, const char *message)
{
	return status ? error_set(status, "%s: %s", film->name, message) : STATUS_OK;
}

static int load(struct film *film)
{
	const void *table;
	int status = plugin_load("nightshift-film.so", "nightshift_film", false,
		"this build reads no video files (nightshift-film.so is not beside it: install the "
		"development "
		"packages of FFmpeg's libraries and run make, or extract frames)",
		&table);

	film->library = table;
	if (!status && film->library->version != FILM_LIBRARY_VERSION)
		status = error_set(STATUS_UNAVAILABLE, "nightshift-film.so is of another version; run make");
	return status;
}

static int open_film(struct film *film, const struct source_place *place, int threads)
{
	struct film_file file = {
		.offset = place->offset, .bytes = place->bytes, .name = film->name, .threads = threads};
	char message[FILM_MESSAGE] = "";
	int status = load(film);

	if (status)
		return status;
	film->descriptor = open(place->path, O_RDONLY | O_CLOEXEC);
	if (film->descriptor < 0)
		return error_errno(0, "%s", place->path);
	file.descriptor = film->descriptor;
	return answer(film, film->library->open(&file, &film->handle, message), message);
}

int film_open(const char *name, const struct source_place *place, int threads, struct film **result)
{
	struct film *film = memory_new(1, sizeof *film);
	int status;

	*result = NULL;
	if (!film)
		return error_status();
	film->descriptor = -1;
	film->name = memory_text(name);
	status = film->name ? open_film(film, place, threads) : error_status();
	if (status) {
		film_close(film);
		return status;
	}
	*result = film;
	return STATUS_OK;
}

void film_close(struct film *film)
{
	if (!film)
		return;
	if (film->handle)
		film->library->close(film->handle);
	if (film->descriptor >= 0)
		close(film->descriptor);
	free(film->name);
	free(film);
}

int film_go(struct film *film, int64_t number)
{
	char message[FILM_MESSAGE] = "";
	int status = film->library->go(film->handle, number, message);

	if (status == FILM_END)
		return error_set(STATUS_NO_INPUT, "%s: has %lld frames, frame %lld is wanted", film->name,
			(long long)film->library->count(film->handle), (long long)number);
	return answer(film, status, message);
}

void film_size(const struct film *film, int *height, int *width)
{
	film->library->size(film->handle, height, width);
}

int film_pixels(struct film *film, uint8_t *rgb)
{
	char message[FILM_MESSAGE] = "";

	return answer(film, film->library->pixels(film->handle, rgb, message), message);
}

int film_count(struct film *film, int64_t *count)
{
	char message[FILM_MESSAGE] = "";
	int status = film->library->go(film->handle, INT64_MAX, message);

	*count = film->library->count(film->handle);
	return answer(film, status == FILM_END ? STATUS_OK : status, message);
}

double film_rate(const struct film *film)
{
	return film->library->rate(film->handle);
}
