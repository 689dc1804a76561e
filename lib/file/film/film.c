/*
 * The film plugin: frames of a video file by FFmpeg's libraries, with the numbers and pixels that `ffmpeg -i FILE image_%05d.png`
 * gives them.
 *
 * That command makes a constant rate of what it decodes: a frame that comes late is preceded by repetitions of the one before, one
 * that comes too early is dropped. pace() is its rule (FFmpeg 5.1, fftools/ffmpeg.c), in its arithmetic. Pixels are those of
 * swscale as the scale filter sets it up: bicubic, the frame's own matrix and range, MPEG-2 chroma positions.
 */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/mem.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "file/film_library.h"

enum {
	ROW_ALIGNMENT = 64,
	BUFFER_BYTES = 1 << 16,
	PIXELS_LIMIT = 1 << 28,
	MEMORY_LIMIT = (1 << 28) - 1,
	REPEATS_LIMIT = 3600 * 30 * 30
};

/* Containers for which the rule of pace() was seen to hold; some of the others open files and addresses of their own. */
static const char containers[] = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi";

/* How frames become a constant rate. */
struct pace {
	bool first_at_zero; /* a file of one stream begins where its first frame is */
	int64_t written;    /* frames that went out */
	int64_t position;   /* of the next one, in frames */
	int64_t repeats[3]; /* of the frame before, the last three times */
};

struct film_handle {
	struct film_file file;
	int64_t at; /* in the file */
	AVIOContext *io;
	AVFormatContext *format;
	AVCodecContext *codec;
	AVStream *stream;
	AVPacket *packet;
	AVFrame *decoded, *last, *next; /* last and next: what the present step writes */
	struct SwsContext *scaler;
	AVRational rate;                     /* of what goes out */
	double turn;                         /* degrees clockwise that a frame is turned by for display */
	bool mirrored_down, mirrored_across; /* for turns of 0 and 180 */
	struct pace pace;
	int64_t before, from_last, from_next; /* written before the step; in it, of either frame */
	bool drained, ended;                  /* all packets are sent; all frames are out */
	int64_t present;                      /* number of the present frame */
	uint8_t *colours;                     /* the present frame as it is stored, owned */
	size_t colours_bytes;
};

static int fail(char *message, int status, const char *what, int code)
{
	char reason[AV_ERROR_MAX_STRING_SIZE] = "";

	if (code)
		av_strerror(code, reason, sizeof reason);
	snprintf(message, FILM_MESSAGE, "%s%s%s", what, code ? ": " : "", reason);
	return code == AVERROR(ENOMEM) ? STATUS_FAILURE : status;
}

/* ---- bytes ---- */

static int read_bytes(void *opaque, uint8_t *data, int bytes)
{
	struct film_handle *film = opaque;
	int64_t rest = (int64_t)film->file.bytes - film->at;
	ssize_t got;

	if (rest <= 0)
		return AVERROR_EOF;
	got = pread(film->file.descriptor, data, (size_t)(bytes < rest ? bytes : rest),
		(off_t)film->file.offset + film->at);
	if (got < 0)
		return AVERROR(errno);
	film->at += got;
	return got ? (int)got : AVERROR_EOF;
}

static int64_t seek_bytes(void *opaque, int64_t offset, int whence)
{
	struct film_handle *film = opaque;

	if (whence == AVSEEK_SIZE)
		return (int64_t)film->file.bytes;
	if (whence == SEEK_CUR)
		offset += film->at;
	else if (whence == SEEK_END)
		offset += (int64_t)film->file.bytes;
	if (offset < 0)
		return AVERROR(EINVAL);
	return film->at = offset;
}

/* Nothing but the file itself is opened. */
static int refuse_open(
	AVFormatContext *format, AVIOContext **io, const char *url, int flags, AVDictionary **options)
{
	(void)format, (void)url, (void)flags, (void)options;
	*io = NULL;
	return AVERROR(EPERM);
}

/* ---- files that end early ---- */

/* The library plays what there is of a file and says nothing; the containers know how long they are. */

