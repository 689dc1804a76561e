/* Depth metrics and alignment: the published formulas by hand, and NumPy's and PyTorch's numbers. */
#include "metric/depth.h"

#include "base/files.h"
#include "base/text.h"
#include "check.h"
#include "file/npy.h"

enum { FIELDS = 5 + DEPTH_METRICS };

static void test_by_hand(void)
{
	static const float p[] = {1, 2, 3, 4, 1.5f, 0.5f}, g[] = {1, 2.5f, 2, 8, 0, 1};
	static const uint8_t mask[] = {1, 1, 1, 1, 0, 1}, none[6];
	static const double expected[] = {
		0.34, 0.57, 1.8708287, 0.4847888, 0.1750123, 0.2, 0.6, 0.6, 0.4589995, 42.075909};
	double metrics[DEPTH_METRICS];
	bool empty = true;

	depth_metrics(p, g, mask, 6, metrics);
	for (int i = 0; i < DEPTH_METRICS; i++)
		check_close(metrics[i], expected[i], 1e-7 * (1 + expected[i]), depth_metric_names[i]);
	depth_metrics(p, g, none, 6, metrics);
	for (int i = 0; i < DEPTH_METRICS; i++)
		empty = empty && isnan(metrics[i]);
	check(empty, "an empty mask gives nan for every metric");
}

static void test_fit(void)
{
	static const float p[] = {0.1f, 0.3f, 0.5f, 0.7f, 0.2f}, g[] = {2, 4, 6, 9, 3};
	static const float constant[] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
	static const float broken[] = {0.1f, NAN, 0.5f, 0.7f, 0.2f};
	static const uint8_t all[] = {1, 1, 1, 1, 1}, none[5], but_second[] = {1, 0, 1, 1, 1};
	double scale, shift;
	float out[5];

	check_status(depth_fit(p, g, all, 5, &scale, &shift), STATUS_OK, "five pixels are fitted");
	check_close(scale, 11.4655172, 1e-6, "their scale");
	check_close(shift, 0.6724138, 1e-6, "their shift");
	check_status(depth_fit(constant, g, all, 5, &scale, &shift), STATUS_OK, "a constant is fitted");
	check_close(scale, 1.92, 1e-12, "minimum-norm scale of a constant");
	check_close(shift, 3.84, 1e-12, "minimum-norm shift of a constant");
	check_status(depth_fit(p, g, none, 5, &scale, &shift), STATUS_DATA, "an empty mask is refused");
	check_status(depth_fit(broken, g, all, 5, &scale, &shift), STATUS_DATA, "nan in the fit is refused");
	check_status(depth_fit(broken, g, but_second, 5, &scale, &shift), STATUS_OK,
		"nan outside the mask is not seen");
	for (int kind = DEPTH_ALIGN_NONE; kind <= DEPTH_ALIGN_DISPARITY; kind++)
		check_status(depth_align((enum depth_align)kind, broken, g, all, 5, 0.1, 10, out),
			STATUS_DATA, "every alignment refuses nan");
}

static void test_clipping(void)
{
	static const float p[] = {-1, 0.5f, 3, 20}, g[] = {1, 1, 1, 1};
	static const uint8_t all[] = {1, 1, 1, 1};
	float out[4];

	depth_align(DEPTH_ALIGN_NONE, p, g, all, 4, 0.75, 10, out);
	check(out[0] == 0.75f && out[1] == 0.75f && out[2] == 3 && out[3] == 10,
		"predictions are clipped to the range");
	depth_align(DEPTH_ALIGN_NONE, p, g, all, 4, -5, INFINITY, out);
	check(out[0] == 1e-6f && out[3] == 20, "predictions are clipped to 1e-6 at least");
}

