/*
 * Checkpoints: round trips, damage, faults at every call of a life, retention, the best.
 *
 * run_checkpoint live RUN STEP [best]: one life of a run, for the shim that injects faults.
 */
#include <signal.h>

#include "base/digest.h"
#include "run/checkpoint_parts.h"
#include "run_fixture.h"

static char *join3(const char *a, const char *b, const char *c)
{
	char *ab = path_join(a, b), *abc = path_join(ab, c);
	free(ab);
	return abc;
}

/* The step a resume finds; -1: none, -2: refused. *equal: the weights are those of that step. */
static int64_t resume(const char *path, bool *equal, struct train_state *state)
{
	struct run run;
	struct checkpoint checkpoint;
	bool found;
	int64_t step = -2;
	*equal = false;
	if (run_open(path, &run))
		return -2;
	if (!checkpoint_resume(&run, &checkpoint, &found)) {
		step = found ? checkpoint.step : -1;
		*equal = found && fixture_equal(&checkpoint, step) && checkpoint.state.step == step;
		if (state)
			train_state_copy(state, &checkpoint.state);
		checkpoint_release(&checkpoint);
	}
	run_close(&run);
	return step;
}

static int64_t resume_step(const char *path)
{
	bool equal;
	int64_t step = resume(path, &equal, NULL);
	return step >= 0 && !equal ? -3 : step;
}

/* ---- the state ---- */

static void test_state(void)
{
	char *path = fixture_make("state", NULL);
	double sums[] = {0.1, 1.0 / 3, -0.0, NAN, INFINITY, 5e-324, 1.7976931348623157e308};
	struct run run;
	struct text text = {0};
	struct train_state back, state = {.step = 12000,
					 .epoch = 3,
					 .samples = INT64_MAX,
					 .phase = PHASE_VALIDATE,
					 .set = 1,
					 .sample = 7,
					 .sums = sums,
					 .sums_count = 7,
					 .epoch_loss = 0.1 + 0.2,
					 .epoch_steps = 4,
					 .epoch_samples = 5,
					 .epoch_skipped = 6,
					 .data_samples = INT64_C(1) << 40,
					 .data_sum = UINT32_MAX,
					 .init = "0a1b2c3d /some/run",
					 .schedule = {1e-300, 2.0 / 3},
					 .best_metric = "a \"b\" \\n",
					 .best_value = 1 / 7.0,
					 .best_step = 11000,
					 .shift = 9};
	run_open(path, &run);
	snprintf(state.config_id, sizeof state.config_id, "%s", config_id(run.config));
	log_lengths_add(&state.logs, "log/step.tsv", UINT64_C(1) << 40);
	log_lengths_add(&state.logs, "events.out.tfevents.1.h", 0);
	train_state_format(&state, &text);
	check_status(
		train_state_take("train.cfg", memory_copy(text.data, text.length + 1), text.length, &back), 0,
		"a state reads back");
	check(back.step == 12000 && back.samples == INT64_MAX && back.phase == PHASE_VALIDATE &&
			back.set == 1 && back.sample == 7 && back.epoch == 3 && back.epoch_skipped == 6 &&
			back.best_step == 11000 && back.shift == 9 && back.data_samples == INT64_C(1) << 40 &&
			back.data_sum == UINT32_MAX,
		"its integers are equal");
	check(back.sums_count == 7 && !memcmp(back.sums, sums, 3 * sizeof *sums) && isnan(back.sums[3]) &&
			!memcmp(back.sums + 4, sums + 4, 3 * sizeof *sums) &&
			back.epoch_loss == state.epoch_loss &&
			!memcmp(back.schedule, state.schedule, sizeof back.schedule) &&
			back.best_value == state.best_value,
		"its floats are bit-equal");
	check(!strcmp(back.best_metric, state.best_metric) && !strcmp(back.init, state.init) &&
			back.logs.count == 2 && back.logs.item[0].bytes == UINT64_C(1) << 40 &&
			!strcmp(back.logs.item[1].name, "events.out.tfevents.1.h"),
		"its texts and logs are equal");
	train_state_release(&back);
	char *newer = memory_copy(text.data, text.length + 1);
	newer[strlen("format = ")] = '2';
	check_status(train_state_take("train.cfg", newer, text.length, &back), STATUS_CONFIG,
		"a newer format is refused");
	state.sums = NULL;
	state.sums_count = 0;
	train_state_release(&state);
	text_release(&text);
	run_close(&run);
	free(path);
}