static bool read_at(const struct film_file *file, uint64_t at, uint8_t *data, size_t bytes)
{
	return at <= file->bytes && bytes <= file->bytes - at &&
	       pread(file->descriptor, data, bytes, (off_t)(file->offset + at)) == (ssize_t)bytes;
}

static uint64_t big_endian(const uint8_t *data, int bytes)
{
	uint64_t value = 0;

	for (int i = 0; i < bytes; i++)
		value = value << 8 | data[i];
	return value;
}

/* MP4 and QuickTime: boxes one behind the other. */
static bool boxes_end_early(const struct film_file *file)
{
	uint8_t head[16];

	for (uint64_t at = 0; read_at(file, at, head, 8);) {
		uint64_t size = big_endian(head, 4);

		if (size == 1)
			size = read_at(file, at, head, 16) ? big_endian(head + 8, 8) : UINT64_MAX;
		if (size == 0)
			return false; /* up to the end of the file */
		if (size < 8 || size > file->bytes - at)
			return size >= 8;
		at += size;
	}
	return false;
}

/* Matroska: a head, then one segment with everything. Numbers begin with as many zeros as bytes follow the first; all ones: unknown. */
static bool segment_ends_early(const struct film_file *file)
{
	uint64_t at = 0;

	for (int element = 0; element < 2; element++) {
		uint8_t head[12];
		int bytes = 1;
		uint64_t size, mask;

		if (!read_at(file, at, head, sizeof head))
			return false;
		for (; bytes <= 8 && !(head[4] >> (8 - bytes) & 1); bytes++)
			;
		if (bytes > 8)
			return false;
		mask = ((uint64_t)1 << 7 * bytes) - 1;
		size = big_endian(head + 4, bytes) & mask;
		at += 4 + (uint64_t)bytes;
		if (size == mask)
			return false;
		if (size > file->bytes - at)
			return true;
		at += size;
	}
	return false;
}

/* AVI: its length stands in front; 0 where its writer never came back to it. */
static bool riff_ends_early(const struct film_file *file)
{
	uint8_t head[8];

	return read_at(file, 0, head, 8) &&
	       (uint64_t)(head[4] | head[5] << 8 | head[6] << 16) + ((uint64_t)head[7] << 24) >
		       file->bytes - 8;
}

static bool ends_early(const struct film_file *file)
{
	static const char boxes[][5] = {"ftyp", "moov", "mdat", "free", "skip", "wide"};
	uint8_t head[8] = {0};

	if (!read_at(file, 0, head, 8))
		return true;
	if (!memcmp(head, "RIFF", 4))
		return riff_ends_early(file);
	if (!memcmp(head, "\x1a\x45\xdf\xa3", 4))
		return segment_ends_early(file);
	for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
		if (!memcmp(head + 4, boxes[i], 4))
			return boxes_end_early(file);
	return false;
}

/* ---- opening ---- */

/* As the command chooses: the largest, before all the one marked as default. */
static AVStream *choose_stream(AVFormatContext *format)
{
	AVStream *best = NULL;
	int64_t best_score = 0;

	for (unsigned i = 0; i < format->nb_streams; i++) {
		AVStream *stream = format->streams[i];
		int64_t score = (int64_t)stream->codecpar->width * stream->codecpar->height;

		if (stream->codecpar->codec_type != AVMEDIA_TYPE_VIDEO)
			continue;
		score += stream->event_flags & AVSTREAM_EVENT_FLAG_NEW_PACKETS ? 100000000 : 0;
		score += stream->disposition & AV_DISPOSITION_DEFAULT ? 5000000 : 0;
		if (stream->disposition & AV_DISPOSITION_ATTACHED_PIC)
			score = 1;
		if (score > best_score) {
			best_score = score;
			best = stream;
		}
	}
	return best;
}

