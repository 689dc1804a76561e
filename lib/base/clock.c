/* Clocks. */
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

static struct timespec start;

__attribute__((constructor)) static void remember_start(void)
{
	clock_gettime(CLOCK_MONOTONIC, &start);
}

double clock_seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9;
}

double clock_wall(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void clock_sleep(double seconds)
{
	if (!(seconds > 0))
		return;
	double whole = floor(seconds);
	struct timespec pause = {.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
	nanosleep(&pause, NULL);
}

const char *clock_text(double wall, char buffer[32])
{
	time_t seconds = (time_t)floor(wall);
	struct tm parts;
	if (!gmtime_r(&seconds, &parts) || !strftime(buffer, 32, "%Y-%m-%dT%H:%M:%SZ", &parts))
		snprintf(buffer, 32, "?");
	return buffer;
}

/* Two digits and then `behind`; -1 when it is something else. */
static int two_digits(const char **text, const char *behind, int limit)
{
	const char *c = *text;
	if (c[0] < '0' || c[0] > '9' || c[1] < '0' || c[1] > '9' || !strchr(behind, c[2]))
		return -1;
	int value = (c[0] - '0') * 10 + c[1] - '0';
	*text = c + 2 + (c[2] != 0);
	return value <= limit ? value : -1;
}

/* HH:MM[:SS] up to the end of the text. */
static int parse_time_of_day(const char *text, struct tm *parts)
{
	parts->tm_hour = two_digits(&text, ":", 23);
	if (parts->tm_hour < 0)
		return 1;
	parts->tm_min = two_digits(&text, text[0] && text[1] && text[2] ? ":" : "", 59);
	if (parts->tm_min < 0)
		return 1;
	parts->tm_sec = *text ? two_digits(&text, "", 59) : 0;
	return parts->tm_sec < 0 || text[-1] == ':';
}

static int parse_date(const char *text, struct tm *parts)
{
	if (strlen(text) < 11 || text[4] != '-' || text[10] != 'T' || strspn(text, "0123456789") != 4)
		return 1;
	parts->tm_year =
		(text[0] - '0') * 1000 + (text[1] - '0') * 100 + (text[2] - '0') * 10 + text[3] - '0' - 1900;
	text += 5;
	parts->tm_mon = two_digits(&text, "-", 12) - 1;
	if (parts->tm_mon < 0)
		return 1;
	parts->tm_mday = two_digits(&text, "T", 31);
	return parts->tm_mday < 1 || parse_time_of_day(text, parts);
}

int clock_parse(const char *text, double *wall)
{
	double seconds;
	struct tm parts = {0};
	if (text_to_double(text, &seconds)) {
		if (!(seconds >= 0 && seconds < 1e12))
			return 1;
		*wall = seconds;
		return 0;
	}
	time_t now = time(NULL);
	if (!strchr(text, 'T')) {
		struct tm clock;
		localtime_r(&now, &parts);
		clock = parts;
		if (parse_time_of_day(text, &clock))
			return 1;
		clock.tm_isdst = -1;
		struct tm tomorrow = clock;
		tomorrow.tm_mday++;
		time_t when = mktime(&clock);
		*wall = (double)(when > now ? when : mktime(&tomorrow));
		return 0;
	}
	if (parse_date(text, &parts))
		return 1;
	int day = parts.tm_mday;
	parts.tm_isdst = -1;
	time_t when = mktime(&parts);
	/* mktime() turns February 30 into March: refused instead. */
	if (when == (time_t)-1 || parts.tm_mday != day)
		return 1;
	*wall = (double)when;
	return 0;
}
