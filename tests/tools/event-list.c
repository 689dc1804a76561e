/* event-list FILE ...: the scalars and images of event files, one a line: tag, step, value. For the Bats files. */
#include <stdio.h>
#include "base/error.h"
#include "file/tfevents.h"

static int print(void *context, int64_t step, const char *tag, double value)
{
	(void)context;
	printf("%s\t%lld\t%.9g\n", tag, (long long)step, value);
	return 0;
}

int main(int argc, char **argv)
{
	int status = 0, torn;

	error_program(argv[0]);
	for (int i = 1; i < argc && !status; i++)
		status = tfevents_scan(argv[i], print, NULL, &torn);
	return close_stdout(status ? error_print(status) : 0);
}
