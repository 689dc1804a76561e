#include "task/recipe.h"

#include <string.h>

int64_t recipe_micros(const struct config *config)
{
	return config_integer(config, "batch.size") / config_integer(config, "batch.micro");
}

int recipe_update_rule(const struct config *config, const struct comm *comm, struct program *program)
{
	struct optimizer_rule rule = {
		.kind = strcmp(config_text(config, "optimizer.name"), "sgd") ? OPTIMIZER_ADAM : OPTIMIZER_SGD,
		.beta1 = config_number(config, "optimizer.beta1"),
		.beta2 = config_number(config, "optimizer.beta2"),
		.epsilon = config_number(config, "optimizer.epsilon"),
		.momentum = config_number(config, "optimizer.momentum"),
		.clip = config_number(config, "optimizer.clip"),
	};
	int64_t micros = recipe_micros(config);

	program_micros(program, micros / comm->size);
	if (micros == 1 && rule.clip == 0)
		program_early_updates(program);
	return program_update_rule(program, &rule);
}

void recipe_loop(const struct config *config, struct loop_task *loop)
{
	loop->batch = config_integer(config, "batch.size");
	loop->micros = recipe_micros(config);
	loop->schedule = (struct schedule){
		.kind = (enum schedule_kind)schedule_kind(config_text(config, "schedule.name")),
		.warmup = config_integer(config, "schedule.warmup"),
		.total = config_integer(config, "schedule.total"),
		.final_ratio = config_number(config, "schedule.final_ratio"),
	};
	loop->seed = (uint64_t)config_integer(config, "seed");
	loop->learning_rate = config_number(config, "optimizer.lr");
}
