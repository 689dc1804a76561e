#include "task/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"

/* Whether the run was never trained and says what to use. The present error is that there are no checkpoints. */
static bool is_initial(const struct run *run, const char *which)
{
	char *best = run_path(run, "checkpoints");
	bool none = best && !file_exists(best);

	free(best);
	return none && (!which || !which[0]) && config_text(run->config, "init.weights")[0] &&
	       !config_text(run->config, "init.ignore")[0];
}

static int open_initial(const struct run *run, struct checkpoint *checkpoint)
{
	int status = checkpoint_open_path(config_text(run->config, "init.weights"), checkpoint);

	checkpoint->step = 0;
	return status ? error_prefix("init.weights") : STATUS_OK;
}

int origin_open(const struct run *run, const char *which, struct checkpoint *checkpoint)
{
	return is_initial(run, which) ? open_initial(run, checkpoint)
				      : checkpoint_open(run, which, checkpoint);
}

int origin_find(const struct run *run, const char *which, int64_t *step, char digest[16])
{
	struct checkpoint checkpoint = {0};
	int status;

	if (!is_initial(run, which))
		return checkpoint_newest(run, which, step, digest);
	status = open_initial(run, &checkpoint);
	*step = 0;
	snprintf(digest, 16, "%s", checkpoint.digest);
	checkpoint_release(&checkpoint);
	return status;
}