static void read_turn(struct film_handle *film)
{
	const int32_t *matrix =
		(const int32_t *)av_stream_get_side_data(film->stream, AV_PKT_DATA_DISPLAYMATRIX, NULL);
	double turn = matrix ? -round(av_display_rotation_get(matrix)) : 0;

	turn -= 360 * floor(turn / 360 + 0.9 / 360);
	film->turn = turn;
	film->mirrored_down = matrix && matrix[4] < 0;
	film->mirrored_across = matrix && matrix[0] < 0;
}

static int open_container(struct film_handle *film, char *message)
{
	uint8_t *buffer = av_malloc(BUFFER_BYTES);
	int code;

	film->io = buffer ? avio_alloc_context(buffer, BUFFER_BYTES, 0, film, read_bytes, NULL, seek_bytes)
			  : NULL;
	if (!film->io) {
		av_free(buffer);
		return fail(message, STATUS_FAILURE, "out of memory", 0);
	}
	film->format = avformat_alloc_context();
	if (!film->format)
		return fail(message, STATUS_FAILURE, "out of memory", 0);
	film->format->pb = film->io;
	film->format->io_open = refuse_open;
	film->format->format_whitelist = av_strdup(containers);
	code = avformat_open_input(&film->format, film->file.name, NULL, NULL);
	if (code < 0)
		return fail(message, STATUS_DATA, "no video file that can be read", code);
	code = avformat_find_stream_info(film->format, NULL);
	if (code < 0)
		return fail(message, STATUS_DATA, "damaged video file", code);
	film->stream = choose_stream(film->format);
	if (!film->stream)
		return fail(message, STATUS_DATA, "no video in this file", 0);
	for (unsigned i = 0; i < film->format->nb_streams; i++)
		if (film->format->streams[i] != film->stream)
			film->format->streams[i]->discard = AVDISCARD_ALL;
	return 0;
}

static int open_codec(struct film_handle *film, char *message)
{
	const AVCodec *codec = avcodec_find_decoder(film->stream->codecpar->codec_id);
	int code;

	if (!codec)
		return fail(message, STATUS_DATA, "video in a coding that cannot be read", 0);
	film->codec = avcodec_alloc_context3(codec);
	if (!film->codec)
		return fail(message, STATUS_FAILURE, "out of memory", 0);
	code = avcodec_parameters_to_context(film->codec, film->stream->codecpar);
	film->codec->pkt_timebase = film->stream->time_base;
	film->codec->framerate = film->stream->avg_frame_rate;
	film->codec->thread_count = film->file.threads;
	film->codec->max_pixels = PIXELS_LIMIT;
	if (code >= 0)
		code = avcodec_open2(film->codec, codec, NULL);
	return code < 0 ? fail(message, STATUS_DATA, "the video's decoder", code) : 0;
}

static int open_all(struct film_handle *film, char *message)
{
	int status = open_container(film, message);

	if (!status)
		status = open_codec(film, message);
	if (status)
		return status;
	film->packet = av_packet_alloc();
	film->decoded = av_frame_alloc();
	film->last = av_frame_alloc();
	film->next = av_frame_alloc();
	if (!film->packet || !film->decoded || !film->last || !film->next)
		return fail(message, STATUS_FAILURE, "out of memory", 0);
	film->rate = av_guess_frame_rate(film->format, film->stream, NULL);
	if (film->rate.num <= 0 || film->rate.den <= 0)
		film->rate = film->stream->r_frame_rate;
	if (film->rate.num <= 0 || film->rate.den <= 0)
		film->rate = (AVRational){25, 1};
	film->pace = (struct pace){.first_at_zero = film->format->nb_streams == 1};
	film->before = film->from_last = film->from_next = 0;
	film->drained = film->ended = false;
	read_turn(film);
	return 0;
}

static void close_all(struct film_handle *film)
{
	av_frame_free(&film->decoded);
	av_frame_free(&film->last);
	av_frame_free(&film->next);
	av_packet_free(&film->packet);
	avcodec_free_context(&film->codec);
	avformat_close_input(&film->format);
	if (film->io)
		av_freep(&film->io->buffer);
	avio_context_free(&film->io);
	film->at = 0;
}

