/*
 * A back end is a table of functions; the graph knows nothing else of it. Bodies get pointers and shapes in a `call`.
 */
#ifndef NIGHTSHIFT_GRAPH_BACKEND_H
#define NIGHTSHIFT_GRAPH_BACKEND_H

#include "graph/operation.h"

struct call {
	const struct node *node;
	const struct tensor *in[NODE_INPUTS], *out[NODE_OUTPUTS]; /* shapes; NULL: absent */
	void *in_data[NODE_INPUTS], *out_data[NODE_OUTPUTS];      /* NULL while preparing */
	void *workspace;                                          /* node->workspace bytes, 64-byte aligned */
	const struct step_scalars *scalars;                       /* of the run; NULL while preparing */
	int ranks;                                                /* that share the statistics of batch norms; at least 1 */
	struct program_exchange *exchange; /* whose gather() adds them up, where it has one; its failure goes to `failed` */
};

struct device_settings {
	int threads;      /* of this process; > 0 */
	const char *isa;  /* "auto", "plain", "avx2", "avx512": the highest instruction set to use */
	/* Of products: "auto" (or NULL) and "f32"; "bf16": as the device does it best; "bf16-amx", "bf16-avx512": in this way. */
	const char *precision;
};

/* One parameter's slots for the optimizer bodies; `scale` multiplies the gradient (clipping). */
struct update_call {
	float *value, *gradient, *moment1, *moment2, *average;
	size_t count;
	const struct optimizer_rule *rule;
	const struct step_scalars *scalars;
	double scale;
};

/* A parameter that is updated by rows of `width` floats. */
#define ROW_UPDATES 1024
struct row_updates {
	size_t width;
	uint16_t *done;     /* by row: how many of the updates below it has had */
	const double *rate; /* learning rates of the updates number first, first + 1, ... (step_scalars.step); at most ROW_UPDATES */
	int64_t first;
	int count;          /* how many the parameter has had */
	bool restart;       /* when all rows have had them, they begin to count anew: done[] becomes 0 */
};

struct backend {
	const char *name; /* "cpu", "cuda" */
	int (*open)(const struct device_settings *settings, struct device **device);
	void (*close)(struct device *device);
	/* Words for platform.cfg: the instruction set in use, the processor's or device's name. Valid while open. */
	const char *(*isa)(const struct device *device);
	const char *(*model)(const struct device *device);
	const char *(*precision)(const struct device *device); /* "f32", "bf16-amx", ... */
	void *(*allocate)(struct device *device, size_t bytes); /* zeroed, aligned to 64; NULL with a message */
	void (*release)(struct device *device, void *memory);
	int (*write)(struct device *device, void *to, const void *from, size_t bytes);
	int (*read)(struct device *device, void *to, const void *from, size_t bytes);
	int (*copy)(struct device *device, void *to, const void *from, size_t bytes); /* both on the device */
	/* False when there is no body for this operation and these shapes. */
	bool (*supports)(const struct device *device, const struct call *call);
	size_t (*workspace)(const struct device *device, const struct call *call);
	int (*run)(struct device *device, const struct call *call);
	/* Vector helpers over parameters. */
	int (*add)(struct device *device, float *to, const float *from, size_t count);      /* to += from */
	int (*scale)(struct device *device, float *data, double factor, size_t count);
	/* Sum of squares in double, fixed order; nan or inf when an element is. */
	int (*sum_squares)(struct device *device, const float *data, size_t count, double *sum);
	int (*update)(struct device *device, const struct update_call *call);
	/* Updates by rows; both may be NULL. Rows that `reader` will read (NULL: all) get what they lack of `count` updates, with
	 * gradients of 0. */
	int (*replay_rows)(struct device *device, const struct update_call *call, const struct row_updates *rows,
		const struct call *reader);
	/* The update number first + count, whose rate is rate[count]: rows whose gradient is not 0 get what they lack, then this. */
	int (*update_rows)(struct device *device, const struct update_call *call, const struct row_updates *rows);
};

struct device {
	const struct backend *backend;
	/* the back end's own members follow in its own structure */
};

#endif
