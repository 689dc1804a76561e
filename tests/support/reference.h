/*
 * The reference back end: every operation as the plain formula in double, for tests.
 *
 * Graphs compute addresses in units of float; this device keeps a double beside each float of what it allocates and works
 * on those. read() and write() convert; reference_at() gives the double itself.
 */
#ifndef NIGHTSHIFT_TESTS_REFERENCE_H
#define NIGHTSHIFT_TESTS_REFERENCE_H

#include "graph/backend.h"

extern const struct backend reference_backend;

/* The doubles of the memory at an address of a reference device. */
double *reference_at(const struct device *device, const void *address);
/* Whether this operation has run on any reference device of this process. */
bool reference_ran(enum operation operation);

#endif
