/* Finding the MPI plugin. */
#include "base/plugin.h"
#include "comm/ranks.h"

int comm_load_plugin(const struct comm_transport **transport)
{
	const void *table;
	/* MPI's own plugins look for its symbols among all. */
	int status = plugin_load("nightshift-mpi.so", "nightshift_transport", true,
		"this build runs one process only (nightshift-mpi.so is not beside it: install Open MPI's "
		"development package and run make)",
		&table);

	*transport = table;
	return status;
}
