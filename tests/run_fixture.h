/* A small run for the tests of lib/run: its configuration, weights whose values follow from the step, and a life of it. */
#ifndef NIGHTSHIFT_TESTS_RUN_FIXTURE_H
#define NIGHTSHIFT_TESTS_RUN_FIXTURE_H

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "check.h"
#include "config/compose.h"
#include "run/checkpoint.h"

/* SCRATCH/NAME with a config.cfg: the default configuration and `word` ("checkpoint.keep=3", or NULL). */
__attribute__((unused)) static char *fixture_make(const char *name, const char *word)
{
	struct config_layer layers[] = {{"data.train.set.path=/nowhere", "test", LAYER_WORD},
		{word ? word : "task=depth", "test", LAYER_WORD}};
	struct config *config = NULL;
	char *path = path_join(check_scratch(), name), *file = path_join(path, "config.cfg");
	bool good = !file_make_directory(path) && !config_compose(layers, 2, &config);
	char *text = good ? config_canonical(config) : NULL;
	if (!text || file_publish(file, text, strlen(text))) {
		printf("not ok fixture: %s\n", error_message());
		exit(1);
	}
	free(text);
	free(file);
	config_free(config);
	return path;
}

enum { FIXTURE_TENSORS = 3, FIXTURE_ELEMENTS = 24 };
struct fixture_weights {
	float values[2][FIXTURE_TENSORS][FIXTURE_ELEMENTS];
	char names[2][FIXTURE_TENSORS][24];
	struct safetensor model[FIXTURE_TENSORS], optimizer[FIXTURE_TENSORS];
	struct checkpoint_text text;
	struct checkpoint_content content;
};

__attribute__((unused)) static void fixture_weights(struct fixture_weights *weights, int64_t step)
{
	static const char json[] = "{\"sample_size\": 8}\n";
	*weights = (struct fixture_weights){.text = {"model/net/config.json", json, sizeof json - 1}};
	for (int kind = 0; kind < 2; kind++)
		for (int i = 0; i < FIXTURE_TENSORS; i++) {
			float *values = weights->values[kind][i];
			for (int j = 0; j < FIXTURE_ELEMENTS; j++)
				values[j] = (float)(step * 1000 + kind * 500 + i * 100 + j) / 7;
			snprintf(weights->names[kind][i], sizeof weights->names[kind][i], "layer.%d%s", i, kind ? ".m" : "");
			(kind ? weights->optimizer : weights->model)[i] =
				(struct safetensor){.name = weights->names[kind][i],
					.type = SAFETENSORS_F32,
					.dims = 2,
					.dim = {4, FIXTURE_ELEMENTS / 4},
					.bytes = sizeof weights->values[kind][i],
					.data = values};
		}
	weights->content = (struct checkpoint_content){"net/weights", weights->model, FIXTURE_TENSORS,
		"optimizer", weights->optimizer, FIXTURE_TENSORS, &weights->text, 1};
}

/* Whether a checkpoint holds exactly the weights of that step. */
__attribute__((unused)) static bool fixture_equal(const struct checkpoint *checkpoint, int64_t step)
{
	struct fixture_weights weights;
	fixture_weights(&weights, step);
	for (int i = 0; i < FIXTURE_TENSORS; i++) {
		const struct safetensor *m = checkpoint_model(checkpoint, weights.model[i].name);
		const struct safetensor *o = checkpoint_optimizer(checkpoint, weights.optimizer[i].name);
		if (!m || m->bytes != weights.model[i].bytes ||
			memcmp(m->data, weights.model[i].data, m->bytes))
			return false;
		if (!checkpoint->weights_only && checkpoint->optimizer_files &&
			(!o || o->bytes != weights.optimizer[i].bytes ||
				memcmp(o->data, weights.optimizer[i].data, o->bytes)))
			return false;
	}
	return checkpoint->model_files > 0;
}

