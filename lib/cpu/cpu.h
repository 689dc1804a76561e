/* The CPU back end: reference and embedded default. */
#ifndef NIGHTSHIFT_CPU_CPU_H
#define NIGHTSHIFT_CPU_CPU_H

#include "graph/backend.h"

extern const struct backend cpu_backend;

#endif
