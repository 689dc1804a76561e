#include "train/epoch.h"
#include "train/loop.h"

int64_t epoch_of(const struct loop_task *task, int64_t step)
{
	if (task->epoch_steps > 0)
		return step / task->epoch_steps;
	return step * task->batch / task->epoch_samples;
}

int64_t epoch_end(const struct loop_task *task, int64_t epochs)
{
	if (task->epoch_steps > 0)
		return epochs * task->epoch_steps;
	return (epochs * task->epoch_samples + task->batch - 1) / task->batch;
}

int64_t epoch_step_samples(const struct loop_task *task, int64_t step)
{
	if (task->epoch_steps > 0 && task->last_batch > 0 &&
		step % task->epoch_steps == task->epoch_steps - 1)
		return task->last_batch;
	return task->batch;
}
