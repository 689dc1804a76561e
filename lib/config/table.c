/* The option table. Order here is the order of config.cfg and of nightshift-run(5). */
#include "config/table.h"

#define IDENTITY true
#define OPERATIONAL false

/* clang-format off */
const struct config_key config_keys[] = {
	{"task", CONFIG_CHOICE, IDENTITY, "depth", 0, 0, "depth", "", "training system"},
	{"seed", CONFIG_INTEGER, IDENTITY, "2024", 0, 4294967295.0, "", "", "seed of every random stream"},

	{"model.name", CONFIG_CHOICE, IDENTITY, "unet", 0, 0, "unet", "", "network"},
	{"model.widths", CONFIG_INTEGERS, IDENTITY, "320,640,1280,1280", 8, 8192, "", "channels", "channels of each level"},
	{"model.heads", CONFIG_INTEGERS, IDENTITY, "5,10,20,20", 1, 256, "", "", "attention heads of each level"},
	{"model.attention", CONFIG_INTEGERS, IDENTITY, "1,1,1,0", 0, 1, "", "", "1: this level has transformer blocks"},
	{"model.layers", CONFIG_INTEGER, IDENTITY, "2", 1, 8, "", "", "residual blocks a down level"},
	{"model.norm_groups", CONFIG_INTEGER, IDENTITY, "32", 1, 256, "", "", "groups of the group norms"},
	{"model.context_width", CONFIG_INTEGER, IDENTITY, "1024", 1, 8192, "", "", "width of the text condition"},
	{"model.codec", CONFIG_CHOICE, IDENTITY, "patch", 0, 0, "patch", "", "latent codec: patch is a fixed transform of 8x8 patches"},
	{"model.context", CONFIG_PATH, IDENTITY, "", 0, 0, "", "", "safetensors file with empty_text_embed [1,2,C]; empty: a fixed random one"},

	{"init.weights", CONFIG_PATH, IDENTITY, "", 0, 0, "", "", "start from these weights: a run, a checkpoint or a diffusers directory"},
	{"init.ignore", CONFIG_TEXT, IDENTITY, "", 0, 0, "", "", "pattern of tensor names that may be missing or differ"},

	{"diffusion.timesteps", CONFIG_INTEGER, IDENTITY, "1000", 2, 100000, "", "", "length of the noise schedule"},
	{"diffusion.beta_start", CONFIG_NUMBER, IDENTITY, "0.00085", 1e-8, 1, "", "", "first beta (scaled linear)"},
	{"diffusion.beta_end", CONFIG_NUMBER, IDENTITY, "0.012", 1e-8, 1, "", "", "last beta"},
	{"diffusion.zero_snr", CONFIG_BOOL, IDENTITY, "true", 0, 0, "", "", "rescale to zero terminal signal-to-noise ratio"},
	{"diffusion.prediction", CONFIG_CHOICE, IDENTITY, "v", 0, 0, "v|epsilon|sample", "", "what the network predicts"},
	{"diffusion.spacing", CONFIG_CHOICE, IDENTITY, "trailing", 0, 0, "trailing|leading|linspace", "", "timesteps of sampling"},
	{"diffusion.final_alpha", CONFIG_CHOICE, IDENTITY, "one", 0, 0, "one|original", "", "alpha-bar behind the last sampling step: 1, or that of t = 0"},
	{"diffusion.last_share", CONFIG_NUMBER, IDENTITY, "0", 0, 1, "", "", "share of training samples drawn at the last timestep"},

	{"depth.quantile", CONFIG_NUMBER, IDENTITY, "0.02", 0, 0.49, "", "", "low quantile of the depth normaliser"},
	{"depth.holes", CONFIG_CHOICE, IDENTITY, "far", 0, 0, "far|original", "", "normalised depth of invalid pixels: far plane, or as the original"},
	{"depth.resize", CONFIG_CHOICE, IDENTITY, "antialiased", 0, 0, "antialiased|original", "", "resizing of RGB in training: anti-aliased, or nearest as the original"},
	{"depth.mask", CONFIG_BOOL, IDENTITY, "true", 0, 0, "", "", "loss over latent cells whose pixels are all valid"},

	{"data.flip", CONFIG_NUMBER, IDENTITY, "0.5", 0, 1, "", "", "probability of a horizontal flip"},
	{"data.skip", CONFIG_BOOL, OPERATIONAL, "false", 0, 0, "", "", "skip and count bad samples (drawing others) instead of stopping"},
	{"data.threads", CONFIG_INTEGER, OPERATIONAL, "1", 0, 64, "", "", "decoding threads; 0: none, decode between steps"},
	{"data.cache", CONFIG_BYTES, OPERATIONAL, "256 MiB", 0, 0, "", "", "decoded samples kept in memory"},

	{"batch.size", CONFIG_INTEGER, IDENTITY, "32", 1, 65536, "", "samples", "samples of one update"},
	{"batch.micro", CONFIG_INTEGER, IDENTITY, "2", 1, 65536, "", "samples", "samples of one forward and backward pass; divides batch.size"},
	{"batch.norm", CONFIG_CHOICE, IDENTITY, "micro", 0, 0, "micro|step|rank", "", "batch norm over a micro-batch, over all samples of a step, or over a rank's as the original"},
	{"batch.rest", CONFIG_CHOICE, IDENTITY, "carry", 0, 0, "carry|drop|short", "", "end of an epoch: fill the batch from the next one, drop what fills none, or a short batch as the original"},

	{"train.steps", CONFIG_INTEGER, OPERATIONAL, "30000", 1, 1e12, "", "steps", "updates in all"},
	{"train.epochs", CONFIG_INTEGER, OPERATIONAL, "0", 0, 1e9, "", "epochs", "passes over the training data in all; 0: train.steps says how long"},
	{"train.from", CONFIG_TEXT, IDENTITY, "", 0, 0, "", "", "first module that is trained, in the order of the network; empty: all are"},
	{"train.frozen_norm", CONFIG_BOOL, IDENTITY, "false", 0, 0, "", "", "batch norms before train.from keep their running statistics and use them"},
	{"loss.smoothing", CONFIG_NUMBER, IDENTITY, "0", 0, 1, "", "", "label smoothing of the cross-entropy"},
	{"optimizer.name", CONFIG_CHOICE, IDENTITY, "adam", 0, 0, "adam|adamw|sgd", "", "optimizer"},
	{"optimizer.lr", CONFIG_NUMBER, IDENTITY, "3e-5", 0, 100, "", "", "base learning rate"},
	{"optimizer.beta1", CONFIG_NUMBER, IDENTITY, "0.9", 0, 0.999999, "", "", "Adam: decay of the first moment"},
	{"optimizer.beta2", CONFIG_NUMBER, IDENTITY, "0.999", 0, 0.99999999, "", "", "Adam: decay of the second moment"},
	{"optimizer.epsilon", CONFIG_NUMBER, IDENTITY, "1e-8", 0, 1, "", "", "Adam: added to the root of the second moment"},
	{"optimizer.momentum", CONFIG_NUMBER, IDENTITY, "0.9", 0, 0.999999, "", "", "SGD: momentum"},
	{"optimizer.dampening", CONFIG_NUMBER, IDENTITY, "0", 0, 1, "", "", "SGD: part of each gradient that momentum leaves out, the first step aside"},
	{"optimizer.nesterov", CONFIG_BOOL, IDENTITY, "false", 0, 0, "", "", "SGD: Nesterov momentum"},
	{"optimizer.weight_decay", CONFIG_NUMBER, IDENTITY, "0", 0, 100, "", "", "weight decay; of adamw apart from the gradient"},
	{"optimizer.decay_vectors", CONFIG_BOOL, IDENTITY, "true", 0, 0, "", "", "weight decay of norms and biases, too, as the original"},
	{"optimizer.ema", CONFIG_NUMBER, IDENTITY, "0", 0, 0.99999999, "", "", "decay of a running average of the weights, which is then what is saved as the model; 0: none"},
	{"optimizer.clip", CONFIG_NUMBER, IDENTITY, "0", 0, 1e9, "", "", "largest global gradient norm; 0: no clipping"},
	{"schedule.name", CONFIG_CHOICE, IDENTITY, "exponential", 0, 0, "constant|exponential|cosine|multistep|two-steps|plateau", "", "learning-rate schedule"},
	{"schedule.by", CONFIG_CHOICE, IDENTITY, "step", 0, 0, "step|epoch", "", "what schedule.total and schedule.milestones count; the rate changes when one is complete"},
	{"schedule.warmup", CONFIG_INTEGER, IDENTITY, "100", 0, 1e12, "", "steps", "linear warm-up"},
	{"schedule.total", CONFIG_INTEGER, IDENTITY, "25000", 1, 1e12, "", "", "step (or epoch) at which the final ratio is reached"},
	{"schedule.final_ratio", CONFIG_NUMBER, IDENTITY, "0.01", 0, 1, "", "", "last learning rate over the base rate"},
	{"schedule.milestones", CONFIG_INTEGERS, IDENTITY, "", 1, 1e12, "", "", "multistep: where the rate is cut; two-steps: behind which it is; rising"},
	{"schedule.gamma", CONFIG_NUMBER, IDENTITY, "0.1", 0, 1e6, "", "", "multistep, plateau: factor of each cut; two-steps: what the rate is divided by"},
	{"schedule.patience", CONFIG_INTEGER, IDENTITY, "10", 0, 1e9, "", "epochs", "plateau: epochs without a better loss before a cut"},
	{"schedule.threshold", CONFIG_NUMBER, IDENTITY, "1e-4", 0, 1, "", "", "plateau: a loss is better when it is below the best one by this part of it"},
	{"schedule.metric", CONFIG_TEXT, IDENTITY, "loss", 0, 0, "", "", "plateau: metric of the first validation set that is to fall"},

	{"validate.every", CONFIG_INTEGER, OPERATIONAL, "500", 0, 1e12, "", "steps", "validate every so many steps; 0: never"},
	{"validate.epochs", CONFIG_INTEGER, OPERATIONAL, "0", 0, 1e9, "", "epochs", "validate at the end of every so many epochs; 0: by steps alone; plateau: of each"},
	{"validate.steps", CONFIG_INTEGER, IDENTITY, "1", 1, 1000, "", "", "sampling steps of validation and pictures"},
	{"validate.metric", CONFIG_CHOICE, IDENTITY, "abs_relative_difference", 0, 0,
		"abs_relative_difference|squared_relative_difference|rmse_linear|rmse_log|log10|delta1_acc|delta2_acc|delta3_acc|i_rmse|silog_rmse",
		"", "metric of the first validation set that chooses the best weights"},
	{"picture.every", CONFIG_INTEGER, OPERATIONAL, "1000", 0, 1e12, "", "steps", "write pictures every so many steps; 0: never"},
	{"picture.epochs", CONFIG_INTEGER, OPERATIONAL, "0", 0, 1e9, "", "epochs", "write pictures at the end of every so many epochs; 0: by steps alone"},
	{"picture.count", CONFIG_INTEGER, OPERATIONAL, "4", 1, 1000, "", "samples", "pictures of each dataset of data.vis"},

	{"predict.steps", CONFIG_INTEGER, OPERATIONAL, "1", 1, 1000, "", "", "sampling steps of predict and eval"},
	{"predict.align", CONFIG_CHOICE, OPERATIONAL, "least-squares", 0, 0, "least-squares|disparity|none", "", "alignment of eval"},

	{"checkpoint.every", CONFIG_INTEGER, OPERATIONAL, "0", 0, 1e12, "", "steps", "save every so many steps; 0: by minutes alone"},
	{"checkpoint.epochs", CONFIG_INTEGER, OPERATIONAL, "0", 0, 1e9, "", "epochs", "save at the end of every so many epochs; 0: by steps and minutes alone"},
	{"checkpoint.minutes", CONFIG_NUMBER, OPERATIONAL, "15", 0, 100000, "", "min", "save when the last save is this old; 0: by steps alone"},
	{"checkpoint.keep", CONFIG_INTEGER, OPERATIONAL, "2", 1, 1000, "", "", "newest checkpoints kept"},
	{"checkpoint.keep_every", CONFIG_INTEGER, OPERATIONAL, "0", 0, 1e12, "", "steps", "keep weights alone every so many steps; 0: never"},
	{"checkpoint.keep_epochs", CONFIG_INTEGER, OPERATIONAL, "0", 0, 1e9, "", "epochs", "keep weights alone at the end of every so many epochs; 0: by steps alone"},
	{"checkpoint.best", CONFIG_BOOL, OPERATIONAL, "true", 0, 0, "", "", "keep the weights with the best validation metric"},

	{"cpu.threads", CONFIG_INTEGER, IDENTITY, "0", 0, 1024, "", "", "threads a process; 0: the CPUs of the first shift"},
	{"cpu.isa", CONFIG_CHOICE, IDENTITY, "auto", 0, 0, "auto|plain|avx2|avx512", "", "highest instruction set"},
	{"precision", CONFIG_CHOICE, IDENTITY, "auto", 0, 0, "auto|f32", "", "type of computation"},
	{"memory", CONFIG_BYTES, OPERATIONAL, "0", 0, 0, "", "", "memory budget of the device; 0: what it has"},
	{"parallel.exact", CONFIG_BOOL, IDENTITY, "true", 0, 0, "", "", "add the ranks' gradients in a fixed order: equal bits for any number of ranks"},
	{"parallel.timeout", CONFIG_NUMBER, OPERATIONAL, "600", 1, 1e6, "", "s", "a rank that is silent for so long is lost; longer than any save"},
	{"stage.to", CONFIG_PATH, OPERATIONAL, "", 0, 0, "", "", "node-local scratch; empty: the site's usual places"},
	{"stage.in_place", CONFIG_BOOL, OPERATIONAL, "false", 0, 0, "", "", "read the data where it is, copy nothing"},
	{0}};

