/* Learning-rate schedules, by functions whose bits are the same on every machine. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include "base/random.h"
#include "train/schedule.h"

/* How many milestones n has reached, or is behind of. */
static int milestones_before(const struct schedule *schedule, int64_t n, bool behind)
{
	int count = 0;

	while (count < schedule->milestones &&
		(behind ? n > schedule->milestone[count] : n >= schedule->milestone[count]))
		count++;
	return count;
}

/* Behind the warm-up, of the kinds with milestones. */
static double stepped(const struct schedule *schedule, double rate, int64_t n)
{
	if (schedule->kind == SCHEDULE_TWO_STEPS) {
		int count = milestones_before(schedule, n, true);

		return count > 1 ? rate * (1 / (schedule->gamma * schedule->gamma))
		       : count   ? rate * (1 / schedule->gamma)
				 : rate;
	}
	for (int count = milestones_before(schedule, n, false); count > 0; count--)
		rate *= schedule->gamma;
	return rate;
}

double schedule_rate(const struct schedule *schedule, double base, int64_t n)
{
	if (n < schedule->warmup ||
		(schedule->kind != SCHEDULE_MULTISTEP && schedule->kind != SCHEDULE_TWO_STEPS))
		return base * schedule_factor(schedule, n);
	return stepped(schedule, base, n);
}

double schedule_at(const struct schedule *schedule, double base, int64_t step, int64_t epochs)
{
	struct schedule counted = *schedule;

	if (!schedule->by_epoch)
		return schedule_rate(schedule, base, step);
	counted.warmup = 0;
	base = schedule_rate(&counted, base, epochs);
	return step < schedule->warmup ? base * ((double)step / (double)schedule->warmup) : base;
}

double schedule_factor(const struct schedule *schedule, int64_t n)
{
	static const double pi = 3.14159265358979323846;
	double part;

	if (n < schedule->warmup)
		return (double)n / (double)schedule->warmup;
	if (schedule->kind == SCHEDULE_CONSTANT || schedule->kind == SCHEDULE_PLATEAU)
		return 1;
	if (schedule->kind == SCHEDULE_MULTISTEP || schedule->kind == SCHEDULE_TWO_STEPS)
		return stepped(schedule, 1, n);
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
		[SCHEDULE_COSINE] = "cosine",
		[SCHEDULE_MULTISTEP] = "multistep",
		[SCHEDULE_TWO_STEPS] = "two-steps",
		[SCHEDULE_PLATEAU] = "plateau"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(name, names[i]))
			return (int)i;
	}
	return -1;
}

void plateau_init(struct plateau *plateau, double base)
{
	*plateau = (struct plateau){.rate = base, .best = INFINITY};
}

void plateau_step(struct plateau *plateau, const struct schedule *schedule, double loss)
{
	double cut = schedule->gamma * plateau->rate;

	if (loss < plateau->best * (1 - schedule->threshold)) {
		plateau->best = loss;
		plateau->bad = 0;
		return;
	}
	if (++plateau->bad <= schedule->patience)
		return;
	if (plateau->rate - cut > 1e-8)
		plateau->rate = cut;
	plateau->bad = 0;
}