static int film_open(const struct film_file *file, struct film_handle **result, char message[FILM_MESSAGE])
{
	struct film_handle *film = calloc(1, sizeof *film);
	int status;

	*result = film;
	if (!film)
		return fail(message, STATUS_FAILURE, "out of memory", 0);
	av_log_set_level(AV_LOG_QUIET);
	av_max_alloc(MEMORY_LIMIT); /* a piece; no number in a file is trusted with more */
	film->file = *file;
	if (ends_early(file))
		status = fail(message, STATUS_DATA, "the file ends early; copy or download it again", 0);
	else
		status = open_all(film, message);
	if (!status)
		return 0;
	close_all(film);
	free(film);
	*result = NULL;
	return status;
}

static void film_close(struct film_handle *film)
{
	if (!film)
		return;
	close_all(film);
	sws_freeContext(film->scaler);
	av_freep(&film->colours);
	free(film);
}

/* ---- the rate ---- */

static int64_t middle(const int64_t v[3])
{
	int64_t low = v[0] < v[1] ? v[0] : v[1], high = v[0] < v[1] ? v[1] : v[0];

	return v[2] < low ? low : v[2] > high ? high : v[2];
}

/* Time of the decoded frame in frames of the rate that goes out; the small part behind avoids ties as the command does. */
static double time_in_frames(const struct film_handle *film, const AVFrame *frame)
{
	AVRational unit = av_inv_q(film->rate);
	int64_t start =
		film->format->start_time == AV_NOPTS_VALUE
			? 0
			: av_rescale_q(film->format->start_time, AV_TIME_BASE_Q, film->stream->time_base);
	int bits = 29 - av_log2((unsigned)unit.den);
	double time;

	bits = bits < 0 ? 0 : bits > 16 ? 16 : bits;
	unit.den <<= bits;
	time = (double)av_rescale_q(frame->pts - start, film->stream->time_base, unit) / (1 << bits);
	return time + (time > 0 ? 1.0 : time < 0 ? -1.0 : 0.0) / (1 << 17);
}

/* How often the frame before (*from_last) and the new one (*from_next) go out; without a new one the film is at its end. */
static void pace(struct film_handle *film, const AVFrame *frame)
{
	struct pace *pace = &film->pace;
	double unit = av_q2d(av_inv_q(film->rate)), duration = 1, early, late;
	int64_t count = 1, repeats = 0;

	if (!frame) {
		count = repeats = middle(pace->repeats);
	} else {
		long own = lrintf((float)(frame->pkt_duration * av_q2d(film->stream->time_base) / unit));

		duration = own > 0 ? (double)own : duration;
		early = time_in_frames(film, frame) - (double)pace->position;
		late = early + duration;
		if (early < 0 && late > 0)
			early = 0;
		if (pace->first_at_zero && !pace->written && early >= 0.5) {
			late = duration;
			pace->position = llrint(early + (double)pace->position);
			early = 0;
		}
		if (late < -1.1) {
			count = 0;
		} else if (late > 1.1) {
			count = lrintf((float)late);
			repeats = early > 1.1 ? llrintf((float)(early - 0.6)) : 0;
		}
	}
	repeats = repeats < count ? repeats : count;
	pace->repeats[2] = pace->repeats[1];
	pace->repeats[1] = pace->repeats[0];
	pace->repeats[0] = repeats;
	if (count > REPEATS_LIMIT)
		count = repeats = 0;
	film->before = pace->written;
	/* Nothing was before the first frame: the first repeats itself. */
	film->from_last = film->last->buf[0] ? repeats : 0;
	film->from_next = frame ? count - film->from_last : 0;
	pace->written += film->from_last + film->from_next;
	pace->position += film->from_last + film->from_next;
}

/* ---- decoding ---- */

static int receive(struct film_handle *film)
{
	return avcodec_receive_frame(film->codec, film->decoded);
}

