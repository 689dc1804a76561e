#include "task/depth.h"

const struct task_kind depth_kind = {
	.name = "depth",
	.training_open = depth_training_open,
	.training_prepare = depth_training_prepare,
	.training_start = depth_training_start,
	.training_close = depth_training_close,
	.group_check = depth_group_check,
	.predictor_open = depth_predictor_open,
	.predictor_prepare = depth_predictor_prepare,
	.predictor_set = depth_predictor_set,
	.predictor_samples = depth_predictor_samples,
	.predictor_settings = depth_predictor_settings,
	.predict = depth_predictor_predict,
	.predictor_close = depth_predictor_close,
	.score = depth_group_score,
	.score_missing = depth_group_missing,
};
