/* The watch that takes the time of each operation: a table, and a trace for a browser. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "graph/internal.h"

#define PROFILE_EXTRA 8 /* kinds of work outside the operations, at most */
#define MACHINE_ROWS 1024
#define MACHINE_ARRAY (16 << 20) /* floats: beyond any cache */
#define MACHINE_TRIES 4

struct spent {
	const char *what;
	double seconds, flops, traffic;
	int64_t calls;
};

struct event {
	const struct node *node; /* NULL: outside the operations */
	const char *what;
	double start, seconds;
};

struct profile {
	struct spent spent[OP_COUNT + PROFILE_EXTRA];
	int extra;
	struct event *events;
	size_t count, capacity;
};

struct profile *profile_new(void)
{
	return memory_new(1, sizeof(struct profile));
}

void profile_free(struct profile *profile)
{
	if (profile)
		free(profile->events);
	free(profile);
}

static void count(struct spent *spent, const char *what, double seconds)
{
	spent->what = what;
	spent->seconds += seconds;
	spent->calls++;
}

static int remember(struct profile *profile, struct event event)
{
	if (memory_grow(&profile->events, &profile->capacity, profile->count + 1, sizeof(event)))
		return error_status();
	profile->events[profile->count++] = event;
	return STATUS_OK;
}

int watch_profile(void *state, struct graph *graph, const struct call *call)
{
	struct profile *profile = state;
	const struct node *node = call->node;
	struct spent *spent = &profile->spent[node->operation];
	double start = clock_seconds(), seconds;
	int status = graph_run_call(graph, call);

	seconds = clock_seconds() - start;
	count(spent, operation_name(node->operation), seconds);
	spent->flops += node->flops;
	spent->traffic += node->traffic;
	return status ? status
		      : remember(profile, (struct event){node, spent->what, .start = start, seconds});
}

int profile_add(struct profile *profile, const char *what, double start, double seconds)
{
	int i = 0;

	while (i < profile->extra && strcmp(profile->spent[OP_COUNT + i].what, what) != 0)
		i++;
	if (i == PROFILE_EXTRA)
		return error_set(STATUS_FAILURE, "too many kinds of work in a profile");
	if (i == profile->extra)
		profile->extra++;
	count(&profile->spent[OP_COUNT + i], what, seconds);
	return remember(profile, (struct event){NULL, what, .start = start, seconds});
}

/* ---- the table ---- */

static int longest_first(const void *a, const void *b)
{
	const struct spent *x = a, *y = b;

	return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static void add_row(
	struct text *rows, const struct spent *spent, const struct machine *machine, double steps, double all)
{
	double seconds = spent->seconds > 0 ? spent->seconds : 1e-9;
	double flops = spent->flops / seconds, traffic = spent->traffic / seconds;

	text_format(rows, "%s\t%.6g\t%.6f\t%.4f\t%.2f\t%.2f\t%.3f\t%.3f\n", spent->what,
		(double)spent->calls / steps, spent->seconds / steps, spent->seconds / all, flops * 1e-9,
		traffic * 1e-9, flops / machine->flops, traffic / machine->traffic);
}

int profile_table(const struct profile *profile, const struct machine *machine, int64_t steps, double seconds,
	struct text *rows)
{
	struct spent sorted[OP_COUNT + PROFILE_EXTRA], other = {"other", seconds}, step = {"step", seconds};

	memcpy(sorted, profile->spent, sizeof(sorted));
	qsort(sorted, sizeof(sorted) / sizeof(sorted[0]), sizeof(sorted[0]), longest_first);
	text_add(rows, "#operation\tcalls\tseconds\tshare\tgflops\tgbytes_s\tof_product\tof_copy\n");
	other.calls = step.calls = steps;
	for (size_t i = 0; i < sizeof(sorted) / sizeof(sorted[0]); i++) {
		if (!sorted[i].calls)
			continue;
		add_row(rows, &sorted[i], machine, (double)steps, seconds);
		other.seconds -= sorted[i].seconds;
		step.flops += sorted[i].flops;
		step.traffic += sorted[i].traffic;
	}
	add_row(rows, &other, machine, (double)steps, seconds);
	add_row(rows, &step, machine, (double)steps, seconds);
	text_format(
		rows, "#machine\t\t\t\t%.2f\t%.2f\t1\t1\n", machine->flops * 1e-9, machine->traffic * 1e-9);
	return text_check(rows);
}

/* ---- the trace ---- */

static void add_string(struct text *json, const char *value)
{
	text_append(json, "\"", 1);
	for (const char *c = value ? value : ""; *c; c++) {
		if (*c == '"' || *c == '\\')
			text_append(json, "\\", 1);
		text_append(json, (unsigned char)*c < ' ' ? " " : c, 1);
	}
	text_append(json, "\"", 1);
}

int profile_trace(const struct profile *profile, int process, struct text *json)
{
	double zero = profile->count ? profile->events[0].start : 0;

	/* What lies outside the operations may be told after it began. */
	for (size_t i = 0; i < profile->count; i++)
		zero = profile->events[i].start < zero ? profile->events[i].start : zero;
	text_add(json, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
	for (size_t i = 0; i < profile->count; i++) {
		const struct event *event = &profile->events[i];

		text_add(json, i ? ",\n{\"name\":" : "\n{\"name\":");
		add_string(json, event->node && event->node->name ? event->node->name : event->what);
		text_add(json, ",\"cat\":");
		add_string(json, event->what);
		text_format(json, ",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f", process,
			(event->start - zero) * 1e6, event->seconds * 1e6);
		if (event->node)
			text_format(json, ",\"args\":{\"flops\":%.0f,\"bytes\":%.0f}", event->node->flops,
				event->node->traffic);
		text_add(json, "}");
	}
	text_add(json, "\n]}\n");
	return text_check(json);
}

/* ---- the machine ---- */

/* The shortest of a few runs of a graph. */
static int shortest(struct graph *graph, double *seconds)
{
	int status = STATUS_OK;

	*seconds = 1e30;
	for (int i = 0; i < MACHINE_TRIES && !status; i++) {
		double start = clock_seconds(), took;

		status = graph_run(graph);
		took = clock_seconds() - start;
		*seconds = took < *seconds ? took : *seconds;
	}
	return status;
}

static int measure(struct program *program, struct machine *machine)
{
	struct graph *product = graph_new(program, "product", false), *copy;
	double seconds;
	int status;

	copy = product ? graph_new(program, "copy", false) : NULL;
	if (!copy)
		return error_status();
	graph_output(product,
		graph_linear(product,
			graph_input(product, "x", TENSOR_F32, 2, (int64_t[]){MACHINE_ROWS, MACHINE_ROWS}),
			"product", MACHINE_ROWS, false));
	graph_output(copy,
		graph_scale(copy, graph_input(copy, "x", TENSOR_F32, 1, (int64_t[]){MACHINE_ARRAY}), 0.5));
	status = program_prepare(program);
	if (!status)
		status = store_initialise(program_store(program), 1);
	if (!status && !(status = shortest(product, &seconds)))
		machine->flops = graph_flops(product) / seconds;
	if (!status && !(status = shortest(copy, &seconds)))
		machine->traffic = graph_traffic(copy) / seconds;
	return status;
}

int machine_measure(struct device *device, struct machine *machine)
{
	struct program *program = program_new(device);
	int status = program ? measure(program, machine) : error_status();

	program_free(program);
	return status;
}