/* Every truncation and many one-byte changes of a state: refused or read, never a crash. */
static void test_state_hostile(void)
{
	struct text text = {0};
	struct train_state back, state = {.step = 5, .best_metric = "rmse"};
	double sums[] = {1, 2};
	state.sums = sums;
	state.sums_count = 2;
	log_lengths_add(&state.logs, "log/step.tsv", 10);
	train_state_format(&state, &text);
	bool good = true;
	for (size_t i = 0; i < text.length; i++) {
		char *copy = memory_copy(text.data, text.length + 1);
		copy[i] = 0;
		int status = train_state_take("train.cfg", copy, i, &back);
		good = good && (status == STATUS_DATA || status == STATUS_CONFIG);
		if (!status)
			train_state_release(&back);
	}
	check(good, "a truncated state is refused at every length");
	for (size_t i = 0; i < text.length; i++)
		for (const char *c = "\"[];=,\\ \n\t0-9"; *c; c++) {
			char *copy = memory_copy(text.data, text.length + 1);
			copy[i] = *c;
			if (!train_state_take("train.cfg", copy, text.length, &back))
				train_state_release(&back);
		}
	check(true, "changed bytes of a state do no harm");
	log_lengths_release(&state.logs);
	text_release(&text);
}

/* ---- round trips ---- */

static void test_save(void)
{
	char *path = fixture_make("save", NULL);
	struct train_state state = {0};
	struct fixture_weights weights;
	uint64_t bytes = 0, size, sum = 0;
	bool equal;
	check(resume_step(path) == -1, "a new run has no checkpoint");
	check_status(fixture_live(path, 10, false), 0, "a first life");
	check(resume(path, &equal, &state) == 10 && equal, "its checkpoint is found, bit-equal");
	check(state.phase == PHASE_PICTURES && state.sample == 3,
		"the phase file says where the step stands");
	fixture_weights(&weights, 10);
	check_status(checkpoint_bytes(&weights.content, &bytes), 0, "bytes of a checkpoint");
	const char *files[] = {
		"model/net/weights.safetensors", "optimizer/optimizer.safetensors", "model/net/config.json"};
	for (int i = 0; i < 3; i++) {
		char *file = join3(path, "checkpoints/step-00000010", files[i]);
		sum += file_size(file, &size) ? 0 : size;
		free(file);
	}
	check(bytes == sum, "they are what lies on disk");
	char *best = join3(path, "checkpoints/step-00000010", "MANIFEST");
	struct manifest manifest;
	char *directory = path_directory(best);
	check_status(manifest_read(directory, &manifest), 0, "MANIFEST reads");
	check(manifest.count == 4 && !strcmp(manifest.file[0].path, "model/net/config.json") &&
			!strcmp(manifest.file[3].path, "train.cfg"),
		"it names the files in order");
	manifest_release(&manifest);
	train_state_release(&state);
	free(directory);
	free(best);
	free(path);
}