/* Values that no aligned prediction has must give what the formulas give, not the series of the logarithm. */
static void test_unclipped(void)
{
	float p[9], g[9];
	uint8_t mask[9];
	double metrics[DEPTH_METRICS];

	for (int i = 0; i < 9; i++)
		p[i] = 1, g[i] = 2, mask[i] = 1;
	p[8] = 0;
	depth_metrics(p, g, mask, 9, metrics);
	check(metrics[3] == HUGE_VAL && metrics[8] == HUGE_VAL,
		"a prediction of 0 makes rmse_log and i_rmse infinite");
	check_close(metrics[0], (8 * 0.5 + 1) / 9, 1e-15, "and leaves the linear metrics alone");
	p[8] = -1;
	depth_metrics(p, g, mask, 9, metrics);
	check(isnan(metrics[3]), "a negative prediction makes rmse_log nan");
	p[8] = NAN;
	depth_metrics(p, g, mask, 9, metrics);
	check(isnan(metrics[0]) && metrics[7] == 0, "nan in a prediction shows");
}

/* `double` numbers differ by the rounding of sums in another order; `single` ones by that of float32 logarithms. */
static double tolerance(bool wide, int metric, double expected)
{
	if (wide)
		return 2e-12 * (1 + fabs(expected));
	return (metric == 9 ? 3e-2 : 1e-5) * (1 + fabs(expected));
}

static void check_row(const struct npy *maps, char **field)
{
	size_t size = (size_t)(maps->dim[2] * maps->dim[3]);
	int64_t number = -1;
	int kind = depth_align_find(field[1]);
	bool wide = !strcmp(field[2], "double");
	double metrics[DEPTH_METRICS], expected[FIELDS] = {0}, scale = 0, shift = 0;
	char name[128];

	snprintf(name, sizeof name, "case %s, %s, %s", field[0], field[1], field[2]);
	for (int i = 3; i < FIELDS; i++)
		if (!text_to_double(field[i], &expected[i]))
			check_report(false, name, "bad number %s", field[i]);
	if (kind < 0 || !text_to_int64(field[0], &number) || number < 0 || number >= maps->dim[0]) {
		check_report(false, name, "bad row");
		return;
	}
	const float *p = maps->data + (size_t)number * 3 * size, *g = p + size;
	float *aligned = malloc(size * sizeof *aligned);
	uint8_t *mask = malloc(size);
	for (size_t i = 0; i < size; i++)
		mask[i] = g[size + i] != 0;
	if (kind == DEPTH_ALIGN_LEAST_SQUARES && !depth_fit(p, g, mask, size, &scale, &shift)) {
		/* The library's singular values carry eps x condition. */
		double slack = number == 6 ? 1e-9 : 1e-12;

		check_report(fabs(scale - expected[3]) <= slack * (1 + fabs(scale)) &&
				     fabs(shift - expected[4]) <= slack * (1 + fabs(shift)),
			name, "fit %.17g %.17g, expected %.17g %.17g", scale, shift, expected[3],
			expected[4]);
	}
	if (check_status(depth_align((enum depth_align)kind, p, g, mask, size, 1e-3, 10, aligned), 0, name)) {
		int worst = -1;

		depth_metrics(aligned, g, mask, size, metrics);
		for (int i = 0; i < DEPTH_METRICS; i++)
			if (!(fabs(metrics[i] - expected[5 + i]) <= tolerance(wide, i, expected[5 + i])))
				worst = i;
		check_report(worst < 0, name, "%s is %.17g, expected %.17g",
			worst < 0 ? "" : depth_metric_names[worst], worst < 0 ? 0 : metrics[worst],
			worst < 0 ? 0 : expected[5 + worst]);
	}
	free(aligned);
	free(mask);
}

static void test_golden(void)
{
	struct npy maps = {0};
	char *table = NULL, *field[FIELDS];
	size_t bytes, rows = 0;

	if (check_status(npy_read("tests/golden/metrics.npy", &maps), 0, "read metrics.npy") &&
		check_status(file_read("tests/golden/metrics.tsv", 1 << 20, &table, &bytes), 0,
			"read metrics.tsv"))
		for (char *line = table, *end; (end = strchr(line, '\n')); line = end + 1, rows++) {
			*end = 0;
			if (text_split(line, '\t', field, FIELDS) == FIELDS)
				check_row(&maps, field);
		}
	check(rows == 60, "all rows of metrics.tsv were compared");
	free(table);
	npy_release(&maps);
}

int main(void)
{
	error_program("metrics");
	test_by_hand();
	test_fit();
	test_clipping();
	test_unclipped();
	test_golden();
	return check_summary();
}
