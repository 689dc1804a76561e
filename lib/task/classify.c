#include "task/classify.h"

const struct task_kind classify_kind = {
	.name = "classify",
	.training_open = classify_training_open,
	.training_prepare = classify_training_prepare,
	.training_start = classify_training_start,
	.training_close = classify_training_close,
	.group_check = classify_group_check,
	.predictor_open = classify_predictor_open,
	.predictor_prepare = classify_predictor_prepare,
	.predictor_set = classify_predictor_set,
	.predictor_samples = classify_predictor_samples,
	.predictor_settings = classify_predictor_settings,
	.predict = classify_predictor_predict,
	.predictor_finish = classify_predictor_finish,
	.predictor_path = classify_predictor_path,
	.predictor_close = classify_predictor_close,
	.score = classify_group_score,
	.score_missing = classify_group_missing,
};