/* Several files of weights: a tensor each. */
static void test_shards(void)
{
	char *path = fixture_make("shards", NULL), *file;
	struct run run;
	struct shift shift;
	struct checkpoint checkpoint;
	struct train_state state = {.step = 10};
	struct fixture_weights weights;
	uint64_t expected, bytes;
	bool found;
	run_open(path, &run);
	shift_claim(&shift, &run, true, 0, NULL);
	snprintf(state.config_id, sizeof state.config_id, "%s", config_id(run.config));
	fixture_weights(&weights, 10);
	weights.content.shard_bytes = sizeof weights.values[0][0];
	weights.content.model_stem = "unet/diffusion_pytorch_model";
	check_status(checkpoint_save(&shift, &state, &weights.content, NULL, &bytes), 0, "a save in shards");
	check(!checkpoint_bytes(&weights.content, &expected) && bytes == expected,
		"has the bytes that were foretold");
	check(!checkpoint_resume(&run, &checkpoint, &found) && found && checkpoint.model_files == 3 &&
			checkpoint.optimizer_files == 3 && fixture_equal(&checkpoint, 10),
		"and reads back");
	checkpoint_release(&checkpoint);
	file = join3(path, "checkpoints/step-00000010/model/unet",
		"diffusion_pytorch_model.safetensors.index.json");
	check(file_exists(file), "with an index");
	free(file);
	file = join3(path, "checkpoints/step-00000010", "model");
	check(!checkpoint_open_path(file, &checkpoint) && checkpoint.model_files == 3 &&
			fixture_equal(&checkpoint, 10),
		"as a diffusers directory too");
	checkpoint_release(&checkpoint);
	free(file);
	run_close(&run);
	free(path);
}

static void write_text(const char *path, const char *text)
{
	if (file_publish(path, text, strlen(text)))
		exit(1);
}

/* ---- damage ---- */

static void flip(const char *path, off_t at)
{
	char byte;
	int descriptor = open(path, O_RDWR);
	if (descriptor < 0 || pread(descriptor, &byte, 1, at) != 1)
		exit(1);
	byte ^= 0x10;
	if (pwrite(descriptor, &byte, 1, at) != 1)
		exit(1);
	close(descriptor);
}

/* Flips bytes all over a file of the newest checkpoint: each must be noticed, and the older one taken. */
static bool flips_are_noticed(const char *path, const char *member, size_t step)
{
	char *file = join3(path, "checkpoints/step-00000020", member);
	char *directory = path_join(path, "checkpoints/step-00000020");
	uint64_t size = 0;
	bool good = !file_size(file, &size) && size > 0;
	for (uint64_t at = 0; at < size && good; at += step) {
		flip(file, (off_t)at);
		good = resume_step(path) == 10 && checkpoint_verify(directory) == STATUS_DATA;
		if (!good)
			printf("# %s: byte %llu\n", member, (unsigned long long)at);
		flip(file, (off_t)at);
	}
	free(directory);
	free(file);
	return good && resume_step(path) == 20;
}

static void test_damage(void)
{
	static const char *const members[] = {"MANIFEST", "train.cfg", "model/net/weights.safetensors",
		"model/net/config.json", "optimizer/optimizer.safetensors"};
	char *path = fixture_make("damage", NULL);
	fixture_live(path, 10, false);
	fixture_live(path, 20, false);
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		char name[128];
		snprintf(name, sizeof name, "a flipped byte of %s is noticed", members[i]);
		check(flips_are_noticed(path, members[i], i < 2 ? 3 : 29), name);
	}
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		char name[128], *file = join3(path, "checkpoints/step-00000020", members[i]), *data;
		size_t bytes;
		file_read(file, 1 << 20, &data, &bytes);
		snprintf(name, sizeof name, "%s cut or missing is noticed", members[i]);
		bool good = !truncate(file, (off_t)bytes / 2) && resume_step(path) == 10;
		good = good && !unlink(file) && resume_step(path) == 10;
		check(good, name);
		file_publish(file, data, bytes);
		free(data);
		free(file);
	}
	check(resume_step(path) == 20, "whole again");
	free(path);
}

static void test_phase_damage(void)
{
	char *path = fixture_make("phase", NULL), *file = path_join(path, "checkpoints/step-00000010.phase");
	struct train_state state = {0};
	uint64_t size;
	bool equal, good = true;
	fixture_live(path, 10, false);
	file_size(file, &size);
	for (uint64_t at = 0; at < size && good; at += 7) {
		flip(file, (off_t)at);
		good = resume(path, &equal, &state) == 10 && equal && state.phase == PHASE_VALIDATE;
		train_state_release(&state);
		flip(file, (off_t)at);
	}
	check(good, "a damaged phase file is passed over, its checkpoint is not");
	check(resume(path, &equal, &state) == 10 && state.phase == PHASE_PICTURES, "a whole one counts");
	train_state_release(&state);
	char *val = path_join(path, "log/val.tsv");
	check(!truncate(val, 40) && resume(path, &equal, &state) == 10 && equal &&
			state.phase == PHASE_VALIDATE,
		"so is one whose logs are too short");
	train_state_release(&state);
	free(val);
	free(file);
	free(path);
}

