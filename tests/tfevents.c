/* TensorBoard event files: known bytes, files of TensorBoard's own writer, torn and damaged ones, names in order. */
#include "check.h"

#include "base/files.h"
#include "base/text.h"
#include "file/png.h"
#include "file/protobuf.h"
#include "file/tfevents.h"

#define GOLDEN "tests/golden/files/"

/* One line an event, as events.tsv has it. */
static int add_event(void *context, int64_t step, const char *tag, double value)
{
	struct text *lines = context;
	char digits[40];
	double back = NAN;
	/* The shortest text that is this float. */
	for (int precision = 6; precision <= 9 && (float)back != (float)value; precision++) {
		snprintf(digits, sizeof digits, "%.*g", precision, value);
		text_to_double(digits, &back);
	}
	text_format(lines, "%lld\t%s\t%s\n", (long long)step, tag, digits);
	return STATUS_OK;
}

static int stop_at_once(void *context, int64_t step, const char *tag, double value)
{
	(void)context, (void)step, (void)tag, (void)value;
	return error_set(STATUS_AGAIN, "enough");
}

/* The record of the specification: Event{wall_time 1, step 7, summary{tag "loss", simple_value 0.5}}. */
static const unsigned char record[42] = {0x1a, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x9b, 0xd8, 0x2d, 0x09, 0, 0, 0, 0,
	0, 0, 0xf0, 0x3f, 0x10, 0x07, 0x2a, 0x0d, 0x0a, 0x0b, 0x0a, 0x04, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0, 0,
	0, 0x3f, 0x86, 0x2c, 0x9a, 0x2f};

static void test_record(void)
{
	static const uint64_t length = 24;
	struct text lines = {0};
	int torn;
	check(tfevents_checksum(&length, 8) == 0x224b7fa3, "masked checksum of a length");
	check(tfevents_checksum("123456789", 9) == 0xc78ab0e5, "masked checksum of digits");
	check_status(tfevents_scan_bytes("x", record, sizeof record, add_event, &lines, &torn), 0,
		"scan a known record");
	check(!torn, "it is whole");
	check_text(lines.data, "7\tloss\t0.5\n", "its event");
	text_release(&lines);
}

static void test_torn(void)
{
	unsigned char twice[2 * sizeof record];
	struct text lines = {0};
	int torn, wrong = 0;
	memcpy(twice, record, sizeof record);
	memcpy(twice + sizeof record, record, sizeof record);
	for (size_t bytes = sizeof record; bytes < sizeof twice; bytes++) {
		text_clear(&lines);
		wrong += tfevents_scan_bytes("x", twice, bytes, add_event, &lines, &torn) != STATUS_OK;
		wrong += torn != (bytes > sizeof record);
		wrong += strcmp(lines.data, "7\tloss\t0.5\n") != 0;
	}
	check_report(!wrong, "a torn last record ends the scan quietly", "%d lengths went wrong", wrong);
	wrong = 0;
	for (size_t i = 0; i < sizeof record; i++) {
		text_clear(&lines);
		twice[i] ^= 0x10;
		wrong += tfevents_scan_bytes("file", twice, sizeof twice, add_event, &lines, &torn) !=
			 STATUS_DATA;
		wrong += !text_starts(error_message(), "file: record at byte 0: ");
		twice[i] ^= 0x10;
	}
	check_report(!wrong, "a changed bit is noticed", "%d places went wrong", wrong);
	check_status(tfevents_scan_bytes("x", record, sizeof record, stop_at_once, NULL, &torn), STATUS_AGAIN,
		"the callback's status ends the scan");
	text_release(&lines);
}

/* A record around a payload, with good checksums. */
static int scan_payload(const char *payload, size_t bytes)
{
	struct text file = {0}, lines = {0};
	int torn;
	uint64_t length = bytes;
	uint32_t sum = tfevents_checksum(&length, 8), payload_sum = tfevents_checksum(payload, bytes);
	text_append(&file, (const char *)&length, 8);
	text_append(&file, (const char *)&sum, 4);
	text_append(&file, payload, bytes);
	text_append(&file, (const char *)&payload_sum, 4);
	int status = tfevents_scan_bytes("x", file.data, file.length, add_event, &lines, &torn);
	text_release(&file);
	text_release(&lines);
	return status;
}
#define SCAN(payload) scan_payload(payload, sizeof payload - 1)

