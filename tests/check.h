/*
 * What a C test program needs: one line a check on stdout ("ok NAME", "not ok NAME: WHY", "ok NAME # skip WHY"), and
 * check_summary() as the value of main(). Names say what must hold; a check in a loop should report once.
 *
 *	int main(void)
 *	{
 *		check(names.count == 2, "both names are listed");
 *		check_close(loss, 0.25, 1e-6, "loss of two pixels");
 *		check_status(file_read("nowhere", 10, &data, &bytes), STATUS_NO_INPUT, "missing file");
 *		return check_summary();
 *	}
 */
#ifndef NIGHTSHIFT_TESTS_CHECK_H
#define NIGHTSHIFT_TESTS_CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static int check_failures, check_count;

/* The line of one check; `why` is for a failure. Returns `good`. */
__attribute__((format(printf, 3, 4), unused)) static bool check_report(
	bool good, const char *name, const char *why, ...)
{
	char text[1024];
	va_list arguments;
	va_start(arguments, why);
	vsnprintf(text, sizeof text, why, arguments);
	va_end(arguments);
	check_count++;
	check_failures += !good;
	if (good)
		printf("ok %s\n", name);
	else
		printf("not ok %s: %s\n", name, text);
	fflush(stdout); /* a crash later must not take it away */
	return good;
}

#define check(condition, name) check_report((condition), (name), "%s:%d: %s", __FILE__, __LINE__, #condition)

/* |value - expected| <= tolerance; equal infinities and two nan are close. */
__attribute__((unused)) static bool check_close(
	double value, double expected, double tolerance, const char *name)
{
	bool good =
		fabs(value - expected) <= tolerance || value == expected || (isnan(value) && isnan(expected));
	return check_report(good, name, "%.17g where %.17g +- %g was expected", value, expected, tolerance);
}

/* Largest |value - expected| over the larger of 1 and the largest |expected|. */
__attribute__((unused)) static bool check_array(
	const float *value, const float *expected, size_t count, double tolerance, const char *name)
{
	double scale = 1, worst = 0;
	size_t where = 0;
	for (size_t i = 0; i < count; i++) {
		double distance = fabs((double)value[i] - expected[i]);
		scale = fmax(scale, fabs(expected[i]));
		if (distance > worst || isnan(distance)) {
			worst = isnan(distance) ? INFINITY : distance;
			where = i;
		}
	}
	return check_report(worst <= tolerance * scale, name,
		"element %zu is %.9g where %.9g was expected (%.3g of scale)", where,
		count ? value[where] : 0, count ? expected[where] : 0, worst / scale);
}

__attribute__((unused)) static bool check_text(const char *value, const char *expected, const char *name)
{
	return check_report(!strcmp(value, expected), name, "'%s' where '%s' was expected", value, expected);
}

__attribute__((unused)) static bool check_status(int status, int expected, const char *name)
{
	return check_report(status == expected, name, "status %d where %d was expected (%s)", status,
		expected, error_message());
}

__attribute__((unused)) static void check_skip(const char *name, const char *why)
{
	check_count++;
	printf("ok %s # skip %s\n", name, why);
}

/* A directory of this test's own below $TMPDIR, removed by check_summary(). */
static char check_scratch_path[256];

__attribute__((unused)) static const char *check_scratch(void)
{
	const char *base = getenv("TMPDIR");
	if (check_scratch_path[0])
		return check_scratch_path;
	snprintf(check_scratch_path, sizeof check_scratch_path, "%s/nightshift-test.XXXXXX",
		base ? base : "/tmp");
	if (!mkdtemp(check_scratch_path)) {
		printf("not ok scratch directory %s\n", check_scratch_path);
		exit(1);
	}
	return check_scratch_path;
}

int file_remove_tree(const char *path); /* base/files.h */

__attribute__((unused)) static int check_summary(void)
{
	if (check_scratch_path[0])
		file_remove_tree(check_scratch_path);
	if (!check_count)
		printf("not ok no check ran\n");
	return check_failures || !check_count;
}

#endif
