/* frame-sums LAYOUT PATH [FRAME ...]: number, width, height and CRC-32 of the pixels of a video's frames, read in that order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/video.h"

static int print_frame(struct video_reader *reader, int channels, int64_t number)
{
	struct clip_geometry geometry;
	int height = 0, width = 0, status = video_size(reader, 0, number, &height, &width);
	size_t bytes = (size_t)height * (size_t)width * (size_t)channels;
	uint8_t *pixels = status ? NULL : memory_new(bytes, 1);

	if (!pixels)
		return error_status();
	clip_crop_none(&geometry, height, width, height < width ? height : width);
	geometry.passes = CLIP_PASSES_PILLOW_13;
	status = video_read(reader, 0, &number, 1, &geometry, false, pixels);
	if (!status)
		printf("%lld\t%d\t%d\t%08lx\n", (long long)number, width, height,
			crc32(0, pixels, (uInt)bytes));
	free(pixels);
	return status;
}

static int print_all(const char *layout, const char *path, char **wanted, int count, bool flow)
{
	struct video_options options = {.name = "frames", .layout = layout, .path = path, .flow = flow};
	struct video_reader *reader = NULL;
	struct video_set *set;
	int status = video_set_open(&options, &set);

	if (status)
		return status;
	status = video_reader_new(set, &reader);
	printf("#frame\twidth\theight\tcrc\n");
	for (int64_t n = video_set_sample(set, 0)->first;
		!status && !count && n < video_set_sample(set, 0)->end; n++)
		status = print_frame(reader, video_set_channels(set), n);
	for (int i = 0; !status && i < count; i++) {
		int64_t number = -1;

		text_to_int64(wanted[i], &number);
		status = print_frame(reader, video_set_channels(set), number);
	}
	video_reader_free(reader);
	video_set_close(set);
	return status;
}

int main(int argc, char **argv)
{
	bool flow = argc > 1 && !strcmp(argv[1], "flow");
	int status;

	error_program(argv[0]);
	if (argc < 3)
		return error_print(error_set(STATUS_USAGE, "LAYOUT PATH [FRAME ...]"));
	status = print_all(flow ? "hdf5" : argv[1], argv[2], argv + 3, argc - 3, flow);
	if (status)
		error_print(status);
	return close_stdout(status);
}