static void test_messages(void)
{
	check_status(SCAN(""), STATUS_OK, "empty message");
	check_status(SCAN("\xf8\x07\x05\xf9\x07"
			  "12345678"
			  "\xfd\x07"
			  "1234"),
		STATUS_OK, "unknown fields are skipped");
	check_status(SCAN("\x2a\x00"), STATUS_OK, "empty summary");
	check_status(SCAN("\x2a\x02\x0a\x00"), STATUS_OK, "value without tag");
	check_status(SCAN("\x2a\x05\x0a"), STATUS_DATA, "field longer than its message");
	check_status(SCAN("\x10"), STATUS_DATA, "cut number");
	check_status(SCAN("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), STATUS_DATA,
		"number of eleven bytes");
	check_status(SCAN("\x09"
			  "1234567"),
		STATUS_DATA, "cut double");
	check_status(SCAN("\x0b"), STATUS_DATA, "group");
	check_status(SCAN("\x0e"), STATUS_DATA, "wire type 6");
	check_status(SCAN("\x2a\x04\x0a\x02\x0a\x05"), STATUS_DATA, "tag longer than its message");
	check_status(SCAN("\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), STATUS_DATA, "length near 2^64");
}

static void test_golden(void)
{
	struct text lines = {0};
	char *table;
	size_t bytes;
	int torn;
	if (!check_status(file_read(GOLDEN "events.tsv", 1 << 20, &table, &bytes), 0, "read events.tsv"))
		return;
	check_status(tfevents_scan(GOLDEN "events.out.tfevents.golden", add_event, &lines, &torn), 0,
		"scan a file of TensorBoard's own writer");
	const char *rows = strchr(table, '\n') + 1;
	struct text expected = {0};
	char *copy = strdup(rows), *rest = copy, *line;
	while ((line = strsep(&rest, "\n")) && *line) {
		char *field[3];
		double value = NAN;
		text_split(line, '\t', field, 3);
		text_to_double(field[2], &value);
		int64_t step = 0;
		text_to_int64(field[0], &step);
		add_event(&expected, step, field[1], value);
	}
	check_text(lines.data, expected.data, "its events");
	free(copy);
	free(table);
	text_release(&lines);
	text_release(&expected);
}

static void test_encoding(void)
{
	struct text out = {0}, inner = {0};
	protobuf_integer(&out, 1, 0);
	protobuf_integer(&out, 1, -1);
	protobuf_string(&inner, 16, "ab");
	protobuf_message(&out, 20, &inner);
	protobuf_message(&out, 3, &inner);
	static const char expected[] = "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xa2\x01\x05\x82\x01\x02"
				       "ab"
				       "\x1a\x00";
	check(out.length == sizeof expected - 1 && !memcmp(out.data, expected, out.length),
		"fields on the wire");
	text_release(&out);
}

static void test_writer(void)
{
	struct tfevents *events;
	struct text lines = {0}, png = {0};
	uint8_t pixels[12] = {1, 2, 3};
	struct image image = {2, 2, 3, 8, pixels};
	char path[600];
	uint64_t bytes, size;
	int torn;
	if (!check_status(tfevents_open(check_scratch(), 5, &events), 0, "open an event file"))
		return;
	snprintf(path, sizeof path, "%s/%s", check_scratch(), tfevents_name(events));
	check(text_starts(tfevents_name(events), "events.out.tfevents."), "its name");
	check_status(tfevents_scalar(events, 5, "loss", 1 / 3.0), 0, "scalar");
	check_status(tfevents_scalar(events, 0, "nothing", -INFINITY), 0, "scalar at step 0");
	check_status(png_encode(&image, &png), 0, "encode a picture");
	check_status(tfevents_image(events, 6, "picture", 2, 2, png.data, png.length), 0, "image");
	check_status(tfevents_text(events, 6, "words", "*so*"), 0, "text");
	check_status(tfevents_sync(events, &bytes), 0, "sync");
	check_status(file_size(path, &size), 0, "size");
	check(size == bytes, "sync tells the file's length");
	for (int i = 0; i < 20000; i++)
		tfevents_scalar(events, 7 + i, "many", i);
	check_status(tfevents_close(events), 0, "close");
	check_status(tfevents_scan(path, add_event, &lines, &torn), 0, "scan it");
	check(!torn, "it is whole");
	check(text_starts(lines.data,
		      "5\tloss\t0.33333334\n0\tnothing\t-inf\n6\tpicture\tnan\n6\twords\tnan\n7\tmany\t0\n"),
		"what was written comes back");
	check(text_ends(lines.data, "\n20006\tmany\t19999\n"), "to the end");
	check_status(tfevents_close(NULL), 0, "closing nothing");
	text_release(&png);
	text_release(&lines);
}

/* Names must sort behind all that are there, even those of a clock that runs ahead. */
static void test_names(void)
{
	struct tfevents *events;
	char path[512];
	snprintf(path, sizeof path, "%s/events.out.tfevents.5000000000.other.1.0", check_scratch());
	check_status(file_publish(path, "", 0), 0, "a file of the future");
	snprintf(path, sizeof path, "%s/events.out.tfevents.golden", check_scratch());
	check_status(file_publish(path, "", 0), 0, "a file without number");
	if (check_status(tfevents_open(check_scratch(), 0, &events), 0, "open behind it")) {
		check(text_starts(tfevents_name(events), "events.out.tfevents.5000000001."),
			"its name sorts last");
		tfevents_close(events);
	}
	snprintf(path, sizeof path, "%s/events.out.tfevents.9999999999.other.1.0", check_scratch());
	check_status(file_publish(path, "", 0), 0, "a file at the end of time");
	check_status(tfevents_open(check_scratch(), 0, &events), STATUS_DATA, "nothing sorts behind it");
	check(strstr(error_message(), path) != NULL, "it is named");
	check_status(tfevents_open("nowhere", 0, &events), STATUS_NO_INPUT, "missing directory");
}

int main(void)
{
	test_record();
	test_torn();
	test_messages();
	test_golden();
	test_encoding();
	test_writer();
	test_names();
	return check_summary();
}