/* Sends the next packet of the stream; damaged ones are passed over, as the command does. */
static int send_packet(struct film_handle *film)
{
	int code = av_read_frame(film->format, film->packet);

	if (code < 0) {
		film->drained = true;
		avcodec_send_packet(film->codec, NULL);
		return code == AVERROR_EOF || code == AVERROR_INVALIDDATA ? 0 : code;
	}
	if (film->packet->stream_index == film->stream->index)
		avcodec_send_packet(film->codec, film->packet);
	av_packet_unref(film->packet);
	return 0;
}

/* The next frame into `decoded`; FILM_END. */
static int decode(struct film_handle *film, char *message)
{
	for (;;) {
		int code = receive(film);

		if (!code)
			return 0;
		if (code == AVERROR_EOF || (film->drained && code == AVERROR(EAGAIN)))
			return FILM_END;
		if (code != AVERROR(EAGAIN) && film->drained)
			continue;
		code = film->drained ? 0 : send_packet(film);
		if (code < 0)
			return fail(message, code == AVERROR(EIO) ? STATUS_IO : STATUS_DATA,
				"reading the video", code);
	}
}

/* One decoded frame further. */
static int step(struct film_handle *film, char *message)
{
	int status = decode(film, message);

	if (status && status != FILM_END)
		return status;
	av_frame_unref(film->last);
	av_frame_move_ref(film->last, film->next);
	if (status == FILM_END) {
		film->ended = true;
		pace(film, NULL);
		return 0;
	}
	av_frame_move_ref(film->next, film->decoded);
	film->next->pts = film->next->best_effort_timestamp;
	if (film->next->pts == AV_NOPTS_VALUE) /* no time at all: right behind the one before */
		film->next->pts =
			av_rescale_q(film->pace.position, av_inv_q(film->rate), film->stream->time_base);
	pace(film, film->next);
	return 0;
}

static int film_go(struct film_handle *film, int64_t number, char message[FILM_MESSAGE])
{
	int status = 0;

	if (number < 1)
		return FILM_END;
	if (!film->codec || number <= film->before) {
		close_all(film);
		status = open_all(film, message);
		if (status)
			close_all(film); /* so that the next call begins anew */
	}
	while (!status && number > film->before + film->from_last + film->from_next) {
		if (film->ended)
			return FILM_END;
		status = step(film, message);
	}
	film->present = number;
	return status;
}

static const AVFrame *present_frame(const struct film_handle *film)
{
	return film->present <= film->before + film->from_last ? film->last : film->next;
}

/* ---- pixels ---- */

static bool lies_down(const struct film_handle *film)
{
	return fabs(film->turn - 90) < 1 || fabs(film->turn - 270) < 1;
}

static void film_size(const struct film_handle *film, int *height, int *width)
{
	const AVFrame *frame = present_frame(film);

	*height = lies_down(film) ? frame->width : frame->height;
	*width = lies_down(film) ? frame->height : frame->width;
}

static int set_scaler(struct film_handle *film, const AVFrame *frame)
{
	bool middle_rows = frame->format == AV_PIX_FMT_YUV420P;
	int full, out_full, brightness, contrast, saturation;
	int *table, *out_table;

	sws_freeContext(film->scaler);
	film->scaler = sws_alloc_context();
	if (!film->scaler)
		return AVERROR(ENOMEM);
	av_opt_set_int(film->scaler, "srcw", frame->width, 0);
	av_opt_set_int(film->scaler, "srch", frame->height, 0);
	av_opt_set_int(film->scaler, "src_format", frame->format, 0);
	av_opt_set_int(film->scaler, "dstw", frame->width, 0);
	av_opt_set_int(film->scaler, "dsth", frame->height, 0);
	av_opt_set_int(film->scaler, "dst_format", AV_PIX_FMT_RGB24, 0);
	av_opt_set_int(film->scaler, "sws_flags", SWS_BICUBIC, 0);
	av_opt_set_int(film->scaler, "src_h_chr_pos", -513, 0);
	av_opt_set_int(film->scaler, "src_v_chr_pos", middle_rows ? 128 : -513, 0);
	av_opt_set_int(film->scaler, "dst_h_chr_pos", -513, 0);
	av_opt_set_int(film->scaler, "dst_v_chr_pos", -513, 0);
	int code = sws_init_context(film->scaler, NULL, NULL);

	if (code < 0)
		return code;
	if (sws_getColorspaceDetails(film->scaler, &table, &full, &out_table, &out_full, &brightness,
		    &contrast, &saturation) < 0)
		return 0;
	const int *matrix =
		sws_getCoefficients(frame->colorspace < 1 || frame->colorspace > 10 || frame->colorspace == 8
					    ? AVCOL_SPC_BT470BG
					    : frame->colorspace);

	if (frame->color_range != AVCOL_RANGE_UNSPECIFIED)
		full = frame->color_range == AVCOL_RANGE_JPEG;
	sws_setColorspaceDetails(
		film->scaler, matrix, full, matrix, out_full, brightness, contrast, saturation);
	return 0;
}

