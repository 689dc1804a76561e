/* One formula an operation; outputs are zeroed memory of their own. */
#ifndef NIGHTSHIFT_TESTS_REFERENCE_BODIES_H
#define NIGHTSHIFT_TESTS_REFERENCE_BODIES_H

#include "graph/backend.h"

typedef void reference_body(const struct call *call, double **in, double **out);
extern reference_body *const reference_bodies[OP_COUNT];

#endif