/* The phase behind a step: one row and where the run stands then. Left out where an earlier life has done it. */
__attribute__((unused)) static int fixture_validate(struct train_state *state, struct logs *logs)
{
	char line[64];
	if (state->phase != PHASE_VALIDATE)
		return STATUS_OK;
	state->phase = PHASE_PICTURES;
	state->sample = 3;
	snprintf(line, sizeof line, "%lld\tset\trmse\t0.1\t1\t0", (long long)state->step);
	int status = logs_row(logs, LOG_VAL, line);
	return status ? status : logs_sync(logs, &state->logs);
}

/* As checkpoint.keep_every has it. */
static inline bool fixture_keeps(const void *context, int64_t step)
{
	int64_t every = config_integer(context, "checkpoint.keep_every");
	return every > 0 && step % every == 0;
}

/* One whole life of a run: resume, claim, one row a step up to `last`, and then a save, the weights alone where that step is the best,
 * and the retention. Returns the status. */
__attribute__((unused)) static int fixture_live(const char *path, int64_t last, bool best)
{
	struct run run;
	struct shift shift;
	struct checkpoint checkpoint = {0};
	struct train_state state = {0};
	struct fixture_weights weights;
	struct logs *logs = NULL;
	bool found = false;
	int status = run_open(path, &run);
	if (status)
		return status;
	status = checkpoint_resume(&run, &checkpoint, &found);
	if (!status && found)
		status = train_state_copy(&state, &checkpoint.state);
	snprintf(state.config_id, sizeof state.config_id, "%s", config_id(run.config));
	if (!status)
		status = shift_claim(&shift, &run, true, state.step, NULL);
	if (!status)
		status = logs_open(&shift, found ? &state.logs : NULL, state.step + 1, "", &logs);
	if (!status && state.step < last) {
		status = fixture_validate(&state, logs);
		state.phase = PHASE_STEP;
	}
	while (!status && state.step < last) {
		char line[64];
		state.step++;
		snprintf(line, sizeof line, "%lld\t0\t%lld\t0.5\t1\t0.001", (long long)state.step,
			(long long)state.step * 4);
		status = logs_row(logs, LOG_STEP, line);
		if (!status)
			status = logs_scalar(logs, state.step, "train/loss", 0.5);
	}
	fixture_weights(&weights, last);
	if (!status && state.phase == PHASE_STEP) {
		state.phase = PHASE_VALIDATE;
		status = logs_sync(logs, &state.logs);
	}
	if (!status)
		status = checkpoint_save(&shift, &state, &weights.content, NULL, NULL);
	if (!status && best)
		status = checkpoint_save_weights(&shift, last, &weights.content);
	if (!status && best)
		status = checkpoint_best_write(
			&shift, last, "rmse", 1.0 / (double)last, fixture_keeps, run.config);
	if (!status)
		status = fixture_validate(&state, logs);
	if (!status)
		status = checkpoint_save_phase(&shift, &state);
	if (!status)
		status = checkpoint_prune(&shift, 2);
	if (!status)
		status = logs_close(logs);
	else
		logs_discard(logs);
	if (!status)
		status = shift_end(&shift, state.step, 0, "done");
	train_state_release(&state);
	checkpoint_release(&checkpoint);
	run_close(&run);
	return status;
}

/* A whole copy of a directory, made with cp: what the tests damage. */
__attribute__((unused)) static void fixture_copy(const char *from, const char *to)
{
	pid_t child;
	int status = 0;
	file_remove_tree(to);
	child = fork();
	if (!child) {
		execlp("cp", "cp", "-a", from, to, (char *)NULL);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child || status) {
		printf("not ok fixture: cp %s %s\n", from, to);
		exit(1);
	}
}

/* Hundreds of saves: in memory, where fsync costs nothing, unless the user says where. */
__attribute__((unused)) static void fixture_fast(void)
{
	if (!access("/dev/shm", W_OK | X_OK))
		setenv("TMPDIR", "/dev/shm", 0);
}

/* Warnings of the code under test would drown the results. */
__attribute__((unused)) static void fixture_quiet(void)
{
	int null = open("/dev/null", O_WRONLY);
	if (null < 0 || dup2(null, 2) < 0)
		exit(1);
	close(null);
}

#endif