/* Colours go to a place of their own first: the library writes behind the end of rows. */
static int convert(struct film_handle *film, const AVFrame *frame, int *stride)
{
	int code;

	*stride = FFALIGN(3 * frame->width, ROW_ALIGNMENT) + ROW_ALIGNMENT;
	if ((size_t)*stride * (size_t)frame->height > film->colours_bytes) {
		av_freep(&film->colours);
		film->colours_bytes = (size_t)*stride * (size_t)frame->height;
		film->colours = av_malloc(film->colours_bytes);
		if (!film->colours) {
			film->colours_bytes = 0;
			return AVERROR(ENOMEM);
		}
	}
	code = set_scaler(film, frame);
	if (code >= 0)
		code = sws_scale(film->scaler, (const uint8_t *const *)frame->data, frame->linesize, 0,
			frame->height, (uint8_t *[4]){film->colours}, (int[4]){*stride});
	return code;
}

/* Where pixel (y, x) of the turned frame is in the stored one. */
static size_t source_pixel(const struct film_handle *film, const AVFrame *frame, int stride, int y, int x)
{
	int h = frame->height, w = frame->width;
	int from_y = film->mirrored_down ? h - 1 - y : y, from_x = film->mirrored_across ? w - 1 - x : x;

	if (fabs(film->turn - 90) < 1) {
		from_y = h - 1 - x;
		from_x = y;
	} else if (fabs(film->turn - 270) < 1) {
		from_y = x;
		from_x = w - 1 - y;
	}
	return (size_t)from_y * (size_t)stride + 3 * (size_t)from_x;
}

static bool is_upright(const struct film_handle *film)
{
	return !lies_down(film) && !film->mirrored_down && !film->mirrored_across;
}

static int film_pixels(struct film_handle *film, uint8_t *rgb, char message[FILM_MESSAGE])
{
	const AVFrame *frame = present_frame(film);
	int height, width, stride, code = convert(film, frame, &stride);

	if (code < 0)
		return fail(message, STATUS_DATA, "the video's colours", code);
	film_size(film, &height, &width);
	for (int y = 0; y < height; y++) {
		if (is_upright(film)) {
			memcpy(rgb, film->colours + (size_t)y * (size_t)stride, 3 * (size_t)width);
			rgb += 3 * (size_t)width;
			continue;
		}
		for (int x = 0; x < width; x++, rgb += 3)
			memcpy(rgb, film->colours + source_pixel(film, frame, stride, y, x), 3);
	}
	return 0;
}

static int64_t film_count(const struct film_handle *film)
{
	return film->pace.written;
}

static double film_rate(const struct film_handle *film)
{
	AVRational mean = film->stream->avg_frame_rate;

	return mean.num > 0 && mean.den > 0 ? av_q2d(mean) : 0;
}

const struct film_library nightshift_film = {
	.version = FILM_LIBRARY_VERSION,
	.open = film_open,
	.close = film_close,
	.go = film_go,
	.size = film_size,
	.pixels = film_pixels,
	.count = film_count,
	.rate = film_rate,
};