static void test_logs_and_names(void)
{
	char *path = fixture_make("logs", NULL), *copy = path_join(check_scratch(), "logs-copy");
	fixture_live(path, 10, false);
	fixture_live(path, 20, false);
	fixture_copy(path, copy);
	char *log = path_join(copy, "log/step.tsv");
	uint64_t size;
	file_size(log, &size);
	check(!truncate(log, (off_t)size - 1) && resume_step(copy) == 10,
		"a log that is too short makes a checkpoint invalid");
	check(!truncate(log, 3) && resume_step(copy) == -2,
		"where none is left the run is refused, not started over");
	check_status(error_status(), STATUS_DATA, "that is bad data");
	free(log);

	fixture_copy(path, copy);
	char *twenty = path_join(copy, "checkpoints/step-00000020"),
	     *thirty = path_join(copy, "checkpoints/step-00000030");
	check(!rename(twenty, thirty) && resume_step(copy) == 10,
		"a name that lies about its step is passed over");
	check(!rename(thirty, twenty) && resume_step(copy) == 20, "a true one is not");
	char *odd = path_join(copy, "checkpoints/step-30"),
	     *plus = path_join(copy, "checkpoints/step-+0000030");
	fixture_copy(twenty, odd);
	fixture_copy(twenty, plus);
	check(resume_step(copy) == 20, "other spellings of a number are no checkpoints");

	/* An identity key that changes makes all of them another run's. */
	char *config = path_join(copy, "config.cfg"), *data;
	size_t bytes;
	file_read(config, 1 << 20, &data, &bytes);
	char *seed = strstr(data, "seed = ");
	seed[strlen("seed = ")] = '9';
	file_publish(config, data, bytes);
	check(resume_step(copy) == -2 && error_status() == STATUS_CONFIG, "another configuration is refused");
	free(data);
	free(config);
	free(odd);
	free(plus);
	free(twenty);
	free(thirty);
	free(copy);
	free(path);
}

static void test_hostile_manifest(void)
{
	static const char *const bad[] = {"", "\n", "00000000", "zzzzzzzz\n", "00000000\t5\t../x\n",
		"00000000\t5\t/etc/passwd\n", "00000000\t-5\tx\n", "00000000\t99999999999999999999999\tx\n",
		"00000000\t5\n", "0000000\t5\tx\n", "00000000\t5\tx\n00000000\t5\tx\n",
		"00000000\t5\tb\n00000000\t5\ta\n", "00000000\t5\tx\ty\n"};
	char *path = path_join(check_scratch(), "hostile"), *file = path_join(path, "MANIFEST");
	bool good = !file_make_directory(path);
	for (size_t i = 0; i < sizeof bad / sizeof *bad && good; i++) {
		struct text text = {0};
		text_add(&text, bad[i]);
		if (strchr(bad[i], '\t'))
			text_format(&text, "%08x\n", crc32c(0, bad[i], strlen(bad[i])));
		write_text(file, text.data ? text.data : "");
		good = checkpoint_verify(path) == STATUS_DATA;
		if (!good)
			printf("# %s\n", bad[i]);
		text_release(&text);
	}
	check(good, "bad manifests are refused");
	check_status(checkpoint_verify(check_scratch()), STATUS_DATA, "a directory without one too");
	free(file);
	free(path);
}

/* ---- publishing once ---- */

