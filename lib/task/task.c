#include <string.h>
#include "base/error.h"
#include "task/classify.h"
#include "task/depth.h"
#include "task/task.h"

static const struct task_kind *const kinds[] = {&depth_kind, &classify_kind};

const struct task_kind *task_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i]->name, name))
			return kinds[i];
	error_set(STATUS_CONFIG, "task \"%s\" is unknown", name);
	return NULL;
}