const struct config_key config_group_keys[] = {
	{"layout", CONFIG_CHOICE, IDENTITY, "plain", 0, 0, "plain|nyu|kitti", "", "family of the dataset"},
	{"path", CONFIG_PATH, OPERATIONAL, "", 0, 0, "", "", "root directory or tar archive"},
	{"list", CONFIG_PATH, IDENTITY, "", 0, 0, "", "", "split list, one sample a line; empty: all, in byte order"},
	{"weight", CONFIG_NUMBER, IDENTITY, "1", 0, 1e9, "", "", "share of the samples drawn from this dataset"},
	{"size", CONFIG_INTEGERS, IDENTITY, "", 8, 16384, "", "pixels", "height,width to resize to; empty: as it is"},
	{"crop", CONFIG_CHOICE, IDENTITY, "none", 0, 0, "none|eigen|garg", "", "evaluation crop"},
	{"benchmark_crop", CONFIG_BOOL, IDENTITY, "true", 0, 0, "", "", "kitti: 352x1216"},
	{"scale", CONFIG_NUMBER, IDENTITY, "0", 0, 1e9, "", "", "plain: stored depth over metres; 0: 1000"},
	{"min", CONFIG_NUMBER, IDENTITY, "0", 0, 1e9, "", "m", "valid depth above this; 0 with max 0: the layout's range"},
	{"max", CONFIG_NUMBER, IDENTITY, "0", 0, 1e9, "", "m", "valid depth below this"},
	{0}};
