/* Learning-rate schedules, by functions whose bits are the same on every machine. */
#include <stddef.h>
#include <string.h>
#include "base/random.h"
#include "train/schedule.h"

double schedule_factor(const struct schedule *schedule, int64_t n)
{
	static const double pi = 3.14159265358979323846;
	double part;

	if (n < schedule->warmup)
		return (double)n / (double)schedule->warmup;
	if (schedule->kind == SCHEDULE_CONSTANT)
		return 1;
	if (n >= schedule->total)
		return schedule->final_ratio;
	part = (double)(n - schedule->warmup) / (double)(schedule->total - schedule->warmup);
	if (schedule->kind == SCHEDULE_COSINE)
		return schedule->final_ratio + (1 - schedule->final_ratio) * 0.5 * (1 + exact_cos(pi * part));
	if (schedule->final_ratio <= 0)
		return n > schedule->warmup ? 0 : 1;
	return exact_exp(part * exact_log(schedule->final_ratio));
}

int schedule_kind(const char *name)
{
	static const char *const names[] = {[SCHEDULE_CONSTANT] = "constant",
		[SCHEDULE_EXPONENTIAL] = "exponential",
		[SCHEDULE_COSINE] = "cosine"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(name, names[i]))
			return (int)i;
	}
	return -1;
}