static void test_publish_once(void)
{
	char *path = fixture_make("once", NULL),
	     *file = join3(path, "checkpoints/step-00000010", "model/net/weights.safetensors");
	struct run run;
	struct shift shift;
	struct train_state state = {0};
	struct fixture_weights weights;
	struct stat before, after;
	struct names names;
	bool equal;
	fixture_live(path, 10, false);
	resume(path, &equal, &state);
	run_open(path, &run);
	shift_claim(&shift, &run, true, 10, NULL);
	stat(file, &before);
	fixture_weights(&weights, 10);
	state.phase = PHASE_STEP;
	check_status(checkpoint_save(&shift, &state, &weights.content, NULL, NULL), 0, "saving a step again");
	stat(file, &after);
	check(before.st_ino == after.st_ino, "leaves the valid one that is there");
	flip(file, 100);
	check_status(checkpoint_save(&shift, &state, &weights.content, NULL, NULL), 0,
		"saving over a damaged one");
	check(resume_step(path) == 10, "makes it whole");
	char *directory = path_join(path, "checkpoints"),
	     *phase = path_join(path, "checkpoints/step-00000010.phase");
	check(!file_exists(phase), "the phase file of the damaged one is gone");
	file_list(directory, &names);
	check(names.count == 2 && text_ends(names.name[0], ".dead"), "the damaged one is set aside");
	names_release(&names);
	checkpoint_prune(&shift, 2);
	file_list(directory, &names);
	check(names.count == 1, "and removed with the other leftovers");
	names_release(&names);
	shift_end(&shift, 10, 0, "done");
	free(directory);
	free(phase);
	train_state_release(&state);
	run_close(&run);
	free(file);
	free(path);
}

/* ---- retention ---- */

static bool lists(const char *path, const char *expected)
{
	struct names names;
	struct text text = {0};
	char *directory = path_join(path, "checkpoints");
	if (!file_list(directory, &names))
		for (size_t i = 0; i < names.count; i++)
			if (!text_ends(names.name[i], ".phase"))
				text_format(&text, "%s%s", text.length ? " " : "", names.name[i]);
	bool equal = !strcmp(text.data ? text.data : "", expected);
	if (!equal)
		printf("# there are: %s\n", text.data ? text.data : "");
	names_release(&names);
	text_release(&text);
	free(directory);
	return equal;
}

static void test_keep(void)
{
	char *path = fixture_make("keep", "checkpoint.keep_every=20");
	struct run run;
	struct shift shift;
	for (int step = 10; step <= 40; step += 10)
		fixture_live(path, step, step <= 30);
	check(lists(path, "best step-00000030 step-00000040 weights-00000020 weights-00000030"),
		"two newest, the best weights and those of keep_every stay");
	run_open(path, &run);
	shift_claim(&shift, &run, true, 40, NULL);
	char *newest = join3(path, "checkpoints/step-00000040", "train.cfg");
	char *leftover = path_join(path, "checkpoints/.step-00000050.shift-2.host.1.0.partial");
	char *later = path_join(path, "checkpoints/.step-00000050.shift-99.host.1.0.partial");
	char *orphan = path_join(path, "checkpoints/step-00000020.phase");
	write_text(orphan, "");
	file_make_directory(leftover);
	file_make_directory(later);
	flip(newest, 5);
	check_status(checkpoint_prune(&shift, 1), 0, "retention with a damaged newest");
	check(lists(path, ".step-00000050.shift-99.host.1.0.partial best step-00000030 step-00000040 "
			  "weights-00000020 "
			  "weights-00000030"),
		"removes no older one, but the leftovers of dead shifts, and none of a later shift");
	flip(newest, 5);
	file_remove_tree(later);
	check_status(checkpoint_prune(&shift, 1), 0, "retention with a whole newest");
	check(lists(path, "best step-00000040 weights-00000020 weights-00000030") && !file_exists(orphan),
		"removes the older one, and phases without a checkpoint");
	free(orphan);
	free(newest);
	free(leftover);
	free(later);
	run_close(&run);
	free(path);
}

