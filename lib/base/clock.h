/* Clocks: monotonic seconds since the process started (for decisions), wall time (for people and logs). */
#ifndef NIGHTSHIFT_BASE_CLOCK_H
#define NIGHTSHIFT_BASE_CLOCK_H

#include <stdint.h>

double clock_seconds(void);      /* CLOCK_MONOTONIC, seconds since the first call or program start */
double clock_wall(void);         /* seconds since 1970 */
void clock_sleep(double seconds); /* shorter when a signal is handled meanwhile */
/* "2026-01-31T12:34:56Z" of a wall time. */
const char *clock_text(double wall, char buffer[32]);
/* TIME of --until: epoch seconds, "HH:MM[:SS]" (the next such local time) or "YYYY-MM-DDTHH:MM[:SS]"; 0 ok, else 1. */
int clock_parse(const char *text, double *wall);

#endif
