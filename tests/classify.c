/* Parts of the classification task against numbers of the original (spec'd by its behaviour): scores, results, names of files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/memory.h"
#include "check.h"
#include "metric/classify.h"
#include "task/classify_result.h"

static void test_scores(void)
{
	float logits[9] = {1, 2, 3, 3, 1, 2, 0, 0, 1}, mean[3];
	const float wanted[3] = {0.322404325F, 0.182233527F, 0.495362073F};
	size_t best[3];

	check_close(classify_loss(logits, 3, 2), 0.4076059644443804, 1e-15, "loss of logits 1 2 3, truth 2");
	for (int w = 0; w < 3; w++)
		classify_softmax(logits + 3 * w, 3, logits + 3 * w);
	classify_mean(logits, 3, 3, mean);
	for (int i = 0; i < 3; i++)
		check_close((double)mean[i], (double)wanted[i], 1e-7, "mean of the softmax of three windows");
	classify_best(mean, 3, 3, best);
	check(best[0] == 2 && best[1] == 0 && best[2] == 1, "the best classes in order");
	check(classify_rank(mean, 3, 2) == 0 && classify_rank(mean, 3, 0) == 1 &&
			classify_rank(mean, 3, 1) == 2,
		"ranks");
}

/* Of equal values the lower class comes first, in ranks as in lists. */
static void test_ties(void)
{
	const float value[5] = {1, 2, 2, 0, 2};
	size_t best[4];

	classify_best(value, 5, 4, best);
	check(best[0] == 1 && best[1] == 2 && best[2] == 4 && best[3] == 0, "ties: the lower class first");
	check(classify_rank(value, 5, 1) == 0 && classify_rank(value, 5, 2) == 1 &&
			classify_rank(value, 5, 4) == 2,
		"ties: ranks go with the list");
}

/* Logits far apart: no overflow, no loss of the true value. */
static void test_extremes(void)
{
	const float logits[3] = {1000, 0, -1000};
	float probability[3];

	classify_softmax(logits, 3, probability);
	check(probability[0] == 1 && probability[1] == 0 && probability[2] == 0,
		"softmax of logits far apart");
	check_close(classify_loss(logits, 3, 2), 2000, 1e-12, "loss of logits far apart");
}

/* The lines of the original's writer for two windows; scores to 1e-7, as they depend on the exponential function. */
static const struct {
	bool average;
	const char *json;
	double score[4];
} results[] = {
	{true,
		"{\"results\": {\"v2\": [{\"label\": \"c \\u00e9\", \"score\": @}, {\"label\": \"a\", "
		"\"score\": @}]}}",
		{0.4549846947193146, 0.3776357173919678}},
	{false,
		"{\"results\": {\"v2\": [{\"segment\": [1, 17], \"result\": [{\"label\": \"c \\u00e9\", "
		"\"score\": @}, "
		"{\"label\": \"b \\\"q\\\"\", \"score\": @}]}, {\"segment\": [17, 33], \"result\": "
		"[{\"label\": \"a\", "
		"\"score\": @}, {\"label\": \"c \\u00e9\", \"score\": @}]}]}}",
		{0.6652409434318542, 0.2447284758090973, 0.6652408838272095, 0.2447284460067749}},
};

/* Equal but for numbers at each '@', which are compared with `score`. */
static bool same(const char *json, const char *wanted, const double *score)
{
	for (; *wanted; wanted++) {
		char number[40];
		size_t length = strcspn(json, ",}");
		double value;

		if (*wanted != '@') {
			if (*json++ != *wanted)
				return false;
			continue;
		}
		if (length >= sizeof number)
			return false;
		memcpy(number, json, length);
		number[length] = '\0';
		/* the shortest digits of a float32 */
		if (!text_to_double(number, &value) || fabs(value - *score++) > 1e-7 ||
			(double)(float)value != value)
			return false;
		json += length;
	}
	return *json == '\0';
}

static void test_results(void)
{
	char *names[] = {"a", "b \"q\"", "c \xc3\xa9"};
	const struct classify_labels labels = {.name = names, .count = 3};
	const int64_t segment[2][2] = {{1, 17}, {17, 33}};
	float probability[6] = {1, 2, 3, 3, 1, 2};

	classify_softmax(probability, 3, probability);
	classify_softmax(probability + 3, 3, probability + 3);
	for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
		struct classify_result result;

		classify_result_begin(&result, results[i].average, 2);
		check(!classify_result_add(&result, "v2", &labels, probability, 2, 3, segment) &&
				!classify_result_end(&result),
			"a result is made");
		check_report(same(result.json.data, results[i].json, results[i].score),
			"a result as the original writes it", "%s", result.json.data);
		classify_result_release(&result);
	}
}

/* What Python's json.dumps makes of strings and of a score of 1. */
static void test_json(void)
{
	char *names[] = {"tab\t bell\a del\x7f \xf0\x9f\x90\xb1 \xff /"};
	const struct classify_labels labels = {.name = names, .count = 1};
	const int64_t segment[1][2] = {{1, 17}};
	const float one[1] = {1};
	struct classify_result result;

	classify_result_begin(&result, true, 5);
	check(!classify_result_add(&result, "v/1", &labels, one, 1, 1, segment) &&
			!classify_result_add(&result, "v2", &labels, one, 1, 1, segment) &&
			!classify_result_end(&result),
		"results are made");
	check_report(!strcmp(result.json.data, "{\"results\": {\"v/1\": [{\"label\": \"tab\\t bell\\u0007 "
					       "del\\u007f \\ud83d\\udc31 \\udcff /\", "
					       "\"score\": 1.0}], \"v2\": [{\"label\": \"tab\\t bell\\u0007 "
					       "del\\u007f \\ud83d\\udc31 \\udcff "
					       "/\", \"score\": 1.0}]}}"),
		"strings as json.dumps writes them", "%s", result.json.data);
	check(!strcmp(strchr(result.table.data, '\n') + 1,
		      "v/1\t1\t17\t1\ttab\\t bell\a del\x7f \xf0\x9f\x90\xb1 \xff /\t1\n"
		      "v2\t1\t17\t1\ttab\\t bell\a del\x7f \xf0\x9f\x90\xb1 \xff /\t1\n"),
		"the same as a table");
	classify_result_release(&result);
}

static void test_labels(void)
{
	char *names[] = {"a", "b", "a"};
	const struct classify_labels labels = {.name = names, .count = 3};
	char buffer[32];
	struct text text = {0};

	check(classify_label_find(&labels, "a") == 2 && classify_label_find(&labels, "c") == -1,
		"of two equal labels the later counts");
	check(!strcmp(classify_label(&labels, 1, buffer), "b") &&
			!strcmp(classify_label(&labels, 7, buffer), "#7"),
		"a class without a label has a number");
	classify_labels_write(&labels, &text);
	check(!strcmp(text.data, "a\nb\na\n"), "labels as a file");
	text_release(&text);
}

int main(void)
{
	test_scores();
	test_ties();
	test_extremes();
	test_results();
	test_json();
	test_labels();
	return check_summary();
}