/* A checkpoint of a higher step that is no good must not make the good ones go. */
static void test_keep_stale(void)
{
	char *path = fixture_make("stale", NULL);
	for (int step = 10; step <= 30; step += 10)
		fixture_live(path, step, false);
	char *config = join3(path, "checkpoints/step-00000030", "train.cfg");
	flip(config, 5);
	fixture_live(path, 25, false);
	fixture_live(path, 26, false);
	check(lists(path, "step-00000025 step-00000026 step-00000030"), "damaged ones count for nothing");
	check(resume_step(path) == 26, "the run goes on from the good one");
	fixture_live(path, 30, false);
	check(resume_step(path) == 30 && lists(path, "step-00000026 step-00000030"),
		"and writes it anew when it comes there");
	free(config);
	free(path);
}

/* ---- the other programs ---- */

static int64_t open_step(const char *path, const char *which, int *status, bool *weights)
{
	struct run run;
	struct checkpoint checkpoint;
	int64_t step = -1;
	run_open(path, &run);
	*status = checkpoint_open(&run, which, &checkpoint);
	if (!*status && fixture_equal(&checkpoint, checkpoint.step) && !checkpoint.optimizer_files) {
		step = checkpoint.step;
		*weights = checkpoint.weights_only;
	}
	checkpoint_release(&checkpoint);
	run_close(&run);
	return step;
}

static void test_open(void)
{
	char *path = fixture_make("open", NULL);
	struct checkpoint checkpoint;
	int status;
	bool weights = false;
	check(open_step(path, NULL, &status, &weights) < 0 && status == STATUS_NO_INPUT,
		"nothing to open yet");
	fixture_live(path, 10, true);
	fixture_live(path, 20, false);
	check(open_step(path, NULL, &status, &weights) == 20 && !weights, "the newest is opened");
	check(open_step(path, "best", &status, &weights) == 10 && weights, "the best is opened");
	check(open_step(path, "10", &status, &weights) == 10 && weights, "a step is opened");
	check(open_step(path, "11", &status, &weights) < 0 && status == STATUS_NO_INPUT,
		"a step that is not there");
	check(open_step(path, "1x", &status, &weights) < 0 && status == STATUS_USAGE,
		"a word that is no step");
	char *file = join3(path, "checkpoints/step-00000020", "model/net/weights.safetensors");
	flip(file, 100);
	check(open_step(path, NULL, &status, &weights) == 10 && weights, "a damaged newest is passed over");
	flip(file, 100);
	char *directory = path_join(path, "checkpoints/step-00000010"),
	     *model = path_join(directory, "model");
	check_status(checkpoint_open_path(path, &checkpoint), 0, "a run by its path");
	check(checkpoint.step == 20 && fixture_equal(&checkpoint, 20), "is its newest checkpoint");
	checkpoint_release(&checkpoint);
	check_status(checkpoint_open_path(directory, &checkpoint), 0, "a checkpoint by its path");
	check(checkpoint.step == 10 && fixture_equal(&checkpoint, 10) && strlen(checkpoint.digest) == 8,
		"is itself");
	checkpoint_release(&checkpoint);
	check_status(checkpoint_open_path(model, &checkpoint), 0, "a directory of weights");
	check(fixture_equal(&checkpoint, 10), "has them");
	checkpoint_release(&checkpoint);
	check_status(checkpoint_open_path(file, &checkpoint), 0, "a file of weights");
	check(fixture_equal(&checkpoint, 20), "has them too");
	checkpoint_release(&checkpoint);
	check_status(
		checkpoint_open_path("/nowhere", &checkpoint), STATUS_NO_INPUT, "a path that is not there");
	check_status(checkpoint_open_path(check_scratch(), &checkpoint), STATUS_DATA,
		"a directory with twice the same tensors");
	free(model);
	free(directory);
	free(file);
	free(path);
}

/* A full disk must not stay full for what did not come about. */
static bool left_nothing(const char *path)
{
	struct names names;
	char *directory = path_join(path, "checkpoints");
	bool clean = !file_list(directory, &names);
	for (size_t i = 0; i < names.count; i++)
		clean = clean && !text_ends(names.name[i], ".partial");
	names_release(&names);
	free(directory);
	return clean;
}

