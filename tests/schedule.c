/* Learning-rate schedules with milestones and plateaus, against what PyTorch's schedulers give (the others: tests/diffusion.c). */
#include "check.h"
#include "train/schedule.h"

static void test_multistep(void)
{
	static const struct schedule schedule = {
		.kind = SCHEDULE_MULTISTEP, .milestone = {50, 100, 150}, .milestones = 3, .gamma = 0.1};
	static const struct schedule twice = {
		.kind = SCHEDULE_MULTISTEP, .milestone = {3, 3, 5}, .milestones = 3, .gamma = 0.1};

	check(schedule_rate(&schedule, 0.1, 0) == 0.1 && schedule_rate(&schedule, 0.1, 49) == 0.1,
		"a rate stays until its first milestone");
	check(schedule_rate(&schedule, 0.1, 50) == 0.010000000000000002 &&
			schedule_rate(&schedule, 0.1, 100) == 0.0010000000000000002 &&
			schedule_rate(&schedule, 0.1, 1000) == 0.00010000000000000003,
		"rates are PyTorch's, to the last bit");
	check(schedule_rate(&twice, 0.1, 2) == 0.1 &&
			schedule_rate(&twice, 0.1, 3) == 0.0010000000000000002 &&
			schedule_rate(&twice, 0.1, 5) == 0.00010000000000000003,
		"a milestone that is named twice counts twice");
	check_close(schedule_factor(&schedule, 120), 0.01, 1e-17, "the factor on a base rate");
}

static void test_two_steps(void)
{
	static const struct schedule schedule = {.kind = SCHEDULE_TWO_STEPS,
		.warmup = 5000,
		.milestone = {300000, 400000},
		.milestones = 2,
		.gamma = 10};
	static const struct schedule small = {
		.kind = SCHEDULE_TWO_STEPS, .warmup = 4, .milestone = {6, 8}, .milestones = 2, .gamma = 10};
	static const struct {
		int64_t n;
		double factor;
	} rows[] = {{0, 0}, {2500, 0.5}, {4999, 0.9998}, {5000, 1}, {300000, 1}, {300001, 0.1}, {400000, 0.1},
		{400001, 0.01}};
	static const double first[] = {0, 0.25, 0.5, 0.75, 1, 1, 1, 0.1, 0.1, 0.01};
	bool good = true;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		good = good && schedule_factor(&schedule, rows[i].n) == rows[i].factor;
	check(good, "two steps behind a warm-up, strictly behind their milestones");
	for (int n = 0; n < 10; n++)
		good = good && schedule_factor(&small, n) == first[n] &&
		       schedule_rate(&small, 2, n) == 2 * first[n];
	check(good, "a short schedule, step by step");
}

static void test_plateau(void)
{
	static const struct schedule two = {
		.kind = SCHEDULE_PLATEAU, .gamma = 0.1, .patience = 2, .threshold = 1e-4};
	static const struct schedule none = {.kind = SCHEDULE_PLATEAU, .gamma = 0.1, .threshold = 1e-4};
	static const double losses[] = {
		3, 2.5, 2.5, 2.49999, 2.4999, 2.4996, 2.6, 2.7, 2.8, 2.9, 2.4, 2.4, 2.4, 2.4, 2.4, 2.4, 2.4};
	static const double rates[] = {.1, .1, .1, .1, .01, .01, .01, .01, .001, .001, .001, .001, .001,
		.0001, .0001, .0001, .00001};
	struct plateau plateau;
	bool good = true;

	plateau_init(&plateau, 0.1);
	for (size_t i = 0; i < sizeof(losses) / sizeof(*losses); i++) {
		plateau_step(&plateau, &two, losses[i]);
		good = good && fabs(plateau.rate / rates[i] - 1) < 1e-14;
	}
	check(good, "the rate is cut after more bad epochs than one has patience for");
	plateau_init(&plateau, 1e-7);
	plateau_step(&plateau, &none, 1);
	plateau_step(&plateau, &none, NAN);
	check(fabs(plateau.rate - 1e-8) < 1e-20, "a loss that is not a number is bad");
	plateau_step(&plateau, &none, 2);
	check(fabs(plateau.rate - 1e-8) < 1e-20, "cuts below 1e-8 are not made");
}

int main(void)
{
	test_multistep();
	test_two_steps();
	test_plateau();
	check(schedule_kind("multistep") == SCHEDULE_MULTISTEP &&
			schedule_kind("two-steps") == SCHEDULE_TWO_STEPS &&
			schedule_kind("plateau") == SCHEDULE_PLATEAU,
		"their names");
	return check_summary();
}