/* An owner and a zombie that both passed the fence publish the same steps at the same time. */
static void test_two_writers(void)
{
	enum { STEPS = 60 };
	char *path = fixture_make("writers", NULL);
	struct run run;
	struct shift shift;
	int bad = 0, status;
	run_open(path, &run);
	shift_claim(&shift, &run, true, 0, NULL);
	pid_t child = fork();
	for (int step = 1; step <= STEPS && !bad; step++) {
		struct train_state state = {.step = step};
		struct fixture_weights weights;
		snprintf(state.config_id, sizeof state.config_id, "%s", config_id(run.config));
		fixture_weights(&weights, step);
		bad = checkpoint_save(&shift, &state, &weights.content, NULL, NULL);
	}
	if (!child) {
		run_close(&run);
		free(path);
		_exit(bad);
	}
	bad += waitpid(child, &status, 0) != child || status;
	for (int step = 1; step <= STEPS; step++) {
		struct checkpoint_entry entry = {CHECKPOINT_STEP, step};
		bad += checkpoint_judge(&run, &entry, false) != 0;
	}
	check_report(!bad && left_nothing(path), "two writers of the same steps leave each of them whole",
		"%d: %s", bad, error_message());
	run_close(&run);
	free(path);
}

static int said;

static void count_line(const char *text, void *context)
{
	(void)text;
	(void)context;
	said++;
}

/* Reads while another process trains and removes: whatever is found is whole, nothing is called damaged. */
static void test_readers(void)
{
	enum { LIVES = 40 };
	char *path = fixture_make("readers", "checkpoint.keep=1");
	int status, opened = 0, bad = 0, different = 0;
	int64_t before = 0;
	bool weights;
	fixture_live(path, 1, false);
	pid_t child = fork();
	if (!child) {
		status = 0;
		for (int i = 2; i <= LIVES && !status; i++)
			status = fixture_live(path, i, i % 5 == 0);
		free(path);
		_exit(status);
	}
	error_tee(count_line, NULL);
	while (waitpid(child, &status, WNOHANG) == 0) {
		int result;
		int64_t step = open_step(path, NULL, &result, &weights);
		opened++;
		bad += step < before;
		different += step > before;
		before = step > before ? step : before;
	}
	error_tee(NULL, NULL);
	check_report(!status && !bad && !said, "readers find whole checkpoints while others go",
		"writer %d, %d of %d not opened, %d warnings", status, bad, opened, said);
	printf("# opened %d times, %d different steps\n", opened, different);
	free(path);
}

/* ---- faults ---- */

static char self[4096], shim[4096];

/* One life under the shim; its exit status, 128 + signal. */
static int live_with(const char *path, int step, const char *fault, const char *count)
{
	int status;
	pid_t child = fork();
	if (!child) {
		char number[16], pattern[512];
		snprintf(number, sizeof number, "%d", step);
		snprintf(pattern, sizeof pattern, "%s/*", path);
		setenv("LD_PRELOAD", shim, 1);
		setenv("NIGHTSHIFT_FAULT_PATH", pattern, 1);
		setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
		if (fault)
			setenv("NIGHTSHIFT_FAULT", fault, 1);
		if (count)
			setenv("NIGHTSHIFT_FAULT_COUNT", count, 1);
		execl(self, self, "live", path, number, "best", (char *)NULL);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child)
		return 127;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int read_count(const char *file, const char *kind)
{
	char *data, *next;
	size_t bytes, length = strlen(kind);
	int64_t count = 0;
	if (file_read(file, 4096, &data, &bytes))
		return 0;
	for (char *line = data; (next = strchr(line, '\n')); line = next + 1) {
		*next = 0;
		if (!strncmp(line, kind, length) && line[length] == ' ')
			text_to_int64(line + length + 1, &count);
	}
	free(data);
	return (int)count;
}

static bool same_file(const char *a, const char *b, const char *name)
{
	char *data[2] = {NULL, NULL};
	size_t bytes[2];
	bool equal = true;
	for (int i = 0; i < 2; i++) {
		char *path = path_join(i ? b : a, name);
		equal = equal && !file_read(path, 1 << 20, &data[i], &bytes[i]);
		free(path);
	}
	equal = equal && bytes[0] == bytes[1] && !memcmp(data[0], data[1], bytes[0]);
	free(data[0]);
	free(data[1]);
	return equal;
}

/* After a fault: a checkpoint is found and it is the old or the new one; a life without faults then ends where an undisturbed
 * run ends. */
static bool recovers(const char *path, const char *undisturbed, int *old, int *new)
{
	static const char *const files[] = {"log/step.tsv", "log/val.tsv", "checkpoints/best",
		"checkpoints/step-00000020/model/net/weights.safetensors",
		"checkpoints/step-00000020/optimizer/optimizer.safetensors",
		"checkpoints/weights-00000020/model/net/weights.safetensors"};
	int64_t step = resume_step(path);
	*old += step == 10;
	*new += step == 20;
	bool good = (step == 10 || step == 20) && !fixture_live(path, 20, true) && resume_step(path) == 20;
	for (size_t i = 0; i < sizeof files / sizeof *files && good; i++) {
		good = same_file(path, undisturbed, files[i]);
		if (!good)
			printf("# %s differs\n", files[i]);
	}
	return good && lists(path, "best step-00000010 step-00000020 weights-00000020");
}

static void test_faults(void)
{
	static const char *const kinds[] = {
		"open", "write", "fsync", "rename", "unlink", "link", "close", "mkdir"};
	static const char *const whats[] = {"KILL", "EIO", "ENOSPC"};
	char *base = fixture_make("faults", NULL), *undisturbed = path_join(check_scratch(), "undisturbed");
	char *path = path_join(check_scratch(), "faulty"), *counts = path_join(check_scratch(), "counts");
	fixture_live(base, 10, true);
	fixture_copy(base, undisturbed);
	if (!check(live_with(undisturbed, 20, NULL, counts) == 0 && read_count(counts, "fsync") > 10,
		    "a life under the shim"))
		return;
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		for (size_t w = 0; w < (strcmp(kinds[k], "link") && strcmp(kinds[k], "close") ? 3 : 2); w++) {
			int count = read_count(counts, kinds[k]), old = 0, new = 0, ended = 0;
			char fault[64], name[160];
			bool good = true;
			for (int n = 1; n <= count && good; n++) {
				fixture_copy(base, path);
				snprintf(fault, sizeof fault, "%s:%d:%s", kinds[k], n, whats[w]);
				int status = live_with(path, 20, fault, NULL);
				ended += status != 0;
				good = status != 127 && status != 125 &&
				       (w != 0 || status == 128 + SIGKILL) &&
				       (w == 0 || left_nothing(path)) &&
				       recovers(path, undisturbed, &old, &new);
				if (!good)
					printf("# %s: status %d\n", fault, status);
			}
			snprintf(name, sizeof name,
				"%s at each of %d %s: a good checkpoint is found, the run goes on", whats[w],
				count, kinds[k]);
			check(good && count > 0, name);
			printf("# the old one %d times, the new one %d times; %d lives ended by it\n", old,
				new, ended);
		}
	free(counts);
	free(path);
	free(undisturbed);
	free(base);
}

int main(int argc, char **argv)
{
	error_program(argv[0]);
	if (argc >= 4 && !strcmp(argv[1], "live")) {
		int64_t step = 0;
		text_to_int64(argv[3], &step);
		return error_print(fixture_live(argv[2], step, argc > 4));
	}
	ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	self[length > 0 ? length : 0] = 0;
	char *folder = path_directory(self);
	snprintf(shim, sizeof shim, "%s/faults.so", folder);
	free(folder);
	fixture_quiet();
	fixture_fast();
	test_state();
	test_state_hostile();
	test_save();
	test_shards();
	test_damage();
	test_phase_damage();
	test_logs_and_names();
	test_hostile_manifest();
	test_publish_once();
	test_keep();
	test_keep_stale();
	test_open();
	test_two_writers();
	test_readers();
	if (file_exists(shim))
		test_faults();
	else
		check_skip("faults", "the shim is not built");
	return check_summary();
}
